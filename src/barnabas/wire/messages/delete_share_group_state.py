"""DeleteShareGroupState: the group coordinator drops the state of share-partitions."""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int16, int32, string, uuid
from barnabas.wire.message import Message, Struct


class PartitionData(Struct):
    partition: int = int32()


class DeleteStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class DeleteShareGroupStateRequest(Message):
    API_KEY = ApiKey.DELETE_SHARE_GROUP_STATE
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    group_id: str = string()
    topics: list[DeleteStateData] = array(DeleteStateData)


class PartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


class DeleteStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class DeleteShareGroupStateResponse(Message):
    API_KEY = ApiKey.DELETE_SHARE_GROUP_STATE
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    results: list[DeleteStateResult] = array(DeleteStateResult)
