"""What a replica asks of others, as the wire has it.

Each function sends what can be sent now and gives the time at which it is worth being called again
if nothing is answered before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.raft.connections import NEVER_MS
from barnabas.raft.partition import METADATA_TOPIC
from barnabas.raft.voter_requests import voter_request
from barnabas.raft.voters import ReplicaKey, VoterNode
from barnabas.wire.message import Message
from barnabas.wire.messages import begin_quorum_epoch
from barnabas.wire.messages import (
    end_quorum_epoch as end_messages,
)
from barnabas.wire.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartitionData,
    BeginQuorumEpochRequestTopicData,
)
from barnabas.wire.messages.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartitionData,
    EndQuorumEpochRequestTopicData,
    ReplicaInfo,
)
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from barnabas.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestTopicSnapshot,
    SnapshotId,
)
from barnabas.wire.messages.vote import (
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
)
from barnabas.wire.uuids import METADATA_TOPIC_ID

if TYPE_CHECKING:
    from barnabas.raft.ballot import Ballot
    from barnabas.raft.follower import Follower
    from barnabas.raft.leader import Leader
    from barnabas.raft.replica import Replica
    from barnabas.raft.resigned import Resigned


def request_votes(replica: Replica, ballot: Ballot, now_ms: int, *, pre_vote: bool) -> int:
    next_ms = NEVER_MS
    for voter_id in ballot.unanswered:
        voter = ballot.voters.find(voter_id)
        address = None if voter is None else voter.address(replica.settings.listener_name)
        if voter is None or address is None:
            continue
        if replica.connections.is_ready(address, now_ms):
            request = _vote_request(replica, voter, pre_vote)
            replica.connections.send(voter_id, address, request, now_ms)
        next_ms = min(next_ms, replica.connections.ready_ms(address))
    return next_ms


def _vote_request(replica: Replica, voter: VoterNode, pre_vote: bool) -> VoteRequest:
    data = VoteRequestPartitionData(
        partition_index=0,
        replica_epoch=replica.epoch,
        replica_id=replica.node_id,
        replica_directory_id=replica.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=replica.log.last_epoch,
        last_offset=replica.log.end_offset,
        pre_vote=pre_vote,
    )
    topic = VoteRequestTopicData(topic_name=METADATA_TOPIC, partitions=[data])
    return VoteRequest(cluster_id=replica.cluster_id, voter_id=voter.voter_id, topics=[topic])


def begin_epoch_at(replica: Replica, leader: Leader, voter: VoterNode, now_ms: int) -> int:
    """Tell a voter who leads."""
    address = voter.address(replica.settings.listener_name)
    if address is None:
        return NEVER_MS
    if replica.connections.is_ready(address, now_ms):
        data = BeginQuorumEpochRequestPartitionData(
            partition_index=0,
            voter_directory_id=voter.directory_id,
            leader_id=replica.node_id,
            leader_epoch=leader.epoch,
        )
        topic = BeginQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=[data])
        request = BeginQuorumEpochRequest(
            cluster_id=replica.cluster_id,
            voter_id=voter.voter_id,
            topics=[topic],
            leader_endpoints=[
                begin_quorum_epoch.LeaderEndpoint(name=each.name, host=each.host, port=each.port)
                for each in replica.own_endpoints
            ],
        )
        replica.connections.send(voter.voter_id, address, request, now_ms)
    return replica.connections.ready_ms(address)


def end_quorum_epoch(replica: Replica, resigned: Resigned, now_ms: int) -> int:
    next_ms = NEVER_MS
    for voter_id in sorted(resigned.unacknowledged):
        voter = replica.voters.find(voter_id)
        address = None if voter is None else voter.address(replica.settings.listener_name)
        if address is None:
            continue
        if replica.connections.is_ready(address, now_ms):
            request = _end_request(replica, resigned.epoch, resigned.preferred)
            replica.connections.send(voter_id, address, request, now_ms)
        next_ms = min(next_ms, replica.connections.ready_ms(address))
    return next_ms


def _end_request(
    replica: Replica, epoch: int, preferred: Iterable[ReplicaKey]
) -> EndQuorumEpochRequest:
    candidates = list(preferred)
    data = EndQuorumEpochRequestPartitionData(
        partition_index=0,
        leader_id=replica.node_id,
        leader_epoch=epoch,
        preferred_successors=[each.node_id for each in candidates],
        preferred_candidates=[
            ReplicaInfo(candidate_id=each.node_id, candidate_directory_id=each.directory_id)
            for each in candidates
        ],
    )
    return EndQuorumEpochRequest(
        cluster_id=replica.cluster_id,
        topics=[EndQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=[data])],
        leader_endpoints=[
            end_messages.LeaderEndpoint(name=each.name, host=each.host, port=each.port)
            for each in replica.own_endpoints
        ],
    )


# ---- fetching


def discover_leader(replica: Replica, now_ms: int) -> int:
    """Ask one node after the other, whoever it may be."""
    addresses = replica.bootstrap_addresses
    if not addresses:
        return NEVER_MS
    connections = replica.connections
    if now_ms < replica.next_discovery_ms:
        return replica.next_discovery_ms
    busy = [each for each in addresses if connections.is_under_way(each, now_ms)]
    if busy:
        return min(connections.ready_ms(each) for each in busy)
    ready = [each for each in addresses if connections.is_ready(each, now_ms)]
    if not ready:
        return min(connections.ready_ms(each) for each in addresses)
    address = ready[replica.randomness.randrange(len(ready))]
    replica.next_discovery_ms = now_ms + replica.settings.retry_backoff_ms
    connections.send(-1, address, fetch_request(replica), now_ms)
    return connections.ready_ms(address)


def fetch_from_leader(replica: Replica, follower: Follower, now_ms: int) -> int:
    address = replica.leader_address
    if address is None:
        return NEVER_MS
    if replica.is_voter and replica.log.flushed_offset < replica.log.end_offset:
        return NEVER_MS
    if replica.connections.is_ready(address, now_ms):
        request: Message
        about_voter = voter_request(replica, follower, now_ms)
        if about_voter is not None:
            request = about_voter
        elif follower.snapshot is not None:
            request = _fetch_snapshot_request(replica, follower)
        else:
            request = fetch_request(replica)
        replica.connections.send(follower.leader_id, address, request, now_ms)
    return replica.connections.ready_ms(address)


def fetch_request(replica: Replica) -> FetchRequest:
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=replica.epoch,
        fetch_offset=replica.log.end_offset,
        last_fetched_epoch=replica.log.last_epoch,
        log_start_offset=-1,
        replica_directory_id=replica.directory_id,
        high_watermark=replica.high_watermark,
    )
    return FetchRequest(
        cluster_id=replica.cluster_id,
        replica_state=ReplicaState(replica_id=replica.node_id, replica_epoch=-1),
        max_wait_ms=replica.settings.fetch_max_wait_ms,
        min_bytes=0,
        max_bytes=replica.settings.fetch_max_bytes,
        topics=[
            FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])
        ],
    )


def _fetch_snapshot_request(replica: Replica, follower: Follower) -> FetchSnapshotRequest:
    snapshot = follower.snapshot
    assert snapshot is not None
    partition = FetchSnapshotRequestPartitionSnapshot(
        partition=0,
        current_leader_epoch=replica.epoch,
        snapshot_id=SnapshotId(end_offset=snapshot.id.offset, epoch=snapshot.id.epoch),
        position=snapshot.size,
        replica_directory_id=replica.directory_id,
    )
    return FetchSnapshotRequest(
        cluster_id=replica.cluster_id,
        replica_id=replica.node_id,
        max_bytes=replica.settings.fetch_snapshot_max_bytes,
        topics=[FetchSnapshotRequestTopicSnapshot(name=METADATA_TOPIC, partitions=[partition])],
    )
