"""InitializeShareGroupState: the group coordinator sets up the state of share-partitions."""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int16, int32, int64, string, uuid
from barnabas.wire.message import Message, Struct


class PartitionData(Struct):
    partition: int = int32()
    state_epoch: int = int32()
    start_offset: int = int64()


class InitializeStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class InitializeShareGroupStateRequest(Message):
    API_KEY = ApiKey.INITIALIZE_SHARE_GROUP_STATE
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    group_id: str = string()
    topics: list[InitializeStateData] = array(InitializeStateData)


class PartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


class InitializeStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class InitializeShareGroupStateResponse(Message):
    API_KEY = ApiKey.INITIALIZE_SHARE_GROUP_STATE
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    results: list[InitializeStateResult] = array(InitializeStateResult)
