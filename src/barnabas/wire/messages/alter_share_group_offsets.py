"""AlterShareGroupOffsets: set where the share-partitions of an empty group start."""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int16, int32, int64, string, uuid
from barnabas.wire.message import Message, Struct


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int = int32()
    start_offset: int = int64()


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = string()
    partitions: list[AlterShareGroupOffsetsRequestPartition] = array(
        AlterShareGroupOffsetsRequestPartition
    )


class AlterShareGroupOffsetsRequest(Message):
    API_KEY = ApiKey.ALTER_SHARE_GROUP_OFFSETS
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    group_id: str = string()
    topics: list[AlterShareGroupOffsetsRequestTopic] = array(AlterShareGroupOffsetsRequestTopic)


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = string()
    topic_id: bytes = uuid()
    partitions: list[AlterShareGroupOffsetsResponsePartition] = array(
        AlterShareGroupOffsetsResponsePartition
    )


class AlterShareGroupOffsetsResponse(Message):
    API_KEY = ApiKey.ALTER_SHARE_GROUP_OFFSETS
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = array(
        AlterShareGroupOffsetsResponseTopic
    )
