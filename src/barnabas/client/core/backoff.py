"""How long to wait before the next attempt: doubling, bounded, with a spread of a fifth.

The spread keeps many clients that lost the same broker from returning in step. The random number is
handed in, so a run can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable


class Backoff:
    __slots__ = ("_attempts", "_first_ms", "_most_ms", "_random")

    def __init__(
        self, first_ms: int, most_ms: int, random: Callable[[], float], *, attempts: int = 0
    ) -> None:
        self._first_ms = first_ms
        self._most_ms = max(most_ms, first_ms)
        self._random = random
        self._attempts = attempts

    @property
    def attempts(self) -> int:
        return self._attempts

    def next_ms(self) -> float:
        """The pause before the next attempt; each call counts as one failed attempt."""
        pause = min(self._first_ms * 2.0 ** min(self._attempts, 20), self._most_ms)
        self._attempts += 1
        return pause * (0.8 + 0.4 * self._random())

    def reset(self) -> None:
        self._attempts = 0
