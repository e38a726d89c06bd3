"""WriteShareGroupState: a partition's leader stores the delivery state of a share-partition.

Version 1 adds how many records at the head are done with, from which lag is computed.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int8, int16, int32, int64, string, uuid
from barnabas.wire.message import Message, Struct


class StateBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class PartitionData(Struct):
    partition: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1, ignorable=True)
    state_batches: list[StateBatch] = array(StateBatch)


class WriteStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class WriteShareGroupStateRequest(Message):
    API_KEY = ApiKey.WRITE_SHARE_GROUP_STATE
    VERSIONS = (0, 1)
    FLEXIBLE = (0, 1)

    group_id: str = string()
    topics: list[WriteStateData] = array(WriteStateData)


class PartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


class WriteStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class WriteShareGroupStateResponse(Message):
    API_KEY = ApiKey.WRITE_SHARE_GROUP_STATE
    VERSIONS = (0, 1)
    FLEXIBLE = (0, 1)

    results: list[WriteStateResult] = array(WriteStateResult)
