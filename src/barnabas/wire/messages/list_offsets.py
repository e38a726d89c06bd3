"""ListOffsets: which offset does a partition have at a time.

The timestamp can be a real one or a special value: -1 latest, -2 earliest, -3 the record with the
largest timestamp (version 7), -4 earliest on local disk (8), -5 latest in tiered storage (9), -6
earliest not yet uploaded (11). Version 2 adds the isolation level, 4 leader epochs, 6 is
flexible, 10 a timeout for answers that need remote storage.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int8, int16, int32, int64, string
from barnabas.wire.message import Message, Struct


class ListOffsetsPartition(Struct):
    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp: int = int64()


class ListOffsetsTopic(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


class ListOffsetsRequest(Message):
    API_KEY = ApiKey.LIST_OFFSETS
    VERSIONS = (1, 11)
    FLEXIBLE = (6, 11)

    replica_id: int = int32()
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32("10+", ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


class ListOffsetsResponse(Message):
    API_KEY = ApiKey.LIST_OFFSETS
    VERSIONS = (1, 11)
    FLEXIBLE = (6, 11)

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
