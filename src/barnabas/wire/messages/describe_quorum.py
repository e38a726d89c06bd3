"""DescribeQuorum: leader, voters and observers of the metadata quorum, and how far each is.

Version 1 adds the times of the last fetch and of being caught up, 2 directory ids, endpoints and
error messages.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int16, int32, int64, string, uint16, uuid
from barnabas.wire.message import Message, Struct


class DescribeQuorumRequestPartitionData(Struct):
    partition_index: int = int32()


class DescribeQuorumRequestTopicData(Struct):
    topic_name: str = string()
    partitions: list[DescribeQuorumRequestPartitionData] = array(DescribeQuorumRequestPartitionData)


class DescribeQuorumRequest(Message):
    API_KEY = ApiKey.DESCRIBE_QUORUM
    VERSIONS = (0, 2)
    FLEXIBLE = (0, 2)

    topics: list[DescribeQuorumRequestTopicData] = array(DescribeQuorumRequestTopicData)


class ReplicaState(Struct):
    replica_id: int = int32()
    replica_directory_id: bytes = uuid("2+")
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int = int64("1+", default=-1, ignorable=True)


class DescribeQuorumResponsePartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string("2+", nullable=True, ignorable=True)
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[ReplicaState] = array(ReplicaState)
    observers: list[ReplicaState] = array(ReplicaState)


class DescribeQuorumResponseTopicData(Struct):
    topic_name: str = string()
    partitions: list[DescribeQuorumResponsePartitionData] = array(
        DescribeQuorumResponsePartitionData
    )


class Listener(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()


class Node(Struct):
    node_id: int = int32()
    listeners: list[Listener] = array(Listener)


class DescribeQuorumResponse(Message):
    API_KEY = ApiKey.DESCRIBE_QUORUM
    VERSIONS = (0, 2)
    FLEXIBLE = (0, 2)

    error_code: int = int16()
    error_message: str | None = string("2+", nullable=True, ignorable=True)
    topics: list[DescribeQuorumResponseTopicData] = array(DescribeQuorumResponseTopicData)
    nodes: list[Node] = array(Node, "2+")
