"""DeleteTopics: topics to remove.

Version 4 is flexible, 5 adds error messages, 6 can name topics by id.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int16, int32, string, uuid
from barnabas.wire.message import Message, Struct


class DeleteTopicState(Struct):
    name: str | None = string(nullable=True, default=None)
    topic_id: bytes = uuid()


class DeleteTopicsRequest(Message):
    API_KEY = ApiKey.DELETE_TOPICS
    VERSIONS = (1, 6)
    FLEXIBLE = (4, 6)

    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(string, "1-5", ignorable=True)
    timeout_ms: int = int32()


class DeletableTopicResult(Struct):
    name: str | None = string(nullable="6+")
    topic_id: bytes = uuid("6+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string("5+", nullable=True, default=None, ignorable=True)


class DeleteTopicsResponse(Message):
    API_KEY = ApiKey.DELETE_TOPICS
    VERSIONS = (1, 6)
    FLEXIBLE = (4, 6)

    throttle_time_ms: int = int32(ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
