"""New partitions get their logs a few at a time.

A log begins with directories and files that are made and synced, a few milliseconds on a slow disk.
One request may create ten thousand of them, and everybody else's requests must not wait for that. So
the first `LOGS_AT_ONCE` are made where they are asked for, as most topics are small, and the others
in later turns of the event loop. Until then this broker answers for such a partition as it does while
it has not heard that it leads: NOT_LEADER_OR_FOLLOWER, and clients ask again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

LOGS_AT_ONCE: Final = 128
LOGS_PER_TURN: Final = 16

PartitionKey = tuple[str, int]


class LateCreation:
    """`create` makes one that had to wait, if it is still wanted."""

    def __init__(
        self,
        create: Callable[[PartitionKey, bool], None],
        defer: Callable[[Callable[[], None]], object],
    ) -> None:
        self._create = create
        self._defer = defer
        self._left = LOGS_AT_ONCE
        self._waiting: deque[tuple[PartitionKey, bool]] = deque()
        self._turn_is_due = False
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def now(self, key: PartitionKey, *, is_new: bool) -> bool:
        """Whether the log may be made now; otherwise it is made later."""
        if not self._turn_is_due:
            self._turn_is_due = True
            self._defer(self._turn)
        if self._left and not self._waiting:
            self._left -= 1
            return True
        self._waiting.append((key, is_new))
        return False

    def close(self) -> None:
        self._closed = True
        self._waiting.clear()

    def _turn(self) -> None:
        self._turn_is_due = False
        if self._closed:
            return
        for _ in range(min(LOGS_PER_TURN, len(self._waiting))):
            self._create(*self._waiting.popleft())
        if self._waiting:
            self._turn_is_due = True
            self._defer(self._turn)
        else:
            self._left = LOGS_AT_ONCE
