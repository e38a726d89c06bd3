"""DeleteTopics (20): by name, or since version 6 by name or id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.DELETE_TOPICS
VERSIONS = (1, 6)

FIRST_VERSION_WITH_TOPIC_IDS = 6


async def handle(
    node: Node, context: Context, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    if not node.config.delete_topic_enable:
        return error_response(request, ErrorCode.TOPIC_DELETION_DISABLED, context.api_version)
    if context.api_version < FIRST_VERSION_WITH_TOPIC_IDS:
        request = DeleteTopicsRequest(topics=_states(request), timeout_ms=request.timeout_ms)
    return await node.controller.delete_topics(request)


def _states(request: DeleteTopicsRequest) -> list[DeleteTopicState]:
    return request.topics or [DeleteTopicState(name=name) for name in request.topic_names]


def error_response(
    request: DeleteTopicsRequest, code: ErrorCode, version: int
) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                error_code=code,
                error_message=code.message,
            )
            for topic in _states(request)
        ]
    )
