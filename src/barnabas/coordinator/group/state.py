"""The states of a classic group, and every transition that is legal.

An empty group has no members but may have offsets, or members that were given an id and have not
come back with it. The first member that joins starts a rebalance; while it is prepared, the
coordinator collects JoinGroup requests without answering them. Then all are answered with the new
generation, and the group is completing until its leader has sent everyone's assignment with
SyncGroup. A dead group is no longer in the shard: it was deleted, or the shard moved away while
somebody still held the object.
"""

from __future__ import annotations

from enum import Enum


class GroupState(Enum):
    """The value is the name that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY = GroupState.EMPTY
PREPARING_REBALANCE = GroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE = GroupState.COMPLETING_REBALANCE
STABLE = GroupState.STABLE
DEAD = GroupState.DEAD

# state -> the states that may come next
TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    EMPTY: frozenset({PREPARING_REBALANCE, DEAD}),
    PREPARING_REBALANCE: frozenset({COMPLETING_REBALANCE, EMPTY, DEAD}),
    COMPLETING_REBALANCE: frozenset({STABLE, PREPARING_REBALANCE, DEAD}),
    STABLE: frozenset({PREPARING_REBALANCE, DEAD}),
    DEAD: frozenset({DEAD}),
}

# States from which a rebalance can be started.
CAN_REBALANCE = frozenset(
    state for state, following in TRANSITIONS.items() if PREPARING_REBALANCE in following
)
