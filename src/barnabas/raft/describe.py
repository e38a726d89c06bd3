"""DescribeQuorum: what the leader knows of every replica."""

from __future__ import annotations

from barnabas.raft.leader import Leader, Progress
from barnabas.raft.partition import METADATA_TOPIC, only_partition
from barnabas.raft.replica import Replica
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


def describe_quorum(
    replica: Replica, request: DescribeQuorumRequest, now_ms: int
) -> DescribeQuorumResponse:
    """There is one log to ask about; whoever asks about any other as well is told nothing."""
    if only_partition(request.topics) is None:
        return _errors(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    leader = replica.leader
    if leader is None:
        return _errors(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    data = DescribeQuorumResponsePartitionData(
        partition_index=0,
        leader_id=replica.leader_id,
        leader_epoch=replica.epoch,
        high_watermark=replica.high_watermark if leader.has_committed else -1,
        current_voters=[_voter(replica, each, now_ms) for each in _voters(leader)],
        observers=[
            _shown(each) for each in sorted(leader.observers.values(), key=lambda each: each.key)
        ],
    )
    return DescribeQuorumResponse(
        topics=[DescribeQuorumResponseTopicData(topic_name=METADATA_TOPIC, partitions=[data])],
        nodes=[
            Node(
                node_id=voter.voter_id,
                listeners=[
                    Listener(name=each.name, host=each.host, port=each.port)
                    for each in voter.endpoints
                ],
            )
            for voter in replica.voters.voters
        ],
    )


def _voters(leader: Leader) -> list[Progress]:
    return [leader.progress[voter.voter_id] for voter in leader.voters.voters]


def _voter(replica: Replica, progress: Progress, now_ms: int) -> ReplicaState:
    shown = _shown(progress)
    if progress.key.node_id == replica.node_id:
        shown.log_end_offset = replica.log.end_offset
        shown.last_fetch_timestamp = shown.last_caught_up_timestamp = now_ms
    return shown


def _shown(progress: Progress) -> ReplicaState:
    return ReplicaState(
        replica_id=progress.key.node_id,
        replica_directory_id=progress.key.directory_id,
        log_end_offset=progress.end_offset,
        last_fetch_timestamp=progress.last_fetch_ms,
        last_caught_up_timestamp=progress.last_caught_up_ms,
    )


def _errors(request: DescribeQuorumRequest, code: ErrorCode) -> DescribeQuorumResponse:
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
