"""Vote, BeginQuorumEpoch and EndQuorumEpoch, as others ask them of this replica.

Whatever is wrong with a request is answered with Kafka's error; nothing changes then. An epoch that
is higher than the own is taken over before anything else is considered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from barnabas.raft.follower import Follower
from barnabas.raft.partition import METADATA_TOPIC, only_partition
from barnabas.raft.replica import Replica
from barnabas.raft.unattached import Unattached
from barnabas.raft.voters import ReplicaKey, VoterEndpoint
from barnabas.seams import Address
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import begin_quorum_epoch, end_quorum_epoch, vote
from barnabas.wire.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    BeginQuorumEpochResponsePartitionData,
    BeginQuorumEpochResponseTopicData,
)
from barnabas.wire.messages.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    EndQuorumEpochResponsePartitionData,
    EndQuorumEpochResponseTopicData,
)
from barnabas.wire.messages.vote import (
    VoteRequest,
    VoteRequestPartitionData,
    VoteResponse,
    VoteResponsePartitionData,
    VoteResponseTopicData,
)

NONE = ErrorCode.NONE


def is_our_cluster(replica: Replica, cluster_id: str | None) -> bool:
    return cluster_id is None or cluster_id == replica.cluster_id


def leader_endpoint_for(replica: Replica, version: int, listener_name: str) -> Address | None:
    """Where the leader is, by the listener that was asked; version 0 has no place for it."""
    if version < 1 or replica.leader_id < 0:
        return None
    return replica.leader_endpoint(listener_name)


def _is_for_us(replica: Replica, voter_id: int, directory_id: bytes) -> bool:
    return voter_id < 0 or ReplicaKey(voter_id, directory_id).may_be(replica.key)


def _check_voter_request(replica: Replica, peer_id: int, epoch: int) -> ErrorCode:
    if epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.INVALID_REQUEST if peer_id < 0 else NONE


# ---- Vote


def handle_vote(
    replica: Replica, version: int, request: VoteRequest, now_ms: int, listener_name: str
) -> VoteResponse:
    if not is_our_cluster(replica, request.cluster_id):
        return VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    data: VoteRequestPartitionData | None = only_partition(request.topics)
    if data is None:
        return VoteResponse(error_code=ErrorCode.INVALID_REQUEST)
    error = _check_vote(replica, version, request, data)
    granted = False
    if error is NONE:
        if data.replica_epoch > replica.epoch:
            replica.become_unattached(data.replica_epoch, now_ms)
        granted = _decide(replica, data, now_ms)
    answer = VoteResponsePartitionData(
        partition_index=0,
        error_code=error,
        leader_id=replica.leader_id,
        leader_epoch=replica.epoch,
        vote_granted=granted,
    )
    response = VoteResponse(
        topics=[VoteResponseTopicData(topic_name=METADATA_TOPIC, partitions=[answer])]
    )
    endpoint = leader_endpoint_for(replica, version, listener_name)
    if endpoint is not None:
        response.node_endpoints = [
            vote.NodeEndpoint(node_id=replica.leader_id, host=endpoint[0], port=endpoint[1])
        ]
    return response


def _check_vote(
    replica: Replica, version: int, request: VoteRequest, data: VoteRequestPartitionData
) -> ErrorCode:
    error = _check_voter_request(replica, data.replica_id, data.replica_epoch)
    if error is not NONE:
        return error
    last_epoch_limit = data.replica_epoch + (1 if data.pre_vote else 0)
    if data.last_offset < 0 or not 0 <= data.last_offset_epoch < last_epoch_limit:
        return ErrorCode.INVALID_REQUEST
    if version >= 1 and not _is_for_us(replica, request.voter_id, data.voter_directory_id):
        return ErrorCode.INVALID_VOTER_KEY
    return NONE


def _decide(replica: Replica, data: VoteRequestPartitionData, now_ms: int) -> bool:
    candidate = ReplicaKey(data.replica_id, data.replica_directory_id)
    log = replica.log
    up_to_date = (data.last_offset_epoch, data.last_offset) >= (log.last_epoch, log.end_offset)
    state = replica.state
    granted = state.would_vote(candidate, up_to_date, pre_vote=data.pre_vote)
    if granted and not data.pre_vote and state.election.voted_id < 0:
        # Whoever gives its vote away waits for what comes of it.
        replica.become_unattached(data.replica_epoch, now_ms, voted=candidate)
    return granted


# ---- BeginQuorumEpoch and EndQuorumEpoch


def handle_begin_quorum_epoch(
    replica: Replica,
    version: int,
    request: BeginQuorumEpochRequest,
    now_ms: int,
    listener_name: str,
) -> BeginQuorumEpochResponse:
    if not is_our_cluster(replica, request.cluster_id):
        return BeginQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    data = only_partition(request.topics)
    if data is None:
        return BeginQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
    error = _check_voter_request(replica, data.leader_id, data.leader_epoch)
    if error is NONE and not _is_for_us(replica, request.voter_id, data.voter_directory_id):
        error = ErrorCode.INVALID_VOTER_KEY
    if error is NONE:
        endpoints = _endpoints(request.leader_endpoints)
        replica.learn(data.leader_id, data.leader_epoch, endpoints, now_ms, from_leader=True)
    answer = BeginQuorumEpochResponsePartitionData(
        partition_index=0,
        error_code=error,
        leader_id=replica.leader_id,
        leader_epoch=replica.epoch,
    )
    topic = BeginQuorumEpochResponseTopicData(topic_name=METADATA_TOPIC, partitions=[answer])
    response = BeginQuorumEpochResponse(topics=[topic])
    endpoint = leader_endpoint_for(replica, version, listener_name)
    if endpoint is not None:
        response.node_endpoints = [
            begin_quorum_epoch.NodeEndpoint(
                node_id=replica.leader_id, host=endpoint[0], port=endpoint[1]
            )
        ]
    return response


def handle_end_quorum_epoch(
    replica: Replica,
    version: int,
    request: EndQuorumEpochRequest,
    now_ms: int,
    listener_name: str,
) -> EndQuorumEpochResponse:
    if not is_our_cluster(replica, request.cluster_id):
        return EndQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    data = only_partition(request.topics)
    if data is None:
        return EndQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
    error = _check_voter_request(replica, data.leader_id, data.leader_epoch)
    if error is NONE:
        endpoints = _endpoints(request.leader_endpoints)
        replica.learn(data.leader_id, data.leader_epoch, endpoints, now_ms)
        _hasten_election(replica, data, now_ms)
    answer = EndQuorumEpochResponsePartitionData(
        partition_index=0,
        error_code=error,
        leader_id=replica.leader_id,
        leader_epoch=replica.epoch,
    )
    topic = EndQuorumEpochResponseTopicData(topic_name=METADATA_TOPIC, partitions=[answer])
    response = EndQuorumEpochResponse(topics=[topic])
    endpoint = leader_endpoint_for(replica, version, listener_name)
    if endpoint is not None:
        response.node_endpoints = [
            end_quorum_epoch.NodeEndpoint(
                node_id=replica.leader_id, host=endpoint[0], port=endpoint[1]
            )
        ]
    return response


def _hasten_election(
    replica: Replica, data: end_quorum_epoch.EndQuorumEpochRequestPartitionData, now_ms: int
) -> None:
    """The leader is gone. Its first choice stands at once, the others a little later each, so that
    they do not stand in one another's way."""
    state = replica.state
    if state.leader_id != data.leader_id or data.leader_id == replica.node_id:
        return
    preferred = [each.candidate_id for each in data.preferred_candidates]
    preferred = preferred or list(data.preferred_successors)
    limit_ms = max(replica.settings.election_backoff_max_ms, 1)
    if preferred and preferred[0] == replica.node_id:
        backoff_ms = 0
    elif replica.node_id in preferred:
        place = preferred.index(replica.node_id)
        step_ms = replica.settings.retry_backoff_ms << min(place, 16)
        backoff_ms = min(step_ms + replica.randomness.randrange(max(step_ms, 1)), limit_ms)
    else:
        backoff_ms = limit_ms
    if isinstance(state, Follower):
        state.fetch_deadline_ms = min(state.fetch_deadline_ms, now_ms + backoff_ms)
        state.has_fetched = False
    elif isinstance(state, Unattached):
        state.election_deadline_ms = min(state.election_deadline_ms, now_ms + backoff_ms)


def _endpoints(endpoints: Sequence[Any]) -> list[VoterEndpoint]:
    return [VoterEndpoint(each.name, each.host, each.port) for each in endpoints]
