"""AlterConfigs (33): replace all settings of a resource. IncrementalAlterConfigs is the better way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.api.alterable_resources import answers, take_refused
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.ALTER_CONFIGS
VERSIONS = (0, 2)


async def handle(
    node: Node, context: Context, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    refused = take_refused(node, request.resources, AlterConfigsResourceResponse)
    response = await node.controller.alter_configs(request)
    response.responses += refused
    return response


def error_response(
    request: AlterConfigsRequest, code: ErrorCode, version: int
) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=answers(request.resources, AlterConfigsResourceResponse, code)
    )
