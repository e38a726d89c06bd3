"""AlterConfigs (33): replace all settings of a resource. IncrementalAlterConfigs is the better way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.api.alterable_resources import refusal
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
    refused = []
    asked = []
    for resource in request.resources:
        reason = refusal(node, resource.resource_type, resource.resource_name)
        if reason is None:
            asked.append(resource)
            continue
        refused.append(
            AlterConfigsResourceResponse(
                error_code=ErrorCode.INVALID_REQUEST,
                error_message=reason,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    request.resources = asked
    response = await node.controller.alter_configs(request)
    response.responses += refused
    return response


def error_response(
    request: AlterConfigsRequest, code: ErrorCode, version: int
) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=code,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )
