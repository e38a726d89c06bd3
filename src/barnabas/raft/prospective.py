"""Prospective: asks whether it would be elected, before it disturbs anybody (KIP-996).

No epoch is raised and nothing binding is given, so a replica that was cut off for a while comes back
without forcing an election upon a quorum that has a leader. With a majority of such votes it becomes
a candidate. Without, it returns to the leader that it knew or, if it knew none, to looking for one.
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


class Prospective(EpochState):
    STATE = State.PROSPECTIVE

    def __init__(self, election: Election, replica: Replica, now_ms: int) -> None:
        super().__init__(election)
        self.ballot = Ballot(replica.voters)
        self.ballot.record(replica.node_id, True)
        self.deadline_ms = now_ms + random_election_timeout_ms(replica)

    def poll(self, replica: Replica, now_ms: int) -> int:
        if self.ballot.is_won:
            replica.become_candidate(now_ms)
            return now_ms
        if self.ballot.is_lost or now_ms >= self.deadline_ms or not replica.is_voter:
            endpoints = replica.endpoints_of(self.leader_id)
            if endpoints and self.leader_id != replica.node_id:
                replica.become_follower(self.epoch, self.leader_id, endpoints, now_ms)
            else:
                replica.become_unattached(self.epoch, now_ms)
            return now_ms
        next_ms = request_votes(replica, self.ballot, now_ms, pre_vote=True)
        return min(next_ms, self.deadline_ms)

    def would_vote(self, candidate: ReplicaKey, up_to_date: bool, *, pre_vote: bool) -> bool:
        return up_to_date if pre_vote else self.may_vote(candidate, up_to_date)
