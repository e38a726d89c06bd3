"""The votes of one election, as they come in."""

from __future__ import annotations

from barnabas.raft.voters import VoterSet


class Ballot:
    """Counts for the set of voters at the time the election began."""

    def __init__(self, voters: VoterSet) -> None:
        self.voters = voters
        self.granted: set[int] = set()
        self.rejected: set[int] = set()

    @property
    def unanswered(self) -> list[int]:
        return [each for each in self.voters.ids if each not in self.granted | self.rejected]

    @property
    def is_won(self) -> bool:
        return len(self.granted) >= self.voters.majority

    @property
    def is_lost(self) -> bool:
        return len(self.voters.ids) - len(self.rejected) < self.voters.majority

    def record(self, voter_id: int, granted: bool) -> None:
        """A vote that was given stays given."""
        if voter_id not in self.voters.ids or voter_id in self.granted:
            return
        if granted:
            self.granted.add(voter_id)
            self.rejected.discard(voter_id)
        else:
            self.rejected.add(voter_id)
