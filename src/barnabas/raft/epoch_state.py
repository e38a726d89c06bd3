"""What every state has: the epoch's election as far as it is known, and what it does in time.

`poll` is called after everything that happens and when the time has come that the last call named.
It does whatever is due: sends what can be sent, or goes on to another state. All sending is there,
so that nothing depends on the order in which things happen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from barnabas.raft.quorum_state import NOBODY, Election
from barnabas.raft.states import State
from barnabas.raft.voters import ReplicaKey

if TYPE_CHECKING:
    from barnabas.raft.replica import Replica


class EpochState:
    STATE: ClassVar[State]

    def __init__(self, election: Election) -> None:
        self.election = election

    @property
    def epoch(self) -> int:
        return self.election.epoch

    @property
    def leader_id(self) -> int:
        return self.election.leader_id

    def poll(self, replica: Replica, now_ms: int) -> int:
        """Do what is due; gives when to come again."""
        raise NotImplementedError

    def would_vote(self, candidate: ReplicaKey, up_to_date: bool, *, pre_vote: bool) -> bool:
        """Would this replica give its vote? A vote that was given is given again if asked."""
        raise NotImplementedError

    def may_vote(self, candidate: ReplicaKey, up_to_date: bool) -> bool:
        """The rule of those who have not stood for election themselves in this epoch."""
        election = self.election
        if election.voted_id != NOBODY:
            voted = ReplicaKey(election.voted_id, election.voted_directory_id)
            return voted.may_be(candidate)
        return election.leader_id == NOBODY and up_to_date


def random_election_timeout_ms(replica: Replica) -> int:
    """Between once and twice `controller.quorum.election.timeout.ms`, so that not all stand at
    the same moment."""
    timeout_ms = replica.settings.election_timeout_ms
    return timeout_ms + replica.randomness.randrange(max(timeout_ms, 1))
