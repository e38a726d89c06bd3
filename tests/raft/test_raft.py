"""What scripts do not show well: broken files, failing disks, clocks that jump, rules by number."""

from __future__ import annotations

import re

import pytest

from barnabas.raft.ballot import Ballot
from barnabas.raft.connections import NEVER_MS, Send
from barnabas.raft.errors import LogCorrupt, NotLeader, StorageError
from barnabas.raft.leader import Leader
from barnabas.raft.log import LogBatch
from barnabas.raft.quorum_state import Election
from barnabas.raft.snapshot import SnapshotId
from barnabas.raft.states import State
from barnabas.raft.voter_history import VoterHistory
from barnabas.raft.voters import ReplicaKey
from barnabas.record.control import ControlRecord, ControlType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.messages.fetch import FetchResponse
from barnabas.wire.messages.vote import (
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
    VoteResponse,
)
from barnabas.wire.records.raft import encode_control_record
from tests.raft.cluster import (
    CLUSTER_ID,
    Node,
    directory_of,
    dynamic_voters,
    static_voters,
)
from tests.raft.script import Script

NOW_MS = 1_000_000
QUORUM_STATE = "/d/quorum-state"


def alone() -> Node:
    node = Node(1, voters=static_voters([1]))
    node.start(NOW_MS)
    node.flush(NOW_MS)
    return node


# ---- files


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"data_version":7,"leaderEpoch":1}', b'{"data_version":0}', b"\xff"],
)
def test_a_broken_quorum_state_is_named_and_left_as_it_is(content: bytes) -> None:
    node = alone()
    node.crash(power=False)
    node.disk.write_atomically(QUORUM_STATE, content)
    with pytest.raises(StorageError, match="quorum-state is corrupt"):
        node.start(NOW_MS)
    assert node.disk.read_file(QUORUM_STATE) == content


def test_a_broken_snapshot_is_named_and_left_as_it_is() -> None:
    node = alone()
    assert node.raft is not None
    node.raft.append([b"a"], NOW_MS)
    node.flush(NOW_MS)
    snapshot = node.snapshot()
    assert snapshot == SnapshotId(2, 1)
    node.crash(power=False)
    path = f"/d/__cluster_metadata-0/{snapshot.file_name}"
    broken = node.disk.read_file(path)[:-10]
    node.disk.write_atomically(path, broken)
    before = node.disk.read_file(QUORUM_STATE)
    with pytest.raises(LogCorrupt, match=snapshot.file_name):
        node.start(NOW_MS)
    assert node.disk.read_file(path) == broken
    assert node.disk.read_file(QUORUM_STATE) == before


def test_a_node_that_is_no_voter_of_its_configuration_does_not_start() -> None:
    node = Node(4, voters=static_voters([1, 2, 3]))
    with pytest.raises(StorageError, match=r"node 4 is not one of the voters \[1, 2, 3\]"):
        node.start(NOW_MS)


def test_a_node_that_knows_nobody_does_not_start() -> None:
    with pytest.raises(StorageError, match=r"controller\.quorum\.bootstrap\.servers"):
        Node(4).start(NOW_MS)


# ---- other clusters


def fetches(node: Node, now_ms: int) -> list[Send]:
    assert node.raft is not None
    node.raft.tick(now_ms)
    return [send for send in node.raft.take_sends() if send.key is ApiKey.FETCH]


