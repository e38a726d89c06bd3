"""How fast the cleaner may read and write: `log.cleaner.io.max.bytes.per.second`.

Every byte moved pushes the moment at which the cleaner may go on further into the future. It need
not stop for every few bytes: only when it is ahead of its rate by a noticeable time. A moment in
which nothing is moved earns nothing, so there are no bursts after a rest.

The throttle only says how long to pause; whoever drives the work waits, on a timer and not in a
thread. A changed rate holds from then on and forgives what was owed at the old one.
"""

from __future__ import annotations

WORTH_A_PAUSE_MS = 50
LONGEST_PAUSE_MS = 1_000
"""A longer one is taken in parts, so that a new rate is noticed soon."""


class IoThrottle:
    __slots__ = ("_bytes_per_second", "_due_ms")

    def __init__(self, bytes_per_second: float) -> None:
        self._bytes_per_second = bytes_per_second
        self._due_ms = 0.0

    @property
    def bytes_per_second(self) -> float:
        return self._bytes_per_second

    @bytes_per_second.setter
    def bytes_per_second(self, rate: float) -> None:
        if rate != self._bytes_per_second:
            self._bytes_per_second = rate
            self._due_ms = 0.0

    def moved(self, byte_count: int, now_ms: int) -> None:
        owed_ms = byte_count * 1000 / max(self._bytes_per_second, 1.0)
        self._due_ms = max(self._due_ms, now_ms) + owed_ms

    def must_pause(self, now_ms: int) -> bool:
        return self._due_ms - now_ms >= WORTH_A_PAUSE_MS

    def pause_ms(self, now_ms: int) -> int:
        """How long to wait before asking again; 0 if the work may go on."""
        ahead_ms = self._due_ms - now_ms
        return min(int(ahead_ms) + 1, LONGEST_PAUSE_MS) if ahead_ms > 0 else 0
