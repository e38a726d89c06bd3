"""Resigned: led the epoch, and does so no more.

It tells the voters, most caught up first, so that they need not wait until they notice. Nobody can
lead this epoch again, so after an election timeout the replica goes on to the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.raft.epoch_state import EpochState, random_election_timeout_ms
from barnabas.raft.outgoing import end_quorum_epoch
from barnabas.raft.quorum_state import Election
from barnabas.raft.states import State
from barnabas.raft.voters import ReplicaKey

if TYPE_CHECKING:
    from barnabas.raft.replica import Replica


class Resigned(EpochState):
    STATE = State.RESIGNED

    def __init__(
        self,
        election: Election,
        preferred: Sequence[ReplicaKey],
        replica: Replica,
        now_ms: int,
    ) -> None:
        super().__init__(election)
        self.preferred = list(preferred)
        self.unacknowledged = {
            each.voter_id for each in replica.voters.voters if each.voter_id != replica.node_id
        }
        self.deadline_ms = now_ms + random_election_timeout_ms(replica)

    def poll(self, replica: Replica, now_ms: int) -> int:
        if now_ms >= self.deadline_ms and not replica.is_shutting_down:
            replica.become_unattached(self.epoch + 1, now_ms)
            return now_ms
        next_ms = end_quorum_epoch(replica, self, now_ms)
        return next_ms if replica.is_shutting_down else min(next_ms, self.deadline_ms)

    def would_vote(self, candidate: ReplicaKey, up_to_date: bool, *, pre_vote: bool) -> bool:
        return pre_vote and up_to_date
