"""Unattached: the epoch is known, where its leader is is not.

The replica asks around, one node at a time, by trying to fetch: whoever is not the leader answers
with whom it believes to be. A voter that does not find a leader in time stands for election.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.raft.epoch_state import EpochState, random_election_timeout_ms
from barnabas.raft.outgoing import discover_leader
from barnabas.raft.quorum_state import Election
from barnabas.raft.states import State
from barnabas.raft.voters import ReplicaKey

if TYPE_CHECKING:
    from barnabas.raft.replica import Replica


class Unattached(EpochState):
    STATE = State.UNATTACHED

    def __init__(self, election: Election, election_deadline_ms: int) -> None:
        super().__init__(election)
        self.election_deadline_ms = election_deadline_ms

    @classmethod
    def begin(cls, replica: Replica, election: Election, now_ms: int) -> Unattached:
        return cls(election, now_ms + random_election_timeout_ms(replica))

    def poll(self, replica: Replica, now_ms: int) -> int:
        if replica.is_voter and now_ms >= self.election_deadline_ms:
            replica.become_prospective(now_ms)
            return now_ms
        next_ms = discover_leader(replica, now_ms)
        return min(next_ms, self.election_deadline_ms) if replica.is_voter else next_ms

    def would_vote(self, candidate: ReplicaKey, up_to_date: bool, *, pre_vote: bool) -> bool:
        return up_to_date if pre_vote else self.may_vote(candidate, up_to_date)
