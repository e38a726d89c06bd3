"""ReadShareGroupStateSummary: the state of share-partitions without its batches.

Version 1 adds how many records at the head are done with.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int16, int32, int64, string, uuid
from barnabas.wire.message import Message, Struct


class PartitionData(Struct):
    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateSummaryData(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class ReadShareGroupStateSummaryRequest(Message):
    API_KEY = ApiKey.READ_SHARE_GROUP_STATE_SUMMARY
    VERSIONS = (0, 1)
    FLEXIBLE = (0, 1)

    group_id: str = string()
    topics: list[ReadStateSummaryData] = array(ReadStateSummaryData)


class PartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class ReadShareGroupStateSummaryResponse(Message):
    API_KEY = ApiKey.READ_SHARE_GROUP_STATE_SUMMARY
    VERSIONS = (0, 1)
    FLEXIBLE = (0, 1)

    results: list[ReadStateSummaryResult] = array(ReadStateSummaryResult)
