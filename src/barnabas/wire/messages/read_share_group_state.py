"""ReadShareGroupState: a partition's leader reads the delivery state of a share-partition."""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int8, int16, int32, int64, string, uuid
from barnabas.wire.message import Message, Struct


class PartitionData(Struct):
    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class ReadShareGroupStateRequest(Message):
    API_KEY = ApiKey.READ_SHARE_GROUP_STATE
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    group_id: str = string()
    topics: list[ReadStateData] = array(ReadStateData)


class StateBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class PartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    state_epoch: int = int32()
    start_offset: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


class ReadStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class ReadShareGroupStateResponse(Message):
    API_KEY = ApiKey.READ_SHARE_GROUP_STATE
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    results: list[ReadStateResult] = array(ReadStateResult)
