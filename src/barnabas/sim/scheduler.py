"""The one queue of everything that will happen in a simulation, and its clock.

Time is an integer of nanoseconds and stands still while a callback runs. What is due at the same
instant runs in the order in which it was asked for, so a run depends on nothing but its inputs.
Callbacks belong to a process; those of a process that is dead are dropped without a trace.
"""

from __future__ import annotations

import asyncio
from asyncio.events import _set_running_loop
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.sim.loop import VirtualLoop

EVENTS_PER_INSTANT = 200_000


class NoProgress(Exception):
    """Callbacks call one another without end and time stands still."""


class Scheduler:
    def __init__(self) -> None:
        self.now_ns = 0
        self.events = 0
        self.running: VirtualLoop | None = None
        self._stopped = False
        self._sequence = 0
        self._ready: deque[tuple[VirtualLoop, asyncio.Handle]] = deque()
        self._later: list[tuple[int, int, VirtualLoop, asyncio.Handle]] = []

    def soon(self, loop: VirtualLoop, handle: asyncio.Handle) -> None:
        self._ready.append((loop, handle))

    def at(self, when_ns: int, loop: VirtualLoop, handle: asyncio.Handle) -> None:
        self._sequence += 1
        heappush(self._later, (max(when_ns, self.now_ns), self._sequence, loop, handle))

    def run(self, until_ns: int, after_each: Callable[[VirtualLoop], object] | None = None) -> None:
        """Run everything that is due up to `until_ns`, then stand there. `after_each` is told whose
        callback ran."""
        ready, later = self._ready, self._later
        this_instant = 0
        while not self._stopped:
            if ready:
                loop, handle = ready.popleft()
            elif later and later[0][0] <= until_ns:
                when_ns, _, loop, handle = heappop(later)
                if when_ns > self.now_ns:
                    self.now_ns = when_ns
                    this_instant = 0
            else:
                break
            this_instant += 1
            if this_instant > EVENTS_PER_INSTANT:
                raise NoProgress(f"{loop.name}: {handle!r}")
            if not loop.alive or handle.cancelled():
                continue
            self.events += 1
            self.running = loop
            _set_running_loop(loop)
            try:
                handle._run()
            finally:
                _set_running_loop(None)
                self.running = None
            if after_each is not None:
                after_each(loop)
        if not self._stopped:
            self.now_ns = max(self.now_ns, until_ns)

    def stop(self) -> None:
        """Nothing runs any more."""
        self._stopped = True