def test_a_node_among_strangers_stops_and_says_whom_it_met(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It was given another cluster's addresses, or another cluster's directory."""
    node = Node(4, can_vote=False, bootstrap=[1, 2])
    raft = node.start(NOW_MS)
    foreign = FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    now_ms, asked = NOW_MS, 0
    while raft.failure is None:
        now_ms += 1
        for send in fetches(node, now_ms):
            asked += 1
            raft.answered(send, foreign, now_ms)
        assert asked < 100
    assert isinstance(raft.failure, StorageError)
    said = rf"belongs to the cluster {CLUSTER_ID}, but the controllers at n1:9093, n2:9093 belong"
    assert re.search(said, str(raft.failure))
    assert sum("belongs to another cluster" in text for text in caplog.messages) == 2


def test_one_stranger_among_friends_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(4, can_vote=False, bootstrap=[1, 2])
    raft = node.start(NOW_MS)
    foreign = FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    for now_ms in range(NOW_MS, NOW_MS + 2_000):
        for send in fetches(node, now_ms):
            raft.answered(send, foreign if send.host == "n1" else None, now_ms)
    assert raft.failure is None
    assert sum("belongs to another cluster" in text for text in caplog.messages) == 1


# ---- failing disks


def vote_request(node_id: int, epoch: int) -> VoteRequest:
    data = VoteRequestPartitionData(
        replica_epoch=epoch,
        replica_id=2,
        replica_directory_id=directory_of(2),
        voter_directory_id=directory_of(node_id),
    )
    topic = VoteRequestTopicData(topic_name="__cluster_metadata", partitions=[data])
    return VoteRequest(cluster_id=CLUSTER_ID, voter_id=node_id, topics=[topic])


def test_a_vote_that_cannot_be_kept_is_not_given() -> None:
    node = Node(1, voters=static_voters([1, 2, 3]))
    raft = node.start(NOW_MS)
    node.disk.fails = lambda operation, path: operation == "sync"
    replies: list[Message] = []
    raft.handle(ApiKey.VOTE, 2, vote_request(1, 4), NOW_MS, replies.append)
    (reply,) = replies
    assert isinstance(reply, VoteResponse)
    assert reply.error_code == ErrorCode.BROKER_NOT_AVAILABLE
    assert raft.failure is not None
    assert raft.take_sends() == []
    # Also later: it has stopped.
    node.disk.fails = lambda operation, path: False
    raft.handle(ApiKey.VOTE, 2, vote_request(1, 5), NOW_MS, replies.append)
    assert len(replies) == 2
    assert raft.epoch == 0


def test_a_leader_whose_disk_fails_leads_no_more() -> None:
    node = alone()
    raft = node.raft
    assert raft is not None
    assert raft.is_leader
    raft.append([b"a"], NOW_MS)
    raft.failed(OSError("no space"))
    assert not raft.is_leader
    assert raft.leader_id == -1
    assert not raft.wants_flush
    assert node.recorder.events[-2:] == ["stopped_leading", "leader_changed -1 epoch 1"]
    with pytest.raises(NotLeader):
        raft.append([b"b"], NOW_MS)


def test_only_a_leader_appends() -> None:
    node = Node(1, voters=static_voters([1, 2, 3]))
    raft = node.start(NOW_MS)
    with pytest.raises(NotLeader):
        raft.append([b"a"], NOW_MS)


# ---- time


def test_a_clock_that_goes_back_stops_nothing() -> None:
    node = Node(1, voters=static_voters([1, 2, 3]))
    raft = node.start(NOW_MS)
    assert raft.state is State.UNATTACHED
    now_ms = NOW_MS - 3_600_000
    raft.tick(now_ms)
    waited_ms = 0
    while raft.state is State.UNATTACHED and waited_ms < 5_000:
        step_ms = max(raft.next_tick_ms - now_ms, 1)
        now_ms += step_ms
        waited_ms += step_ms
        for send in raft.take_sends():
            raft.answered(send, None, now_ms)
        raft.tick(now_ms)
    assert raft.state is State.PROSPECTIVE


def test_two_survivors_that_lose_their_leader_at_the_same_moment_elect_one() -> None:
    script = Script()
    script.do_quorum("1", "2", "3")
    script.do_start("1", "2", "3")
    script.do_run("4000")
    leader = script._resolve("leader")
    survivors = [node for each, node in script.nodes.items() if str(each) != leader]
    for node in survivors:
        assert node.raft is not None
        assert node.raft.state is State.FOLLOWER
        state = node.raft._replica.state
        state.fetch_deadline_ms = script.now_ms + 1000  # type: ignore[attr-defined]
    script.do_kill(leader)
    script.do_run("8000")
    assert sum(node.raft is not None and node.raft.is_leader for node in survivors) == 1


# ---- rules by number


@pytest.mark.parametrize(
    ("count", "positions", "expected"),
    [
        (1, [], 10),
        (2, [7], 7),
        (3, [7, 3], 7),
        (3, [-1, -1], -1),
        (3, [12, 11], 11),
        (4, [9, 8, 1], 8),
        (5, [9, 8, 2, 1], 8),
    ],
)
def test_the_majority_has_what_the_majority_has(
    count: int, positions: list[int], expected: int
) -> None:
    voters = static_voters(range(1, count + 1))
    leader = Leader(Election(3, 1), voters, 1, 5, 0)
    for voter_id, position in enumerate(positions, 2):
        leader.fetched(ReplicaKey(voter_id, directory_of(voter_id)), position, 10, 0)
    assert leader.majority_offset(10) == expected


def test_a_leader_counts_the_voters_it_has_heard_of() -> None:
    leader = Leader(Election(3, 1), static_voters([1, 2, 3, 4, 5]), 1, 5, 1000)
    assert leader.check_quorum_deadline_ms(3000) == 4000
    leader.seen(ReplicaKey(2, directory_of(2)), 2000)
    assert leader.check_quorum_deadline_ms(3000) == 4000
    leader.seen(ReplicaKey(3, directory_of(3)), 2500)
    assert leader.check_quorum_deadline_ms(3000) == 5000
    # An observer does not count.
    leader.seen(ReplicaKey(9, directory_of(9)), 9000)
    assert leader.check_quorum_deadline_ms(3000) == 5000
    assert Leader(Election(3, 1), static_voters([1]), 1, 5, 0).check_quorum_deadline_ms(1) == (
        NEVER_MS
    )


def test_what_is_of_an_earlier_epoch_is_not_committed_by_counting() -> None:
    """The leader of epoch 3 began at offset 8. That a majority has all before says nothing."""
    node = Node(1, voters=static_voters([1, 2, 3]))
    raft = node.start(NOW_MS)
    replica = raft._replica
    raft.log.append([b"a", b"b"], 1, NOW_MS)
    replica.become_prospective(NOW_MS)
    replica.become_candidate(NOW_MS)
    ballot = Ballot(replica.voters)
    ballot.record(1, True)
    ballot.record(2, True)
    replica.become_unattached(2, NOW_MS)
    replica.become_prospective(NOW_MS)
    replica.become_candidate(NOW_MS)
    replica.become_leader(ballot, NOW_MS)
    leader = replica.leader
    assert leader is not None
    assert leader.epoch_start_offset == 2
    node.flush(NOW_MS)
    key = ReplicaKey(2, directory_of(2))
    leader.fetched(key, 2, raft.log.end_offset, NOW_MS)
    raft.tick(NOW_MS)
    assert raft.high_watermark == 0
    leader.fetched(key, 3, raft.log.end_offset, NOW_MS)
    raft.tick(NOW_MS)
    assert raft.high_watermark == 3
    assert node.recorder.leading == 3


@pytest.mark.parametrize(
    ("count", "granted", "rejected", "won", "lost"),
    [
        (1, {1}, set(), True, False),
        (3, {1}, {2}, False, False),
        (3, {1}, {2, 3}, False, True),
        (3, {1, 3}, {2}, True, False),
        (4, {1, 2}, {3, 4}, False, True),
        (5, {1, 2}, {3, 4}, False, False),
    ],
)
def test_ballots(count: int, granted: set[int], rejected: set[int], won: bool, lost: bool) -> None:
    ballot = Ballot(static_voters(range(1, count + 1)))
    for each in granted:
        ballot.record(each, True)
    for each in rejected:
        ballot.record(each, False)
    ballot.record(99, True)
    assert (ballot.is_won, ballot.is_lost) == (won, lost)
    for each in granted:
        ballot.record(each, False)
    assert ballot.is_won == won


def test_voters_are_taken_back_with_the_log() -> None:
    history = VoterHistory(static_voters([1]))

    def observe(offset: int, ids: list[int]) -> None:
        record = encode_control_record(dynamic_voters(ids).to_record())
        control = ControlRecord(offset, 0, ControlType.KRAFT_VOTERS, record)
        assert history.observe(LogBatch(offset, offset, 1, 0, 0, controls=[control]))

    observe(3, [1, 2])
    observe(7, [1, 2, 3])
    assert [history.at(each).ids for each in (3, 4, 7, 8, 99)] == [
        (1,),
        (1, 2),
        (1, 2),
        (1, 2, 3),
        (1, 2, 3),
    ]
    history.truncate(7)
    assert (history.last.ids, history.last_offset) == ((1, 2), 3)
    history.truncate(3)
    assert (history.last.ids, history.last_offset) == ((1,), -1)
