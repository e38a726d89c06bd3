"""IncrementalAlterConfigs (44): set, delete, append to or subtract from single settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.api.alterable_resources import refusal
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
    response = await node.controller.incremental_alter_configs(request)
    response.responses += refused
    return response


def error_response(
    request: IncrementalAlterConfigsRequest, code: ErrorCode, version: int
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=code,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )
