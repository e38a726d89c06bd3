"""Candidate: has raised the epoch, has voted for itself, durably, and asks the others.

If the election is lost or takes too long, the candidate waits for a random while and begins again
as prospective.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.raft.ballot import Ballot
from barnabas.raft.epoch_state import EpochState, random_election_timeout_ms
from barnabas.raft.outgoing import request_votes
from barnabas.raft.quorum_state import Election
from barnabas.raft.states import State
from barnabas.raft.voters import ReplicaKey

if TYPE_CHECKING:
    from barnabas.raft.replica import Replica


class Candidate(EpochState):
    STATE = State.CANDIDATE

    def __init__(self, election: Election, replica: Replica, now_ms: int) -> None:
        super().__init__(election)
        self.ballot = Ballot(replica.voters)
        self.ballot.record(replica.node_id, True)
        self.deadline_ms = now_ms + random_election_timeout_ms(replica)
        self._is_backing_off = False

    def poll(self, replica: Replica, now_ms: int) -> int:
        if self.ballot.is_won:
            replica.become_leader(self.ballot, now_ms)
            return now_ms
        if not replica.is_voter:
            replica.become_unattached(self.epoch + 1, now_ms)
            return now_ms
        if now_ms >= self.deadline_ms:
            replica.become_prospective(now_ms)
            return now_ms
        if self.ballot.is_lost:
            if not self._is_backing_off:
                self._is_backing_off = True
                backoff_ms = replica.randomness.randrange(
                    max(replica.settings.election_backoff_max_ms, 1)
                )
                self.deadline_ms = min(self.deadline_ms, now_ms + backoff_ms)
            return self.deadline_ms
        return min(request_votes(replica, self.ballot, now_ms, pre_vote=False), self.deadline_ms)

    def would_vote(self, candidate: ReplicaKey, up_to_date: bool, *, pre_vote: bool) -> bool:
        return pre_vote and up_to_date
