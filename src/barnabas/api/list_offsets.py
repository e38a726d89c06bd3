"""ListOffsets (2): offsets by timestamp, and the named places of a log.

Negative timestamps are names: -1 latest, -2 earliest, -3 the record with the largest timestamp
(version 7), -4 earliest in local storage (8), -5 latest in tiered storage (9), -6 earliest not yet
uploaded (11). Without tiering everything is local: -4 is the log start, and -5 and -6 find nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.LIST_OFFSETS
VERSIONS = (1, 11)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

_FIRST_VERSION_OF = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_LEADER_EPOCH_SINCE = 4
_OFFSET_NOT_AVAILABLE_SINCE = 5
_CONSUMER = -1
_READ_COMMITTED = 1


def handle(node: Node, context: Context, request: ListOffsetsRequest) -> ListOffsetsResponse:
    asked: dict[tuple[str, int], int] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            asked[key] = asked.get(key, 0) + 1
    response = ListOffsetsResponse()
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            index = partition.partition_index
            if asked[topic.name, index] != 1:
                if asked[topic.name, index]:
                    answers.append(_refused(index, ErrorCode.INVALID_REQUEST))
                    asked[topic.name, index] = 0
                continue
            try:
                answer = _find(node, context, request, topic.name, partition)
                if context.api_version < _LEADER_EPOCH_SINCE:
                    answer.leader_epoch = -1
                answers.append(answer)
            except ApiError as error:
                answers.append(_refused(index, error.code))
            except OSError as error:
                node.replicas.log_failed(topic.name, index, error)
                answers.append(_refused(index, ErrorCode.KAFKA_STORAGE_ERROR))
        response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return response


def _find(
    node: Node,
    context: Context,
    request: ListOffsetsRequest,
    topic: str,
    asked: ListOffsetsPartition,
) -> ListOffsetsPartitionResponse:
    partition = node.replicas.partition(topic, asked.partition_index)
    log = partition.leader_log(asked.current_leader_epoch)
    timestamp = asked.timestamp
    if timestamp < EARLIEST and context.api_version < _FIRST_VERSION_OF.get(timestamp, 2**15):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    if request.replica_id != _CONSUMER:
        bound = log.log_end_offset
    elif request.isolation_level == _READ_COMMITTED:
        bound = log.last_stable_offset
    else:
        bound = log.high_watermark
    # A new leader that knows less to be committed than the one before may have shown.
    lagging = request.replica_id == _CONSUMER and bound < partition.leader_epoch_start_offset
    if timestamp == LATEST and lagging:
        raise _not_yet(context)
    if timestamp == LATEST:
        answer.offset = bound
        answer.leader_epoch = partition.leader_epoch
        return answer
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        answer.offset = log.log_start_offset
        answer.leader_epoch = log.epoch_at(log.log_start_offset)
        return answer
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return answer
    found = (
        log.find_max_timestamp()
        if timestamp == MAX_TIMESTAMP
        else log.find_offset_by_timestamp(timestamp)
    )
    if found is not None and found.offset < bound:
        answer.timestamp = found.timestamp_ms
        answer.offset = found.offset
        answer.leader_epoch = found.leader_epoch
    elif found is not None and lagging:
        raise _not_yet(context)
    return answer


def _not_yet(context: Context) -> ApiError:
    return ApiError(
        ErrorCode.OFFSET_NOT_AVAILABLE
        if context.api_version >= _OFFSET_NOT_AVAILABLE_SINCE
        else ErrorCode.LEADER_NOT_AVAILABLE
    )


def _refused(index: int, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=code)


def error_response(
    request: ListOffsetsRequest, code: ErrorCode, version: int
) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[_refused(each.partition_index, code) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )
