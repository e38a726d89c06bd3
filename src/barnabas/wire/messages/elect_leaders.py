"""ElectLeaders: elect the preferred leader, or an unclean one.

Version 1 adds unclean elections, 2 is flexible.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int8, int16, int32, string
from barnabas.wire.message import Message, Struct


class TopicPartitions(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class ElectLeadersRequest(Message):
    API_KEY = ApiKey.ELECT_LEADERS
    VERSIONS = (0, 2)
    FLEXIBLE = (2, 2)

    election_type: int = int8("1+")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable=True)
    timeout_ms: int = int32(default=60000)


class PartitionResult(Struct):
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)


class ReplicaElectionResult(Struct):
    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


class ElectLeadersResponse(Message):
    API_KEY = ApiKey.ELECT_LEADERS
    VERSIONS = (0, 2)
    FLEXIBLE = (2, 2)

    throttle_time_ms: int = int32()
    error_code: int = int16("1+")
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
