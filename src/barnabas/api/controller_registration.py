"""ControllerRegistration (70): a controller tells its endpoints and features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, ControllerNode

KEY = ApiKey.CONTROLLER_REGISTRATION
VERSIONS = (0, 0)


async def handle(
    node: ControllerNode, context: Context, request: ControllerRegistrationRequest
) -> ControllerRegistrationResponse:
    return await node.controller.register_controller(request)


def error_response(
    request: ControllerRegistrationRequest, code: ErrorCode, version: int
) -> ControllerRegistrationResponse:
    return ControllerRegistrationResponse(error_code=code, error_message=code.message)
