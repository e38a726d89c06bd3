"""The groups of one shard, by id: a dictionary with a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.coordinator.group.classic_group import ClassicGroup
from barnabas.coordinator.group.state import EMPTY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.seams import Clock


class GroupMap:
    __slots__ = ("_by_id", "_clock", "_limit", "get")

    def __init__(self, clock: Clock, limit: int) -> None:
        self._by_id: dict[str, ClassicGroup] = {}
        self._clock = clock
        self._limit = limit
        self.get = self._by_id.get

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[ClassicGroup]:
        return iter(list(self._by_id.values()))

    @property
    def is_full(self) -> bool:
        """Requests of clients must not add groups; a log that is loaded may."""
        return len(self._by_id) >= self._limit

    def create(self, group_id: str) -> ClassicGroup:
        """An empty group of no type yet: what a simple consumer's commit or a first join makes."""
        assert group_id not in self._by_id
        group = self._by_id[group_id] = ClassicGroup(group_id, EMPTY, self._clock.now_ms())
        return group

    def put(self, group: ClassicGroup) -> None:
        self._by_id[group.group_id] = group

    def remove(self, group_id: str) -> ClassicGroup | None:
        return self._by_id.pop(group_id, None)
