"""Long work in virtual time: it happens at once and whole, but later, and its end is told later still.

A process that dies in between has done the work and never learns it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from barnabas.sim.loop import VirtualLoop

Result = TypeVar("Result")

_USUAL_NS = 2_000_000


class VirtualBackground:
    def __init__(self, loop: VirtualLoop, rng: random.Random) -> None:
        self._loop = loop
        self._rng = rng
        self.slowness = 1

    def _delay_ns(self) -> int:
        return self._rng.randrange(_USUAL_NS * self.slowness)

    def submit(
        self,
        work: Callable[[], Result],
        done: Callable[[Result | None, Exception | None], None],
    ) -> None:
        def run() -> None:
            result: Result | None = None
            failure: Exception | None = None
            try:
                result = work()
            except Exception as error:
                failure = error
            self._loop.after_ns(self._delay_ns(), done, result, failure)

        self._loop.after_ns(self._delay_ns(), run)

    def run_all(self, works: Sequence[Callable[[], None]]) -> None:
        for work in works:
            work()
