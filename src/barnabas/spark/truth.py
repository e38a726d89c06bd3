"""What the generator knows about its own traffic, for judging what the jobs found.

`Truth.observe` is called for every good event when its first copy is emitted, and keeps the answers
that the jobs must come to: balances with the rewards of tasks, regions as of the event's time, and
who cheats. It is plain Python over sets and sums and shares nothing with the jobs but the tables of
kinds and tasks, so that the two check each other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from barnabas.spark.phone_prefixes import MAX_PREFIX_DIGITS
from barnabas.spark.tasks import EVER, HOUR_OF_EVENT, TASKS

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@dataclass(slots=True)
class Truth:
    switching_devices: set[str] = field(default_factory=set)
    rings: list[list[str]] = field(default_factory=list)
    records: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    copies: int = 0
    malformed: int = 0
    late: int = 0
    balances: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _items: dict[tuple[str, str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    _versions: dict[str, list[tuple[int, str | None]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _phones: dict[str, tuple[int, str, str]] = field(default_factory=dict)

    def observe(self, kind: str, event: dict[str, Any], late: bool) -> None:
        self.events[kind] += 1
        self.late += late
        user, at_ms = event["user_id"], event["event_time_ms"]
        if kind == "credit":
            self.balances[user] += event["amount_cents"]
        if kind in ("signup", "verification"):
            newer = (at_ms, event["event_id"], event["phone"])
            self._phones[user] = max(self._phones.get(user, newer), newer)
        for task in TASKS:
            if task.kind != kind:
                continue
            item = event[task.item] if task.item != HOUR_OF_EVENT else str(at_ms // HOUR_MS)
            period = str(at_ms // DAY_MS) if task.daily else EVER
            items = self._items[user, task.name, period]
            if item not in items:
                items.add(item)
                if len(items) == task.target:
                    self.balances[user] += task.reward_cents

    def observe_reference(self, prefix: str, region: str | None, timestamp_ms: int) -> None:
        self._versions[prefix].append((timestamp_ms, region))

    def balance(self, user: str) -> int:
        return self.balances.get(user, 0)

    def completed_tasks(self) -> int:
        targets = {task.name: task.target for task in TASKS}
        return sum(len(items) >= targets[name] for (_, name, _), items in self._items.items())

    def regions(self) -> dict[str, str | None]:
        """The region of each user whose number is known, as of their latest event with a number."""
        return {
            user: self._region(phone, at_ms) for user, (at_ms, _, phone) in self._phones.items()
        }

    def _region(self, phone: str, at_ms: int) -> str | None:
        for length in range(MAX_PREFIX_DIGITS + 1, 1, -1):
            versions = self._versions.get(phone[:length], [])
            position = bisect_right(versions, at_ms, key=lambda version: version[0])
            if position and versions[position - 1][1] is not None:
                return versions[position - 1][1]
        return None

    def cheating_accounts(self) -> set[str]:
        return {member for ring in self.rings for member in ring}

    def as_json(self) -> dict[str, Any]:
        return {
            "records": dict(sorted(self.records.items())),
            "events": dict(sorted(self.events.items())),
            "copies": self.copies,
            "malformed": self.malformed,
            "late": self.late,
            "switching_devices": sorted(self.switching_devices),
            "rings": [sorted(ring) for ring in self.rings],
            "balances": {user: cents for user, cents in sorted(self.balances.items()) if cents},
            "completed_tasks": self.completed_tasks(),
            "regions": dict(sorted(self.regions().items())),
        }


@dataclass(frozen=True, slots=True)
class Score:
    """How well a detector found what is there."""

    found: int
    right: int
    there: int

    @classmethod
    def of(cls, found: Iterable[str], there: Iterable[str]) -> Score:
        found_set, there_set = set(found), set(there)
        return cls(len(found_set), len(found_set & there_set), len(there_set))

    @property
    def precision(self) -> float:
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.there if self.there else 1.0
