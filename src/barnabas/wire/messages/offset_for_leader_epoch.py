"""OffsetForLeaderEpoch: where a leader epoch ends, to find out where logs diverged.

Version 2 adds the epoch that the asker believes in, 3 the replica id (-2 is a debugging
consumer), 4 is flexible.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int16, int32, int64, string
from barnabas.wire.message import Message, Struct


class OffsetForLeaderPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32(default=-1, ignorable=True)
    leader_epoch: int = int32()


class OffsetForLeaderTopic(Struct):
    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


class OffsetForLeaderEpochRequest(Message):
    API_KEY = ApiKey.OFFSET_FOR_LEADER_EPOCH
    VERSIONS = (2, 4)
    FLEXIBLE = (4, 4)

    replica_id: int = int32("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


class EpochEndOffset(Struct):
    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(default=-1, ignorable=True)
    end_offset: int = int64(default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


class OffsetForLeaderEpochResponse(Message):
    API_KEY = ApiKey.OFFSET_FOR_LEADER_EPOCH
    VERSIONS = (2, 4)
    FLEXIBLE = (4, 4)

    throttle_time_ms: int = int32(ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
