"""OffsetForLeaderEpoch (23): where a leader epoch ended (KIP-101, KIP-320)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.OFFSET_FOR_LEADER_EPOCH
VERSIONS = (2, 4)


def handle(
    node: Node, context: Context, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_find(node, topic.topic, asked) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _find(node: Node, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=asked.partition)
    try:
        partition = node.replicas.partition(topic, asked.partition)
        log = partition.leader_log(asked.current_leader_epoch)
        answer.leader_epoch, answer.end_offset = log.epoch_end_offset(asked.leader_epoch)
    except ApiError as error:
        answer.error_code = error.code
    return answer


def error_response(
    request: OffsetForLeaderEpochRequest, code: ErrorCode, version: int
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(partition=asked.partition, error_code=code)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
