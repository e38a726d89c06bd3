"""What clients were told, and the rules that no answer may break.

Every lane (one producer on one partition) writes the numbers 0, 1, 2, … in this order, each once. So
a partition's committed records must hold every lane's numbers in order, without gap and without
repetition, and whatever a broker acknowledged must be there at the offset it named. A record that
was once shown at an offset is shown there for ever. A gap is in order only where the producer itself
said that it gave up (`gave_up`), and that it may say later than a consumer sees the gap.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.sim.scheduler import Scheduler

Place = tuple[str, int]


class Violation(Exception):
    """A rule is broken. The text says which."""


class History:
    def __init__(
        self,
        scheduler: Scheduler,
        fail: Callable[[str], object],
        is_committed: Callable[[Place, int], bool] = lambda place, offset: True,
    ) -> None:
        """`is_committed(place, offset)` looks behind the scenes."""
        self._is_committed = is_committed
        self._scheduler = scheduler
        self._fail = fail
        self.records: dict[Place, dict[int, bytes]] = {}
        self.ends: dict[Place, int] = {}
        self.acknowledged: dict[Place, dict[int, bytes]] = {}
        self.topics: dict[str, bytes] = {}
        self.deleted: set[str] = set()
        self._last_acknowledged: dict[tuple[Place, str], int] = {}
        self._lanes: dict[tuple[Place, str], int] = {}
        self._missing: dict[tuple[Place, str], set[int]] = {}
        self._given_up: dict[tuple[Place, str], set[int]] = {}
        self._commits: dict[tuple[str, Place], tuple[int, int]] = {}
        self._owners: dict[tuple[str, int, Place], str] = {}
        self._producer_ids: set[tuple[int, int]] = set()
        self.acknowledged_count = 0
        self.committed_count = 0

    def violated(self, rule: str) -> None:
        self._fail(rule)
        raise Violation(rule)

    # ---- producers

    def producer_id(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) in self._producer_ids:
            self.violated(f"producer id {producer_id} was given out twice")
        self._producer_ids.add((producer_id, epoch))

    def acknowledge(self, place: Place, first_offset: int, values: list[bytes]) -> None:
        """`acks=all` said that these are safe. An offset of -1 was not told."""
        self.acknowledged_count += len(values)
        for value in values:
            lane, number = _lane(value)
            last = self._last_acknowledged.get((place, lane), -1)
            self._last_acknowledged[place, lane] = max(last, number)
        if first_offset < 0:
            return
        acknowledged = self.acknowledged.setdefault(place, {})
        for offset, value in enumerate(values, first_offset):
            other = acknowledged.setdefault(offset, value)
            if other != value:
                self.violated(f"{place} offset {offset}: acknowledged for {other!r} and {value!r}")
            if not self._is_committed(place, offset):
                self.violated(f"{place} offset {offset}: acknowledged, and nowhere committed")
            shown = self.records.get(place, {}).get(offset)
            if shown is not None and shown != value:
                self.violated(
                    f"{place} offset {offset}: {value!r} was acknowledged, {shown!r} was read"
                )

    def gave_up(self, place: Place, lane: str, number: int) -> None:
        """A producer told its user that it could not deliver a record."""
        self._given_up.setdefault((place, lane), set()).add(number)

    def check_gaps(self) -> None:
        """At the end: what is missing from a lane was given up."""
        for (place, lane), missing in self._missing.items():
            lost = missing - self._given_up.get((place, lane), set())
            if lost:
                self.violated(f"{place}: numbers {sorted(lost)} of lane {lane} are missing")

    @staticmethod
    def _may_give_up(lane: str) -> bool:
        """Lanes of Barnabas's own clients have the client's name alone."""
        return "." not in lane

    # ---- consumers

    def read(self, place: Place, offset: int, value: bytes) -> None:
        """A consumer was shown a record."""
        records = self.records.setdefault(place, {})
        known = records.get(offset)
        if known is not None:
            if known != value:
                self.violated(f"{place} offset {offset}: {known!r} became {value!r}")
            return
        if offset != self.ends.get(place, 0):
            self.violated(f"{place}: offset {offset} follows {self.ends.get(place, 0) - 1}")
        acknowledged = self.acknowledged.get(place, {}).get(offset)
        if acknowledged is not None and acknowledged != value:
            self.violated(
                f"{place} offset {offset}: {acknowledged!r} was acknowledged, {value!r} was read"
            )
        records[offset] = value
        self.ends[place] = offset + 1
        lane, number = _lane(value)
        expected = self._lanes.get((place, lane), 0)
        if number < expected or (number > expected and not self._may_give_up(lane)):
            self.violated(
                f"{place} offset {offset}: number {number} of lane {lane} where {expected} is due"
            )
        self._missing.setdefault((place, lane), set()).update(range(expected, number))
        self._lanes[place, lane] = number + 1

    def out_of_range(self, place: Place, offset: int, reader: str) -> None:
        self.violated(f"{place}: {reader} stands at offset {offset}, which is gone")

    def everything_was_read(self) -> bool:
        return all(
            self.ends.get(place, 0) > max(acknowledged, default=-1)
            for place, acknowledged in self.acknowledged.items()
        ) and all(self._lanes.get(lane, 0) > last for lane, last in self._last_acknowledged.items())

    # ---- groups

    def committed(self, group: str, place: Place) -> tuple[int, int]:
        """Offset and generation of the highest commit that was acknowledged."""
        return self._commits.get((group, place), (0, -1))

    def commit(
        self, group: str, generation: int, place: Place, offset: int, before: tuple[int, int]
    ) -> None:
        """A commit was accepted; `before` is what `committed` gave when it was sent."""
        self.committed_count += 1
        if generation < before[1]:
            self.violated(
                f"{group}: generation {generation} committed {place} after {before[1]} had"
            )
        if offset < before[0]:
            self.violated(f"{group}: {place} went from {before[0]} back to {offset}")
        known = self.committed(group, place)
        self._commits[group, place] = (max(known[0], offset), max(known[1], generation))

    def fetched(self, group: str, place: Place, offset: int, before: tuple[int, int]) -> None:
        if max(offset, 0) < before[0]:
            self.violated(f"{group}: {place} was committed at {before[0]} and is at {offset}")
        known = self.committed(group, place)
        self._commits[group, place] = (max(known[0], offset), known[1])

    def owns(self, group: str, generation: int, place: Place, member: str) -> None:
        owner = self._owners.setdefault((group, generation, place), member)
        if owner != member:
            self.violated(
                f"{group}: {place} belongs to {owner} and {member} in generation {generation}"
            )

    # ---- topics

    def topic_created(self, name: str, topic_id: bytes) -> None:
        known = self.topics.setdefault(name, topic_id)
        if known != topic_id:
            self.violated(f"topic {name} was made twice: {known.hex()} and {topic_id.hex()}")

    def topic_may_go(self, name: str) -> None:
        """It is asked for, so nobody promises any longer that the topic is there."""
        del self.topics[name]

    def topic_deleted(self, name: str) -> None:
        self.deleted.add(name)


def _lane(value: bytes) -> tuple[str, int]:
    lane, _, number = value.decode().partition("#")
    return lane, int(number)
