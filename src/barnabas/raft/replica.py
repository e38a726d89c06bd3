"""What all parts of a replica share: its log, its voters, its state, and the steps between states.

Every step goes through the table of legal ones; what must not be forgotten over a restart is on the
disk before it counts. Committed batches go to the listener from here, in order and one at a time.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence

from barnabas.raft.ballot import Ballot
from barnabas.raft.candidate import Candidate
from barnabas.raft.connections import Connections
from barnabas.raft.epoch_state import EpochState
from barnabas.raft.errors import StorageError
from barnabas.raft.follower import Follower
from barnabas.raft.leader import Leader
from barnabas.raft.listener import Loaded, RaftListener
from barnabas.raft.log import LogBatch, MetadataLog
from barnabas.raft.prospective import Prospective
from barnabas.raft.quorum_state import NOBODY, Election, QuorumStateFile
from barnabas.raft.resigned import Resigned
from barnabas.raft.settings import RaftSettings
from barnabas.raft.snapshot import Snapshot, SnapshotId
from barnabas.raft.states import check_transition
from barnabas.raft.unattached import Unattached
from barnabas.raft.voter_history import VoterHistory
from barnabas.raft.voters import (
    ReplicaKey,
    VoterEndpoint,
    VoterSet,
    endpoint_address,
)
from barnabas.record.control import ControlType
from barnabas.seams import Address, Randomness
from barnabas.wire.records.raft import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
    encode_control_record,
)

logger = logging.getLogger(__name__)


class Replica:
    def __init__(
        self,
        *,
        log: MetadataLog,
        state_file: QuorumStateFile,
        node_id: int,
        directory_id: bytes,
        cluster_id: str,
        can_vote: bool,
        static_voters: VoterSet | None,
        bootstrap_servers: Sequence[Address],
        own_endpoints: Sequence[VoterEndpoint],
        settings: RaftSettings,
        randomness: Randomness,
        listener: RaftListener,
    ) -> None:
        self.log = log
        self.node_id = node_id
        self.directory_id = directory_id
        self.key = ReplicaKey(node_id, directory_id)
        self.cluster_id = cluster_id
        self.can_vote = can_vote
        self.own_endpoints = tuple(own_endpoints)
        self.settings = settings
        self.randomness = randomness
        self.connections = Connections(settings)
        self.voter_history = VoterHistory(static_voters or VoterSet(()))
        self.is_shutting_down = False
        self.next_discovery_ms = 0
        self.high_watermark = 0
        self.left_leading: Callable[[Leader], None] = lambda leader: None
        self._bootstrap_servers = tuple(bootstrap_servers)
        self._strangers: set[Address] = set()
        self._met_own = False
        self._state_file = state_file
        self._listener = listener
        self._written: Election | None = None
        self._state: EpochState = Unattached(Election(), 0)
        self._heard: tuple[int, int] = (NOBODY, -1)
        self._told_offset = 0
        self._appended: deque[Loaded] = deque()
        self._news: deque[Callable[[], None]] = deque()
        self._is_telling = False
        self._has_failed = False

    # ---- what is known

    @property
    def state(self) -> EpochState:
        return self._state

    @property
    def epoch(self) -> int:
        return self._state.election.epoch

    @property
    def leader_id(self) -> int:
        return self._state.election.leader_id

    @property
    def present_leader_id(self) -> int:
        """Who leads now: nobody, once this replica has resigned, though the epoch was its own."""
        return NOBODY if isinstance(self._state, Resigned) else self.leader_id

    @property
    def leader(self) -> Leader | None:
        """The state of leading, while this replica leads."""
        return self._state if isinstance(self._state, Leader) else None

    @property
    def voters(self) -> VoterSet:
        return self.voter_history.last

    @property
    def is_voter(self) -> bool:
        return self.can_vote and self.voters.is_voter(self.key)

    @property
    def bootstrap_addresses(self) -> list[Address]:
        """Whom to ask for the leader: whoever is configured, and the voters; never oneself."""
        listener = self.settings.listener_name
        found = list(self._bootstrap_servers)
        found += [
            address
            for voter in self.voters.voters
            if (address := voter.address(listener)) is not None
        ]
        own = {(each.host, each.port) for each in self.own_endpoints}
        voter = self.voters.find(self.node_id)
        if voter is not None and self.is_voter:
            own |= {(each.host, each.port) for each in voter.endpoints}
        return [each for each in dict.fromkeys(found) if each not in own]

    def endpoints_of(self, node_id: int) -> tuple[VoterEndpoint, ...]:
        if node_id == self.node_id:
            return self.own_endpoints
        state = self._state
        if isinstance(state, Follower) and node_id == state.leader_id:
            return state.endpoints
        voter = self.voters.find(node_id)
        return () if voter is None else voter.endpoints

    def leader_endpoint(self, listener: str = "") -> Address | None:
        return endpoint_address(self.endpoints_of(self.leader_id), listener)

    @property
    def leader_address(self) -> Address | None:
        """Where this replica fetches."""
        return self.leader_endpoint(self.settings.listener_name) or self.leader_endpoint()

    # ---- other clusters

    def meet_own(self, address: Address) -> None:
        """Somebody answered as a node of this cluster does."""
        self._met_own = True
        self._strangers.discard(address)

    def meet_stranger(self, address: Address) -> None:
        """Somebody answered that it belongs to another cluster. If everybody does, and nobody ever
        did otherwise, this node was given the wrong addresses or the wrong directory."""
        if address not in self._strangers:
            self._strangers.add(address)
            logger.error(
                "%s:%d belongs to another cluster than this node, whose cluster is %s",
                *address,
                self.cluster_id,
            )
        if not self._met_own and self._strangers.issuperset(self.bootstrap_addresses):
            named = ", ".join(f"{host}:{port}" for host, port in sorted(self._strangers))
            raise StorageError(
                f"{self.log.directory} belongs to the cluster {self.cluster_id}, but the controllers "
                f"at {named} belong to another one. Correct controller.quorum.bootstrap.servers or "
                "controller.quorum.voters, or let log.dirs name a directory of their cluster"
            )

    # ---- starting

    def start(self, now_ms: int) -> None:
        stored = self._state_file.read()
        newest = self.log.latest_snapshot
        if newest is not None:
            self.take_snapshot(newest, self.log.read_snapshot(newest))
        for batch in self.log.batches(self._told_offset):
            self.voter_history.observe(batch)
            self.log.last_timestamp_ms = batch.timestamp_ms
        self._check_voters()
        self._written = stored
        election = stored or Election()
        if election.epoch < self.log.last_epoch:
            election = Election(self.log.last_epoch)
        self._state = self._first_state(election, now_ms)
        self._hear()
        if self.is_voter and self.voters.is_only(self.node_id):
            self._lead_alone(now_ms)
        self.tell()

    def _check_voters(self) -> None:
        voters = self.voters
        is_static = self.voter_history.kraft_version == 0 and bool(voters.voters)
        if self.can_vote and is_static and self.node_id not in voters.ids:
            raise StorageError(
                f"node {self.node_id} is not one of the voters {list(voters.ids)} of the "
                f"metadata log in {self.log.directory}"
            )
        if not voters.voters and not self._bootstrap_servers:
            raise StorageError(
                f"the metadata log in {self.log.directory} names no voters: set "
                "controller.quorum.voters or controller.quorum.bootstrap.servers"
            )

    def _first_state(self, election: Election, now_ms: int) -> EpochState:
        if election.leader_id == self.node_id:
            # It led before it was restarted; it cannot lead that epoch again.
            return Resigned(election, [], self, now_ms)
        endpoints = self.endpoints_of(election.leader_id)
        if election.leader_id != NOBODY and endpoints:
            return Follower(election, endpoints, self, now_ms)
        return Unattached.begin(self, election, now_ms)

    def _lead_alone(self, now_ms: int) -> None:
        """All that is durable here is committed; there is nobody to wait for."""
        self.high_watermark = max(self.high_watermark, self.log.flushed_offset)
        self.log.advance_high_watermark(self.high_watermark)
        if isinstance(self._state, Resigned):
            self.become_unattached(self.epoch + 1, now_ms)
        self.become_prospective(now_ms)
        self.become_candidate(now_ms)
        state = self._state
        assert isinstance(state, Candidate)
        self.become_leader(state.ballot, now_ms)

    # ---- from state to state

    def _become(self, after: EpochState) -> None:
        before = self._state
        check_transition(before.STATE, before.epoch, after.STATE, after.epoch)
        election = after.election
        if election.epoch == before.epoch and before.leader_id != NOBODY:
            assert election.leader_id in (before.leader_id, NOBODY), "one leader an epoch"
        self._write(election)
        self._state = after
        self.connections.reset()
        if isinstance(before, Follower):
            before.drop_snapshot()
        if isinstance(before, Leader):
            self._after_leading(before)
        self._hear()

    def _after_leading(self, leader: Leader) -> None:
        self._appended.clear()
        self.left_leading(leader)
        if leader.is_announced:
            self._news.append(self._listener.stopped_leading)

    def _write(self, election: Election) -> None:
        if election == self._written:
            return
        self._state_file.write(election, self.voter_history.kraft_version, self.voters.ids)
        self._written = election

    def _hear(self) -> None:
        heard = (self.present_leader_id, self.epoch)
        if heard != self._heard:
            self._heard = heard
            self._news.append(lambda: self._listener.leader_changed(*heard))

    def become_unattached(
        self, epoch: int, now_ms: int, leader_id: int = NOBODY, voted: ReplicaKey | None = None
    ) -> None:
        """In the same epoch, what is known of it is kept."""
        known = self._state.election
        if epoch > known.epoch:
            known = Election(epoch)
        if voted is not None:
            known = Election(epoch, known.leader_id, voted.node_id, voted.directory_id)
        if leader_id != NOBODY:
            known = Election(epoch, leader_id, known.voted_id, known.voted_directory_id)
        after = Unattached.begin(self, known, now_ms)
        before = self._state
        if isinstance(before, Unattached) and before.epoch == epoch and voted is None:
            after.election_deadline_ms = before.election_deadline_ms
        self._become(after)

    def become_follower(
        self, epoch: int, leader_id: int, endpoints: Sequence[VoterEndpoint], now_ms: int
    ) -> None:
        assert leader_id not in (NOBODY, self.node_id), "nobody follows himself"
        known = self._state.election
        if epoch > known.epoch:
            known = Election(epoch)
        election = Election(epoch, leader_id, known.voted_id, known.voted_directory_id)
        self._become(Follower(election, endpoints, self, now_ms))

    def become_prospective(self, now_ms: int) -> None:
        assert self.is_voter, "only voters stand for election"
        known = self._state.election
        if isinstance(self._state, Candidate):
            known = Election(known.epoch, NOBODY, self.node_id, self.directory_id)
        self._become(Prospective(known, self, now_ms))

    def become_candidate(self, now_ms: int) -> None:
        election = Election(self.epoch + 1, NOBODY, self.node_id, self.directory_id)
        self._become(Candidate(election, self, now_ms))

    def become_leader(self, ballot: Ballot, now_ms: int) -> None:
        assert ballot.is_won
        known = self._state.election
        election = Election(known.epoch, self.node_id, known.voted_id, known.voted_directory_id)
        start_offset = self.log.end_offset
        assert self.log.last_epoch < election.epoch, "an epoch has one leader"
        leader = Leader(election, self.voters, self.node_id, start_offset, now_ms)
        self._become(leader)
        logger.info("node %d leads the metadata log in epoch %d", self.node_id, election.epoch)
        self._begin_epoch(leader, ballot, now_ms)

    def become_resigned(self, now_ms: int, why: str) -> None:
        leader = self.leader
        assert leader is not None
        logger.info("node %d resigns from leading epoch %d: %s", self.node_id, leader.epoch, why)
        self._become(Resigned(leader.election, leader.by_position(), self, now_ms))

    def stop(self, now_ms: int) -> None:
        """The disk failed. Nothing is written any more, and nobody is led."""
        self._has_failed = True
        leader = self.leader
        if leader is not None:
            self._state = Resigned(leader.election, [], self, now_ms)
            self._after_leading(leader)
            self._hear()
        self.connections.reset()
        self.tell()

    def learn(
        self,
        leader_id: int,
        epoch: int,
        endpoints: Sequence[VoterEndpoint],
        now_ms: int,
        *,
        from_leader: bool = False,
    ) -> None:
        """Another replica, perhaps the leader itself, says who leads an epoch that is not before
        this one's."""
        assert epoch >= self.epoch
        if leader_id == self.node_id:
            leader_id = NOBODY if epoch > self.epoch else self.leader_id
        known = endpoints or self.endpoints_of(leader_id)
        if epoch > self.epoch:
            if leader_id != NOBODY and known:
                self.become_follower(epoch, leader_id, known, now_ms)
            else:
                self.become_unattached(epoch, now_ms, leader_id)
            return
        if leader_id in (NOBODY, self.node_id) or isinstance(self._state, Leader | Resigned):
            return
        if self.leader_id not in (NOBODY, leader_id):
            logger.error(
                "epoch %d is led by node %d, but another replica says by %d",
                epoch,
                self.leader_id,
                leader_id,
            )
            return
        if isinstance(self._state, Follower):
            if endpoints and tuple(endpoints) != self._state.endpoints:
                self.become_follower(epoch, leader_id, endpoints, now_ms)
        elif (
            isinstance(self._state, Prospective) and self.leader_id == leader_id and not from_leader
        ):
            # It has given this leader up; others who have not may still grant their vote.
            return
        elif known:
            self.become_follower(epoch, leader_id, known, now_ms)
        elif isinstance(self._state, Unattached) and self.leader_id == NOBODY:
            self.become_unattached(epoch, now_ms, leader_id)

    # ---- the log

    def _begin_epoch(self, leader: Leader, ballot: Ballot, now_ms: int) -> None:
        """The batch that every epoch begins with. Voters that so far stand in a snapshot before
        the log's beginning only, as after formatting, are repeated in the log."""
        # Version 1 would have directories, but Apache Kafka reads every one as version 0.
        change = LeaderChangeMessage(
            version=0,
            leader_id=self.node_id,
            voters=[LeaderChangeVoter(voter_id=each) for each in ballot.voters.ids],
            granting_voters=[
                LeaderChangeVoter(voter_id=each)
                for each in ballot.voters.ids
                if each in ballot.granted
            ],
        )
        controls = [(ControlType.LEADER_CHANGE, encode_control_record(change))]
        if self.voter_history.kraft_version >= 1 and self.voter_history.last_offset < 0:
            controls += self.voter_controls(self.voters, self.voter_history.kraft_version)
        self.append_control(controls, now_ms)

    def voter_controls(
        self, voters: VoterSet, kraft_version: int
    ) -> list[tuple[ControlType, bytes]]:
        level = KRaftVersionRecord(version=0, kraft_version=kraft_version)
        return [
            (ControlType.KRAFT_VERSION, encode_control_record(level)),
            (ControlType.KRAFT_VOTERS, encode_control_record(voters.to_record())),
        ]

    def append_control(self, controls: Sequence[tuple[ControlType, bytes]], now_ms: int) -> int:
        """Leader only."""
        leader = self.leader
        assert leader is not None
        base = self.log.end_offset
        last = self.log.append_control(controls, leader.epoch, now_ms)
        for batch in self.log.batches(base):
            if self.voter_history.observe(batch):
                leader.voters_changed(self.voters)
            self._appended.append(loaded(batch))
        return last

    def append(self, values: Sequence[bytes], now_ms: int) -> int:
        """Leader only."""
        leader = self.leader
        assert leader is not None
        before = self.log.size
        last = self.log.append(values, leader.epoch, now_ms)
        size = self.log.size - before
        self._appended.append(Loaded(list(values), last, leader.epoch, now_ms, size, False))
        return last

    def observe_from(self, offset: int) -> None:
        """Batches were appended that the leader sent."""
        for batch in self.log.batches(offset):
            self.voter_history.observe(batch)
            self.log.last_timestamp_ms = batch.timestamp_ms

    def take_snapshot(self, snapshot_id: SnapshotId, snapshot: Snapshot) -> None:
        """A snapshot counts in place of everything before it."""
        self.voter_history.load_snapshot(snapshot_id, snapshot)
        self.high_watermark = max(self.high_watermark, snapshot_id.offset)
        self.log.last_timestamp_ms = snapshot.last_contained_timestamp_ms
        self._told_offset = snapshot_id.offset
        found = Loaded(
            snapshot.records,
            snapshot_id.offset - 1,
            snapshot_id.epoch,
            snapshot.last_contained_timestamp_ms,
            0,
            is_snapshot=True,
        )
        self._news.append(lambda: self._listener.load_snapshot(found))

    def raise_high_watermark(self, offset: int) -> bool:
        """True if it rose. It never goes back, and never beyond the log."""
        offset = min(offset, self.log.end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.log.advance_high_watermark(offset)
        leader = self.leader
        if leader is not None:
            leader.has_committed = True
        return True

    # ---- the listener

    def tell(self) -> None:
        """Tell the listener everything that it does not know yet. Nothing if it is being told."""
        if self._is_telling:
            return
        self._is_telling = True
        try:
            while self._tell_next():
                pass
        finally:
            self._is_telling = False

    def _tell_next(self) -> bool:
        if self._news:
            self._news.popleft()()
            return True
        if self._has_failed:
            return False
        if self._told_offset < self.high_watermark:
            self._tell_committed()
            return True
        leader = self.leader
        if leader is not None and leader.has_committed and not leader.is_announced:
            leader.is_announced = True
            self._listener.began_leading(leader.epoch)
            return True
        return False

    def _tell_committed(self) -> None:
        appended = self._appended
        while appended and appended[0].last_offset < self._told_offset:
            appended.popleft()
        offset = self._told_offset
        if appended and appended[0].last_offset < self.high_watermark:
            following = appended[0]
            if self._is_next(following):
                appended.popleft()
                self._told_offset = following.last_offset + 1
                self._listener.committed(following)
                return
        for batch in self.log.batches(offset, self.high_watermark):
            self._told_offset = batch.last_offset + 1
            self._listener.committed(loaded(batch))
            if self._news:
                return

    def _is_next(self, following: Loaded) -> bool:
        """What was appended here follows at once upon what was told."""
        leader = self.leader
        return leader is not None and self._told_offset >= leader.epoch_start_offset


def loaded(batch: LogBatch) -> Loaded:
    return Loaded(
        list(batch.values),
        batch.last_offset,
        batch.epoch,
        batch.timestamp_ms,
        batch.size,
        is_snapshot=False,
    )
