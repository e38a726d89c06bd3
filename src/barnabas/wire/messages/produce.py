"""Produce: a client hands record batches to the leaders of partitions.

With acks=0 the broker sends no response. Version 3 is the first that carries batches of magic 2,
7 allows zstd, 8 adds which records of a batch were refused and why, 9 is flexible, 10 tells a
client who the new leader is, 11 answers TRANSACTION_ABORTABLE, 12 lets a partition join a
transaction implicitly (KIP-890) and 13 names topics by id.

Versions 0 to 2 are advertised for the sake of librdkafka but never served.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import (
    Records,
    array,
    int16,
    int32,
    int64,
    record_batches,
    string,
    struct,
    uuid,
)
from barnabas.wire.message import Message, Struct


class PartitionProduceData(Struct):
    index: int = int32()
    records: Records = record_batches(nullable=True)


class TopicProduceData(Struct):
    name: str = string("3-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


class ProduceRequest(Message):
    API_KEY = ApiKey.PRODUCE
    VERSIONS = (3, 13)
    FLEXIBLE = (9, 13)

    transactional_id: str | None = string(nullable=True, default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable=True, default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class PartitionProduceResponse(Struct):
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(
        BatchIndexAndErrorMessage, "8+", ignorable=True
    )
    error_message: str | None = string("8+", nullable=True, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "10+", tag=0)


class TopicProduceResponse(Struct):
    name: str = string("3-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable=True, default=None)


class ProduceResponse(Message):
    API_KEY = ApiKey.PRODUCE
    VERSIONS = (3, 13)
    FLEXIBLE = (9, 13)

    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32(ignorable=True)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)
