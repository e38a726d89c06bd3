"""CreatePartitions (37): more partitions for a topic; never fewer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.CREATE_PARTITIONS
VERSIONS = (0, 3)


async def handle(
    node: Node, context: Context, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    return await node.controller.create_partitions(request)


def error_response(
    request: CreatePartitionsRequest, code: ErrorCode, version: int
) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=code)
            for topic in request.topics
        ]
    )
