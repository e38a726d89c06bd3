"""CreateTopics (19): the controller decides, and the answer comes once this broker has the topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.CREATE_TOPICS
VERSIONS = (2, 7)


async def handle(
    node: Node, context: Context, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    return await node.controller.create_topics(request)


def error_response(
    request: CreateTopicsRequest, code: ErrorCode, version: int
) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name=topic.name, error_code=code) for topic in request.topics]
    )
