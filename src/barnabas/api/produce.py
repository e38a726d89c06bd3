"""Produce (0): append record batches to partitions.

Each partition succeeds or fails on its own. With acks=0 there is no response, so a failure can only be
told by closing the connection, which makes the client look for the leader again. With acks=1 the append
itself is the answer; with acks=-1, or when the flush policy asks for an fsync first, the request waits
in the purgatory until the high watermark has passed what it wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.api import DEFERRED, DISCONNECT, NO_RESPONSE, Answer
from barnabas.log.log import AppendOrigin
from barnabas.record.errors import RecordsRefused
from barnabas.replica.delayed_produce import Awaited, DelayedProduce
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node
    from barnabas.replica.partition import Partition

KEY = ApiKey.PRODUCE
VERSIONS = (3, 13)
# librdkafka takes a lowest version above 0 for a broker that is too new to talk to.
ADVERTISED_VERSIONS = (0, 13)

FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_WITH_CURRENT_LEADER = 10
FIRST_VERSION_WITH_TOPIC_IDS = 13
ADMIN_CLIENT_ID = "__admin_client"
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

# A small request may have very many batches that are large once they are decompressed.
LONGEST_NS = 1_000_000_000

_HEADER_SIZE = 61
_MAGIC = 16
_MAGIC_2 = 2
_ATTRIBUTES_LOW_BYTE = 22
_CODEC_MASK = 0x07
_ZSTD = 4
_TRANSACTIONAL = 0x10
# A producer that is told one of these looks where the log begins: what it knew may be deleted.
_REFUSED_BY_THE_LOG = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TIMESTAMP,
)


def handle(node: Node, context: Context, request: ProduceRequest) -> Answer:
    acks = request.acks
    if acks not in (-1, 1, 0):
        return _refuse_all(request, ErrorCode.INVALID_REQUIRED_ACKS)
    replicas = node.replicas
    now_ms = node.clock.now_ms()
    clock_ns = node.clock.monotonic_ns
    end_ns = clock_ns() + LONGEST_NS
    version = context.api_version
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    wait = acks == -1 or (acks == 1 and replicas.flush_before_ack)
    failed = False
    awaited: list[Awaited] = []
    waiting: list[PartitionProduceResponse] = []
    responses: list[TopicProduceResponse] = []
    for topic in request.topic_data:
        name = replicas.topic_name(topic.topic_id) if by_id else topic.name
        partition_responses: list[PartitionProduceResponse] = []
        for data in topic.partition_data:
            try:
                partition = replicas.partition_of(name, topic.topic_id, data.index)
                if clock_ns() > end_ns:
                    raise ApiError(
                        ErrorCode.REQUEST_TIMED_OUT,
                        f"The batches of this request take longer than {LONGEST_NS // 1_000_000} "
                        "ms; this one was not appended.",
                    )
                records = _checked(context, request, partition, data.records)
                info = replicas.append(
                    partition, records, now_ms, AppendOrigin.CLIENT, acks_all=acks == -1
                )
            except ApiError as error:
                failed = True
                partition_responses.append(_refused(node, context, name, data.index, error))
                continue
            response = PartitionProduceResponse(
                index=data.index,
                base_offset=info.first_offset,
                log_append_time_ms=info.log_append_time_ms,
                log_start_offset=info.log_start_offset,
            )
            partition_responses.append(response)
            if wait:
                required = info.last_offset + 1
                log = partition.log
                if log is None or log.high_watermark < required:
                    awaited.append(Awaited(partition, required))
                    waiting.append(response)
        responses.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=partition_responses
            )
        )
    if acks == 0:
        return DISCONNECT if failed else NO_RESPONSE
    answer = ProduceResponse(responses=responses)
    if not awaited:
        return answer

    def committed() -> None:
        for one, response in zip(awaited, waiting, strict=True):
            if one.code != ErrorCode.NONE:
                response.error_code = one.code
                response.base_offset = -1
        context.respond(answer)

    replicas.produce_purgatory.try_complete_else_watch(
        DelayedProduce(request.timeout_ms, awaited, committed),
        [one.partition.key for one in awaited],
    )
    return DEFERRED


def _checked(
    context: Context, request: ProduceRequest, partition: Partition, records: memoryview | None
) -> memoryview:
    """What can be said about a batch from its attributes and where it is going."""
    if partition.topic in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Cannot append to internal topic {partition.topic}",
        )
    if records is None or len(records) == 0:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {context.api_version} must have exactly one record "
            "batch per partition",
        )
    if len(records) >= _HEADER_SIZE and records[_MAGIC] == _MAGIC_2:
        attributes = records[_ATTRIBUTES_LOW_BYTE]
        if attributes & _CODEC_MASK == _ZSTD and context.api_version < FIRST_VERSION_WITH_ZSTD:
            raise ApiError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"Produce requests with version {context.api_version} are not allowed to use "
                "ZStandard compression",
            )
        if attributes & _TRANSACTIONAL:
            raise ApiError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                if request.transactional_id is None
                else ErrorCode.INVALID_TXN_STATE,
                "This broker has no transaction coordinator yet, so no transaction can be open.",
            )
    return records


def _refused(
    node: Node, context: Context, topic: str | None, index: int, error: ApiError
) -> PartitionProduceResponse:
    response = PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        error_message=error.message,
    )
    if isinstance(error, RecordsRefused) and error.record_errors:
        response.log_start_offset = _log_start_offset(node, topic, index)
        response.record_errors = [
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message)
            for at, message in error.record_errors
        ]
    elif error.code in _REFUSED_BY_THE_LOG:
        response.log_start_offset = _log_start_offset(node, topic, index)
    elif (
        error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        and context.api_version >= FIRST_VERSION_WITH_CURRENT_LEADER
    ):
        leader_id, leader_epoch = node.replicas.leader_of(topic, index)
        response.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    return response


def _log_start_offset(node: Node, topic: str | None, index: int) -> int:
    partition = node.replicas.find(topic, index)
    return -1 if partition is None or partition.log is None else partition.log.log_start_offset


def _refuse_all(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1)
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def error_response(request: ProduceRequest, code: ErrorCode, version: int) -> ProduceResponse:
    return _refuse_all(request, code)
