"""DeleteRecords (21): raise the log start offset, so that everything before it may go.

The answer waits until all live replicas have done so, or for `timeout_ms`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.api import DEFERRED, Answer
from barnabas.api.produce import INTERNAL_TOPICS
from barnabas.replica.delayed_delete_records import DelayedDeleteRecords, Deletion
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


def handle(node: Node, context: Context, request: DeleteRecordsRequest) -> Answer:
    response = DeleteRecordsResponse()
    waiting: list[tuple[Deletion, DeleteRecordsPartitionResult]] = []
    for topic in request.topics:
        results = []
        for asked in topic.partitions:
            index = asked.partition_index
            try:
                deletion = _delete(node, topic.name, index, asked.offset)
            except ApiError as error:
                results.append(_refused(index, error.code))
                continue
            except OSError as error:
                node.replicas.log_failed(topic.name, index, error)
                results.append(_refused(index, ErrorCode.KAFKA_STORAGE_ERROR))
                continue
            result = DeleteRecordsPartitionResult(partition_index=index)
            results.append(result)
            if deletion.check():
                result.error_code = deletion.code
                result.low_watermark = deletion.low_watermark
            else:
                waiting.append((deletion, result))
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    if not waiting:
        return response

    def done() -> None:
        for deletion, result in waiting:
            result.error_code = deletion.code
            result.low_watermark = deletion.low_watermark
        context.respond(response)

    node.replicas.delete_records_purgatory.try_complete_else_watch(
        DelayedDeleteRecords(request.timeout_ms, [each for each, _ in waiting], done),
        [deletion.partition.key for deletion, _ in waiting],
    )
    return DEFERRED


def _delete(node: Node, topic: str, index: int, offset: int) -> Deletion:
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
    return Deletion(partition, wanted)


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
