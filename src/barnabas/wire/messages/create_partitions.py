"""CreatePartitions: grow topics.

Version 2 is flexible, 3 may be throttled.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, boolean, int16, int32, string
from barnabas.wire.message import Message, Struct


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = array(int32)


class CreatePartitionsTopic(Struct):
    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, nullable=True
    )


class CreatePartitionsRequest(Message):
    API_KEY = ApiKey.CREATE_PARTITIONS
    VERSIONS = (0, 3)
    FLEXIBLE = (2, 3)

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsTopicResult(Struct):
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


class CreatePartitionsResponse(Message):
    API_KEY = ApiKey.CREATE_PARTITIONS
    VERSIONS = (0, 3)
    FLEXIBLE = (2, 3)

    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
