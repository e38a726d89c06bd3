"""DeleteRecords (21): raise the log start offset, so that everything before it may go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.api.produce import INTERNAL_TOPICS
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.DELETE_RECORDS
VERSIONS = (0, 2)

HIGH_WATERMARK = -1


def handle(node: Node, context: Context, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse()
    for topic in request.topics:
        results = []
        for asked in topic.partitions:
            index = asked.partition_index
            try:
                low_watermark = _delete(node, topic.name, index, asked.offset)
                results.append(
                    DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark)
                )
            except ApiError as error:
                results.append(_refused(index, error.code))
            except OSError as error:
                node.replicas.log_failed(topic.name, index, error)
                results.append(_refused(index, ErrorCode.KAFKA_STORAGE_ERROR))
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    return response


def _delete(node: Node, topic: str, index: int, offset: int) -> int:
    partition = node.replicas.partition(topic, index)
    if topic in INTERNAL_TOPICS:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    log = partition.leader_log()
    if "delete" not in log.config.cleanup_policy:
        raise ApiError(ErrorCode.POLICY_VIOLATION)
    wanted = log.high_watermark if offset == HIGH_WATERMARK else offset
    if wanted < 0 or wanted > log.high_watermark:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    log.increment_log_start_offset(wanted)
    node.replicas.wake(partition.key)
    return log.log_start_offset


def _refused(index: int, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1, error_code=code)


def error_response(
    request: DeleteRecordsRequest, code: ErrorCode, version: int
) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_refused(asked.partition_index, code) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )
