"""What others answered, and what follows from it.

Every answer says who leads which epoch; a higher epoch than the own, or a leader that was not known,
is taken over whatever else the answer says. Answers of earlier epochs are worth nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from barnabas.log.log import UnexpectedOffset
from barnabas.raft.candidate import Candidate
from barnabas.raft.connections import Send
from barnabas.raft.errors import LogCorrupt
from barnabas.raft.follower import Follower
from barnabas.raft.partition import only_partition
from barnabas.raft.prospective import Prospective
from barnabas.raft.replica import Replica
from barnabas.raft.resigned import Resigned
from barnabas.raft.snapshot import SnapshotId
from barnabas.raft.voters import VoterEndpoint
from barnabas.record.errors import BadRecords
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.begin_quorum_epoch import BeginQuorumEpochResponse
from barnabas.wire.messages.end_quorum_epoch import EndQuorumEpochResponse
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from barnabas.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    FetchSnapshotResponsePartitionSnapshot,
)
from barnabas.wire.messages.vote import VoteRequest, VoteResponse

logger = logging.getLogger(__name__)

NONE = ErrorCode.NONE
_TELLS_LEADER = (
    ErrorCode.NONE,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)


def take_vote(replica: Replica, send: Send, response: VoteResponse, now_ms: int) -> None:
    request = send.request
    assert isinstance(request, VoteRequest)
    state = replica.state
    data = only_partition(response.topics)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION and isinstance(state, Prospective):
        # It cannot be asked before the election; it will be asked in it.
        state.ballot.record(send.node, True)
        return
    if response.error_code != NONE or data is None:
        _refused(replica, send, response.error_code, now_ms)
        return
    if _follow_word(
        replica, data.error_code, data.leader_id, data.leader_epoch, response.node_endpoints, now_ms
    ):
        return
    if data.error_code != NONE:
        _refused(replica, send, data.error_code, now_ms)
        return
    if isinstance(state, Prospective | Candidate):
        asked = request.topics[0].partitions[0]
        if asked.replica_epoch == state.epoch:
            state.ballot.record(send.node, data.vote_granted)


def take_begin_quorum_epoch(
    replica: Replica, send: Send, response: BeginQuorumEpochResponse, now_ms: int
) -> None:
    data = only_partition(response.topics)
    if response.error_code != NONE or data is None:
        _refused(replica, send, response.error_code, now_ms)
        return
    if _follow_word(
        replica, data.error_code, data.leader_id, data.leader_epoch, response.node_endpoints, now_ms
    ):
        return
    if data.error_code != NONE:
        _refused(replica, send, data.error_code, now_ms)
    leader = replica.leader
    if leader is not None and send.node in leader.progress:
        period_ms = replica.settings.begin_quorum_epoch_period_ms
        leader.progress[send.node].begin_due_ms = now_ms + period_ms


def take_end_quorum_epoch(
    replica: Replica, send: Send, response: EndQuorumEpochResponse, now_ms: int
) -> None:
    data = only_partition(response.topics)
    if response.error_code != NONE or data is None:
        _refused(replica, send, response.error_code, now_ms)
        return
    if _follow_word(
        replica, data.error_code, data.leader_id, data.leader_epoch, response.node_endpoints, now_ms
    ):
        return
    state = replica.state
    if isinstance(state, Resigned) and data.error_code == NONE:
        state.unacknowledged.discard(send.node)


# ---- fetching


def take_fetch(replica: Replica, send: Send, response: FetchResponse, now_ms: int) -> None:
    request = send.request
    assert isinstance(request, FetchRequest)
    data = _fetched(response)
    if response.error_code != NONE or data is None:
        _refused(replica, send, response.error_code, now_ms)
        return
    leader = data.current_leader
    if _follow_word(
        replica,
        data.error_code,
        leader.leader_id,
        leader.leader_epoch,
        response.node_endpoints,
        now_ms,
    ):
        return
    state = replica.state
    if data.error_code != NONE or not isinstance(state, Follower):
        _refused(replica, send, data.error_code, now_ms)
        if isinstance(state, Follower) and send.node == state.leader_id:
            state.not_fetched(replica, now_ms)
        return
    asked = request.topics[0].partitions[0]
    if asked.current_leader_epoch != state.epoch or asked.fetch_offset != replica.log.end_offset:
        return
    if send.node == -1 and (send.host, send.port) != replica.leader_address:
        return
    try:
        _take_records(replica, state, data, now_ms)
    except (ApiError, BadRecords, UnexpectedOffset) as error:
        logger.error("what the leader %d sent cannot be appended: %s", state.leader_id, error)
        replica.connections.pause(send, now_ms)


def _take_records(replica: Replica, state: Follower, data: PartitionData, now_ms: int) -> None:
    log = replica.log
    if data.snapshot_id.epoch >= 0 or data.snapshot_id.end_offset >= 0:
        wanted = SnapshotId(data.snapshot_id.end_offset, data.snapshot_id.epoch)
        if wanted.offset < replica.high_watermark or wanted.epoch < 0:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"a snapshot {wanted} of what is known")
        state.drop_snapshot()
        state.snapshot = log.new_snapshot(wanted)
    elif data.diverging_epoch.epoch >= 0 or data.diverging_epoch.end_offset >= 0:
        end = SnapshotId(data.diverging_epoch.end_offset, data.diverging_epoch.epoch)
        if end.offset < 0 or end.epoch < 0:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"logs that part at {end}")
        replica.voter_history.truncate(log.truncate_to_agree(end))
    else:
        records = data.records
        before = log.end_offset
        state.is_caught_up = before >= data.high_watermark >= 0
        if records:
            content = records if isinstance(records, bytes | memoryview) else bytes(records)
            log.append_replicated(content, state.epoch, now_ms)
            replica.observe_from(before)
        replica.raise_high_watermark(data.high_watermark)
    state.fetched(now_ms)


def take_fetch_snapshot(
    replica: Replica, send: Send, response: FetchSnapshotResponse, now_ms: int
) -> None:
    request = send.request
    assert isinstance(request, FetchSnapshotRequest)
    data: FetchSnapshotResponsePartitionSnapshot | None = only_partition(response.topics, "name")
    if response.error_code != NONE or data is None:
        _refused(replica, send, response.error_code, now_ms)
        return
    leader = data.current_leader
    if _follow_word(
        replica,
        data.error_code,
        leader.leader_id,
        leader.leader_epoch,
        response.node_endpoints,
        now_ms,
    ):
        return
    state = replica.state
    if not isinstance(state, Follower) or state.snapshot is None:
        return
    asked = request.topics[0].partitions[0]
    snapshot = state.snapshot
    if asked.current_leader_epoch != state.epoch:
        return
    given = SnapshotId(data.snapshot_id.end_offset, data.snapshot_id.epoch)
    if data.error_code != NONE or given != snapshot.id or data.position != snapshot.size:
        logger.info(
            "the snapshot %s cannot be had from the leader %d: error %d",
            snapshot.id.file_name,
            state.leader_id,
            data.error_code,
        )
        state.drop_snapshot()
        replica.connections.pause(send, now_ms)
        return
    records = data.unaligned_records
    part = records if isinstance(records, bytes | memoryview) else bytes(records or b"")
    if not part or snapshot.size + len(part) > data.size:
        state.drop_snapshot()
        replica.connections.pause(send, now_ms)
        return
    snapshot.append(part)
    state.fetched(now_ms)
    if snapshot.size == data.size:
        _complete(replica, state, send, now_ms)


def _complete(replica: Replica, state: Follower, send: Send, now_ms: int) -> None:
    """The whole snapshot is there: it takes the log's place."""
    snapshot = state.snapshot
    assert snapshot is not None
    try:
        content = snapshot.complete()
    except LogCorrupt as error:
        logger.error("the snapshot that the leader %d sent: %s", state.leader_id, error)
        state.drop_snapshot()
        replica.connections.pause(send, now_ms)
        return
    state.snapshot = None
    replica.log.start_at_snapshot(snapshot.id, now_ms)
    replica.take_snapshot(snapshot.id, content)


def take_nothing(replica: Replica, send: Send, now_ms: int) -> None:
    """No answer came. What is still wanted is asked again in time."""
    state = replica.state
    if isinstance(state, Follower) and send.node == state.leader_id:
        state.not_fetched(replica, now_ms)


# ---- what all of them tell


def _follow_word(
    replica: Replica,
    error_code: int,
    leader_id: int,
    epoch: int,
    node_endpoints: Sequence[Any],
    now_ms: int,
) -> bool:
    """Take over what an answer says of the leader; True if nothing else of it counts."""
    if epoch < replica.epoch:
        return True
    if error_code not in _TELLS_LEADER:
        return False
    before = replica.state
    replica.learn(leader_id, epoch, _endpoints(replica, leader_id, node_endpoints), now_ms)
    return replica.state is not before


def _endpoints(
    replica: Replica, leader_id: int, node_endpoints: Sequence[Any]
) -> list[VoterEndpoint]:
    """Answers name no listener: it is the one that was asked."""
    if replica.leader_id == leader_id and replica.leader_address is not None:
        return []
    name = replica.settings.listener_name
    return [
        VoterEndpoint(name, each.host, each.port)
        for each in node_endpoints
        if each.node_id == leader_id and each.host
    ]


def _refused(replica: Replica, send: Send, error_code: int, now_ms: int) -> None:
    if error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
        replica.meet_stranger((send.host, send.port))
    elif error_code not in (NONE, *_TELLS_LEADER, ErrorCode.BROKER_NOT_AVAILABLE):
        logger.warning(
            "%s:%d answered %s with error %d", send.host, send.port, send.key.name, error_code
        )
    replica.connections.pause(send, now_ms)


def _fetched(response: FetchResponse) -> PartitionData | None:
    if len(response.responses) != 1 or len(response.responses[0].partitions) != 1:
        return None
    data = response.responses[0].partitions[0]
    return data if data.partition_index == 0 else None
