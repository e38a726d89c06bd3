"""The states of a voter, and which may follow which.

Unattached: knows an epoch but not where its leader is. Follower: fetches from the leader.
Prospective: asks whether others would vote for it, without raising the epoch. Candidate: has raised
the epoch and voted for itself. Leader: has the votes of a majority. Resigned: led the epoch, and
does so no more; before anything else it goes on to the next epoch, because nobody follows himself.

An observer, which is a replica that is no voter, is unattached or a follower, and waits there until
it is made a voter.

`TRANSITIONS` is the whole law: a step that is not in it is a bug and raises. Epochs never go back,
and a leader or a vote, once known in an epoch, is not replaced in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class State(Enum):
    UNATTACHED = "unattached"
    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    RESIGNED = "resigned"


_U, _F, _P, _C, _L, _R = State

# From a state: what may follow in the same epoch, what in a higher one.
TRANSITIONS: Final[Mapping[State, tuple[frozenset[State], frozenset[State]]]] = {
    _U: (frozenset((_F, _P, _U)), frozenset((_U, _F))),
    _F: (frozenset((_P, _F)), frozenset((_U, _F))),
    _P: (frozenset((_U, _F)), frozenset((_C, _U, _F))),
    _C: (frozenset((_L, _P, _F)), frozenset((_U, _F))),
    _L: (frozenset((_R,)), frozenset((_U, _F))),
    _R: (frozenset(), frozenset((_U, _F))),
}


class IllegalTransition(Exception):
    """A step that Raft does not know; always a bug."""


def check_transition(before: State, epoch: int, after: State, new_epoch: int) -> None:
    if new_epoch < epoch:
        raise IllegalTransition(f"from epoch {epoch} back to {new_epoch}")
    same, higher = TRANSITIONS[before]
    if after not in (same if new_epoch == epoch else higher):
        raise IllegalTransition(
            f"from {before.value} in epoch {epoch} to {after.value} in epoch {new_epoch}"
        )
