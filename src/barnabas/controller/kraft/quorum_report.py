"""What DescribeQuorum tells of the metadata log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.controller.kraft.topics import METADATA_TOPIC
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)

if TYPE_CHECKING:
    from barnabas.raft.quorum import Quorum


def describe_quorum(
    quorum: Quorum, request: DescribeQuorumRequest, now_ms: int
) -> DescribeQuorumResponse:
    """There is one log to ask about; whoever asks about any other as well is told nothing."""
    asked = [
        (topic.topic_name, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    ]
    if asked == [(METADATA_TOPIC, 0)]:
        return DescribeQuorumResponse(
            topics=[
                DescribeQuorumResponseTopicData(
                    topic_name=METADATA_TOPIC, partitions=[_partition(quorum, now_ms)]
                )
            ],
            nodes=_nodes(quorum),
        )
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    DescribeQuorumResponsePartitionData(
                        partition_index=each.partition_index,
                        error_code=code,
                        error_message=code.message,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _partition(quorum: Quorum, now_ms: int) -> DescribeQuorumResponsePartitionData:
    log = quorum.log
    return DescribeQuorumResponsePartitionData(
        partition_index=0,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.epoch,
        high_watermark=log.high_watermark,
        current_voters=[
            ReplicaState(
                replica_id=voter.voter_id,
                replica_directory_id=voter.directory_id,
                log_end_offset=log.end_offset if voter.voter_id == quorum.node_id else -1,
                last_fetch_timestamp=now_ms if voter.voter_id == quorum.node_id else -1,
                last_caught_up_timestamp=now_ms if voter.voter_id == quorum.node_id else -1,
            )
            for voter in quorum.voters.voters
        ],
    )


def _nodes(quorum: Quorum) -> list[Node]:
    return [
        Node(
            node_id=voter.voter_id,
            listeners=[
                Listener(name=each.name, host=each.host, port=each.port) for each in voter.endpoints
            ],
        )
        for voter in quorum.voters.voters
    ]
