"""Leader: what it knows of every replica, and what follows from that.

The high watermark is what a majority of voters has on its disks, but counts only once something of
the leader's own epoch is among it: before that, a majority may have a batch of an earlier epoch and
still lose it (section 5.4.2 of the Raft paper). A replica's position is where it fetches: by
fetching there it says that it has everything before. The leader's own is where its disk is. It
counts itself only while it is a voter; it may lead on as none, until its own removal is committed.

A leader that no majority fetches from cannot commit anything and resigns, so that its clients look
for another one (check quorum).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.raft.connections import NEVER_MS
from barnabas.raft.epoch_state import EpochState
from barnabas.raft.outgoing import begin_epoch_at
from barnabas.raft.quorum_state import Election
from barnabas.raft.states import State
from barnabas.raft.voters import ReplicaKey, VoterNode, VoterSet
from barnabas.wire.message import Message
from barnabas.wire.messages.fetch import FetchRequest

if TYPE_CHECKING:
    from barnabas.raft.reconfiguration import VoterChange
    from barnabas.raft.replica import Replica

UNKNOWN = -1


@dataclass(slots=True)
class Progress:
    """A replica as the leader sees it."""

    key: ReplicaKey
    end_offset: int = UNKNOWN
    last_fetch_ms: int = UNKNOWN
    last_caught_up_ms: int = UNKNOWN
    leader_end_offset: int = UNKNOWN
    begin_due_ms: int = 0

    def fetched(self, offset: int, leader_end_offset: int, now_ms: int) -> None:
        if offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif UNKNOWN < self.leader_end_offset <= offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.end_offset = offset
        self.leader_end_offset = leader_end_offset
        self.last_fetch_ms = max(self.last_fetch_ms, now_ms)


@dataclass(slots=True)
class WaitingFetch:
    """A fetch that found nothing new yet."""

    version: int
    request: FetchRequest
    listener_name: str
    deadline_ms: int
    reply: Callable[[Message], None]


@dataclass(slots=True)
class Leader(EpochState):
    STATE = State.LEADER

    election: Election
    voters: VoterSet
    node_id: int
    epoch_start_offset: int
    began_ms: int
    progress: dict[int, Progress] = field(default_factory=dict)
    observers: dict[ReplicaKey, Progress] = field(default_factory=dict)
    waiting: dict[ReplicaKey, WaitingFetch] = field(default_factory=dict)
    change: VoterChange | None = None
    described: dict[int, VoterNode] = field(default_factory=dict)
    """What configured voters say of themselves: what an upgrade of `kraft.version` writes down."""
    has_committed: bool = False
    """Something of this epoch is committed: the high watermark is known, and may be told."""
    is_announced: bool = False

    def __post_init__(self) -> None:
        self.voters_changed(self.voters)

    def voters_changed(self, voters: VoterSet) -> None:
        """Positions are kept: an observer that becomes a voter need not be waited for."""
        known = [*self.progress.values(), *self.observers.values()]
        self.voters = voters
        self.progress = {}
        for voter in voters.voters:
            found = next((each for each in known if each.key.may_be(voter.key)), None)
            self.progress[voter.voter_id] = found or Progress(voter.key)
        kept = list(self.progress.values())
        self.observers = {
            each.key: each
            for each in known
            if each not in kept and each.key.node_id != self.node_id
        }

    def fetched(self, key: ReplicaKey, offset: int, end_offset: int, now_ms: int) -> bool:
        """A replica fetched at `offset`; True if it is a voter."""
        progress = self.find(key)
        progress.fetched(offset, end_offset, now_ms)
        return progress.key.node_id in self.progress

    def seen(self, key: ReplicaKey, now_ms: int) -> None:
        """A replica is there, though its log cannot go on from where it is."""
        progress = self.find(key)
        progress.last_fetch_ms = max(progress.last_fetch_ms, now_ms)

    def find(self, key: ReplicaKey) -> Progress:
        if self.voters.is_voter(key):
            return self.progress[key.node_id]
        return self.observers.setdefault(key, Progress(key))

    # ---- what follows

    def majority_offset(self, flushed_offset: int) -> int:
        """What a majority of voters has."""
        offsets = sorted(
            (
                flushed_offset if voter_id == self.node_id else each.end_offset
                for voter_id, each in self.progress.items()
            ),
            reverse=True,
        )
        return offsets[self.voters.majority - 1]

    def check_quorum_deadline_ms(self, timeout_ms: int) -> int:
        """When this leader must resign, unless a majority fetches before."""
        others = [each for voter_id, each in self.progress.items() if voter_id != self.node_id]
        needed = self.voters.majority - (len(others) < len(self.progress))
        if needed == 0:
            return NEVER_MS
        heard = sorted((max(each.last_fetch_ms, self.began_ms) for each in others), reverse=True)
        return heard[needed - 1] + timeout_ms

    def by_position(self) -> list[ReplicaKey]:
        """The other voters, most caught up first: who should lead next."""
        others = [each for voter_id, each in self.progress.items() if voter_id != self.node_id]
        return [each.key for each in sorted(others, key=lambda each: -each.end_offset)]

    def expire_observers(self, replica: Replica, now_ms: int) -> None:
        settings = replica.settings
        oldest_ms = now_ms - settings.observer_session_timeout_ms
        gone = [each.key for each in self.observers.values() if each.last_fetch_ms <= oldest_ms]
        excess = len(self.observers) - len(gone) - settings.max_observers
        if excess > 0:
            by_age = sorted(self.observers.values(), key=lambda each: each.last_fetch_ms)
            gone = [each.key for each in by_age[: len(gone) + excess]]
        for key in gone:
            del self.observers[key]

    def poll(self, replica: Replica, now_ms: int) -> int:
        deadline_ms = self.check_quorum_deadline_ms(replica.settings.check_quorum_timeout_ms)
        if now_ms >= deadline_ms:
            replica.become_resigned(now_ms, "no majority of the voters fetches from it")
            return now_ms
        removed = not replica.is_voter and self.has_committed
        if removed and replica.voter_history.last_offset < replica.high_watermark:
            replica.become_resigned(now_ms, "it is no voter any more")
            return now_ms
        next_ms = min(deadline_ms, self._remind(replica, now_ms))
        for waiting in self.waiting.values():
            next_ms = min(next_ms, waiting.deadline_ms)
        self.expire_observers(replica, now_ms)
        return next_ms

    def _remind(self, replica: Replica, now_ms: int) -> int:
        """Tell the voters that do not fetch who leads."""
        period_ms = replica.settings.begin_quorum_epoch_period_ms
        next_ms = NEVER_MS
        for voter in self.voters.voters:
            if voter.voter_id == self.node_id:
                continue
            progress = self.progress[voter.voter_id]
            due_ms = max(progress.begin_due_ms, progress.last_fetch_ms + period_ms)
            if progress.last_fetch_ms == UNKNOWN:
                due_ms = progress.begin_due_ms
            if now_ms >= due_ms:
                due_ms = begin_epoch_at(replica, self, voter, now_ms)
            next_ms = min(next_ms, due_ms)
        return next_ms

    def would_vote(self, candidate: ReplicaKey, up_to_date: bool, *, pre_vote: bool) -> bool:
        return False
