"""BrokerRegistration (62): a broker begins a new life and asks for its epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, ControllerNode

KEY = ApiKey.BROKER_REGISTRATION
VERSIONS = (0, 4)


async def handle(
    node: ControllerNode, context: Context, request: BrokerRegistrationRequest
) -> BrokerRegistrationResponse:
    return await node.controller.register_broker(request)


def error_response(
    request: BrokerRegistrationRequest, code: ErrorCode, version: int
) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(error_code=code)
