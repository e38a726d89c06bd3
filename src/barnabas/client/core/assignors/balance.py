"""The most even distribution of partitions over members that moves as little as possible.

Members subscribe to different topics, so "even" cannot always mean "equal": what is wanted is that no
member could be relieved by passing a partition on, directly or through others, to one that has at
least two fewer. That is the best there is: among all distributions it has the smallest maximum, then
the smallest second-largest, and so on (for a separable convex cost on a bipartite graph, no improving
path means optimal).

The work goes in steps from what is owned already:

1. Partitions that nobody owns go to the subscriber with the fewest, hardest to place first.
2. As long as there is a path from a busy member to one with two fewer, one partition moves along
   every edge of the shortest such path. Members from which no such path leads are closed: no path
   out of them can ever help, so each is searched once. This is done twice: first only partitions
   that came by step 1 may move, then all. So what is owned only moves if the rest cannot be placed
   well around it; in particular nothing owned moves if some best distribution leaves it, which is
   why a cooperative group is at rest after the second rebalance.
3. A partition that lost its owner goes back if the owner holds another one that it can give for it.

Topics with the same subscribers are one class, since their partitions are interchangeable for steps
1 and 2. Sets of members are bits of an integer, so a search of the graph costs a few operations for
each class and member.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence

from barnabas.client.core.metadata import TopicPartition


def balance(
    counts: Mapping[str, int],
    subscriptions: Sequence[frozenset[str]],
    owners: Mapping[TopicPartition, int],
) -> list[list[TopicPartition]]:
    """The partitions of each member. Members are numbers: positions in `subscriptions`.

    `owners` names the present owner of a partition; the topic exists, has that partition, and the
    owner subscribes to it.
    """
    table = _Table(counts, subscriptions, owners)
    table.place_free()
    table.even_out(owned_too=False)
    table.even_out(owned_too=True)
    table.give_back()
    return [sorted(table.held_by(member)) for member in range(len(subscriptions))]


class _Pile:
    """The partitions of one class that a member holds: those it owned before, and new ones."""

    __slots__ = ("kept", "new")

    def __init__(self) -> None:
        self.kept: list[TopicPartition] = []
        self.new: list[TopicPartition] = []

    def give(self) -> TopicPartition:
        return self.new.pop() if self.new else self.kept.pop()


class _Table:
    def __init__(
        self,
        counts: Mapping[str, int],
        subscriptions: Sequence[frozenset[str]],
        owners: Mapping[TopicPartition, int],
    ) -> None:
        self.owners = owners
        self.load = [0] * len(subscriptions)
        self.piles: list[dict[int, _Pile]] = [{} for _ in subscriptions]
        self.masks: list[int] = []
        self.class_of: dict[str, int] = {}
        self.free: list[list[TopicPartition]] = []
        by_mask: dict[int, int] = {}
        for topic in sorted(counts):
            mask = 0
            for member, topics in enumerate(subscriptions):
                if topic in topics:
                    mask |= 1 << member
            if not mask:
                continue
            if mask not in by_mask:
                by_mask[mask] = len(self.masks)
                self.masks.append(mask)
                self.free.append([])
            self.class_of[topic] = by_mask[mask]
            for index in range(counts[topic]):
                self._seat((topic, index))

    def _seat(self, partition: TopicPartition) -> None:
        kind = self.class_of[partition[0]]
        owner = self.owners.get(partition)
        if owner is None:
            self.free[kind].append(partition)
            return
        assert self.masks[kind] >> owner & 1, "an owner subscribes to what it owns"
        self._pile(owner, kind).kept.append(partition)
        self.load[owner] += 1

    def _pile(self, member: int, kind: int) -> _Pile:
        found = self.piles[member].get(kind)
        if found is None:
            found = self.piles[member][kind] = _Pile()
        return found

    def held_by(self, member: int) -> Iterator[TopicPartition]:
        for pile in self.piles[member].values():
            yield from pile.kept
            yield from pile.new

    # -- the three steps

    def place_free(self) -> None:
        load = self.load
        for kind in sorted(range(len(self.masks)), key=lambda k: self.masks[k].bit_count()):
            if not self.free[kind]:
                continue
            queue = [(load[member], member) for member in _members(self.masks[kind])]
            heapq.heapify(queue)
            for partition in self.free[kind]:
                fewest, member = queue[0]
                self._pile(member, kind).new.append(partition)
                load[member] = fewest + 1
                heapq.heapreplace(queue, (fewest + 1, member))

    def even_out(self, *, owned_too: bool) -> None:
        load = self.load
        at_load: dict[int, int] = {}
        for member, count in enumerate(load):
            at_load[count] = at_load.get(count, 0) | 1 << member
        open_mask = (1 << len(load)) - 1
        busiest = max(load, default=0)
        while open_mask:
            while not at_load.get(busiest, 0) & open_mask:
                busiest -= 1
            source = _lowest(at_load[busiest] & open_mask)
            path, reached = self._path(source, open_mask, at_load, owned_too)
            if path is None:
                open_mask &= ~reached
                continue
            for giver, kind, taker in path:
                self._move(giver, kind, taker)
            for member, change in ((source, -1), (path[-1][2], 1)):
                at_load[load[member]] &= ~(1 << member)
                load[member] += change
                at_load[load[member]] = at_load.get(load[member], 0) | 1 << member

    def _path(
        self, source: int, open_mask: int, at_load: Mapping[int, int], owned_too: bool
    ) -> tuple[list[tuple[int, int, int]] | None, int]:
        """The shortest way to a member with two fewer, the lightest of the nearest ones."""
        light = [n for n in sorted(at_load) if n <= self.load[source] - 2]
        reached = frontier = 1 << source
        found: list[tuple[int, int, int]] = []
        seen: set[int] = set()
        while frontier:
            layer = 0
            for giver in _members(frontier):
                for kind, pile in self.piles[giver].items():
                    if kind in seen or not (pile.new or (owned_too and pile.kept)):
                        continue
                    seen.add(kind)
                    fresh = self.masks[kind] & open_mask & ~reached & ~layer
                    if fresh:
                        layer |= fresh
                        found.append((giver, kind, fresh))
            for count in light:
                hit = at_load[count] & layer
                if hit:
                    return _trace(found, _lowest(hit), source), reached
            reached |= layer
            frontier = layer
        return None, reached

    def _move(self, giver: int, kind: int, taker: int) -> None:
        partition = self.piles[giver][kind].give()
        pile = self._pile(taker, kind)
        (pile.kept if self.owners.get(partition) == taker else pile.new).append(partition)

    def give_back(self) -> None:
        """Exchange new partitions between two members where an owner gets its own again."""
        for taker in range(len(self.load)):
            for kind, pile in list(self.piles[taker].items()):
                for partition in list(pile.new):
                    owner = self.owners.get(partition)
                    if owner is not None and owner != taker:
                        self._exchange(partition, kind, owner, taker)

    def _exchange(self, partition: TopicPartition, kind: int, owner: int, taker: int) -> None:
        if self.load[owner] < self.load[taker]:
            self.load[owner] += 1
            self.load[taker] -= 1
        else:
            for other, pile in self.piles[owner].items():
                if pile.new and self.masks[other] >> taker & 1:
                    self._move(owner, other, taker)
                    break
            else:
                return
        self.piles[taker][kind].new.remove(partition)
        self._pile(owner, kind).kept.append(partition)


def _trace(
    found: Sequence[tuple[int, int, int]], target: int, source: int
) -> list[tuple[int, int, int]]:
    path: list[tuple[int, int, int]] = []
    taker = target
    for giver, kind, members in reversed(found):
        if members >> taker & 1:
            path.append((giver, kind, taker))
            taker = giver
            if giver == source:
                break
    path.reverse()
    return path


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _members(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
