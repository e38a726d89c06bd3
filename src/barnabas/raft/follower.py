"""Follower: fetches from the leader of its epoch.

A voter fetches onward only when what it has is durable, because its position is its word. If the
leader does not answer for `controller.quorum.fetch.timeout.ms`, a voter stands for election, and an
observer asks around for another leader.

While a snapshot is fetched, the log waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.raft.epoch_state import EpochState
from barnabas.raft.log import PartialSnapshot
from barnabas.raft.outgoing import discover_leader, fetch_from_leader
from barnabas.raft.quorum_state import Election
from barnabas.raft.states import State
from barnabas.raft.voters import ReplicaKey, VoterEndpoint

if TYPE_CHECKING:
    from barnabas.raft.replica import Replica


class Follower(EpochState):
    STATE = State.FOLLOWER

    def __init__(
        self, election: Election, endpoints: Sequence[VoterEndpoint], replica: Replica, now_ms: int
    ) -> None:
        super().__init__(election)
        self.endpoints = tuple(endpoints)
        # Followers of one leader lose it at the same moment; they should not stand at the same one.
        spread_ms = max(replica.settings.election_timeout_ms // 5, 1)
        self._patience_ms = replica.settings.fetch_timeout_ms + replica.randomness.randrange(
            spread_ms
        )
        self.fetch_deadline_ms = now_ms + self._patience_ms
        self.voter_update_ms = now_ms
        self.has_updated_voter = False
        self.has_fetched = False
        # All that was committed was here already when the leader was last asked.
        self.is_caught_up = False
        self.snapshot: PartialSnapshot | None = None

    def poll(self, replica: Replica, now_ms: int) -> int:
        expired = now_ms >= self.fetch_deadline_ms
        if expired and replica.is_voter:
            replica.become_prospective(now_ms)
            return now_ms
        next_ms = fetch_from_leader(replica, self, now_ms)
        if expired:
            return min(next_ms, discover_leader(replica, now_ms))
        return min(next_ms, self.fetch_deadline_ms)

    def fetched(self, now_ms: int) -> None:
        """The leader answered as a leader does."""
        self.has_fetched = True
        self.fetch_deadline_ms = now_ms + self._patience_ms

    def not_fetched(self, replica: Replica, now_ms: int) -> None:
        """The leader is not there, or leads no more. A voter gives it time; an observer, who
        disturbs nobody by it, asks around at once."""
        if not replica.is_voter:
            self.fetch_deadline_ms = now_ms

    def drop_snapshot(self) -> None:
        if self.snapshot is not None:
            self.snapshot.drop()
            self.snapshot = None

    def would_vote(self, candidate: ReplicaKey, up_to_date: bool, *, pre_vote: bool) -> bool:
        # Who has heard of the leader in this epoch does not help to unseat it.
        return pre_vote and up_to_date and not self.has_fetched
