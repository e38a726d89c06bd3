"""IncrementalAlterConfigs (44): set, delete, append to or subtract from single settings."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from barnabas.api.alterable_resources import answers, take_refused
from barnabas.api.broker_loggers import alter_loggers
from barnabas.metadata.image import ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.INCREMENTAL_ALTER_CONFIGS
VERSIONS = (0, 1)

BROKER_LOGGER: Final = ResourceType.BROKER_LOGGER


async def handle(
    node: Node, context: Context, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    loggers = _take_loggers(node, request)
    refused = take_refused(node, request.resources, AlterConfigsResourceResponse)
    response = await node.controller.incremental_alter_configs(request)
    response.responses += refused + loggers
    return response


def _take_loggers(
    node: Node, request: IncrementalAlterConfigsRequest
) -> list[AlterConfigsResourceResponse]:
    """Those for loggers are done here and now, and taken out of the request."""
    asked = [each for each in request.resources if each.resource_type == BROKER_LOGGER]
    if not asked:
        return []
    request.resources = [each for each in request.resources if each.resource_type != BROKER_LOGGER]
    counts = Counter(each.resource_name for each in asked)
    done: list[AlterConfigsResourceResponse] = []
    for each in asked:
        code, message = ErrorCode.NONE, None
        try:
            if counts[each.resource_name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            _check_node(node, each.resource_name)
            alter_loggers(each.configs, validate_only=request.validate_only)
        except ApiError as error:
            code, message = error.code, error.message
        done += answers((each,), AlterConfigsResourceResponse, code, message)
    return done


def _check_node(node: Node, name: str) -> None:
    if not name.removeprefix("-").isdecimal():
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if int(name) != node.node_id:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected node id. Expected {node.node_id}, but received {name}",
        )


def error_response(
    request: IncrementalAlterConfigsRequest, code: ErrorCode, version: int
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=answers(request.resources, AlterConfigsResourceResponse, code)
    )
