"""UpdateFeatures (57): raise or lower the finalized level of a feature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.UPDATE_FEATURES
VERSIONS = (0, 2)


async def handle(
    node: Node, context: Context, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    return await node.controller.update_features(request)


def error_response(
    request: UpdateFeaturesRequest, code: ErrorCode, version: int
) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=code, error_message=code.message)
