"""IncrementalAlterConfigs (44): set, delete, append to or subtract from single settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.api.alterable_resources import answers, take_refused
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.INCREMENTAL_ALTER_CONFIGS
VERSIONS = (0, 1)


async def handle(
    node: Node, context: Context, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    refused = take_refused(node, request.resources, AlterConfigsResourceResponse)
    response = await node.controller.incremental_alter_configs(request)
    response.responses += refused
    return response


def error_response(
    request: IncrementalAlterConfigsRequest, code: ErrorCode, version: int
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=answers(request.resources, AlterConfigsResourceResponse, code)
    )
