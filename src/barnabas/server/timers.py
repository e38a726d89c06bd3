"""Drives the timing wheel from the event loop with exactly one loop timer.

The loop timer stands at the wheel's next deadline. Timers that are cancelled do not move it: it
fires once for nothing and is set anew, which is cheaper than following every cancellation.
"""

import asyncio
import logging

from barnabas.delayed.timer import TimingWheel
from barnabas.seams import Clock
from barnabas.server.turn import Turn

logger = logging.getLogger(__name__)


class TimerDriver:
    """`loop.time()` and `clock.monotonic_ms()` must be the same clock."""

    def __init__(
        self, wheel: TimingWheel, loop: asyncio.AbstractEventLoop, clock: Clock, turn: Turn
    ) -> None:
        self._wheel = wheel
        self._loop = loop
        self._clock = clock
        self._turn = turn
        self._handle: asyncio.TimerHandle | None = None
        self._armed_ms = 0
        self._advancing = False
        wheel.on_earlier = self._on_earlier
        self._arm()

    def close(self) -> None:
        """Stop; timers that wait will never fire."""
        self._wheel.on_earlier = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _on_earlier(self, deadline_ms: int) -> None:
        if self._advancing or (self._handle is not None and self._armed_ms <= deadline_ms):
            return
        self._set(deadline_ms)

    def _fire(self) -> None:
        self._handle = None
        self._advancing = True
        try:
            self._turn.run(self._advance)
        finally:
            self._advancing = False
            if self._wheel.on_earlier is not None:
                self._arm()

    def _advance(self) -> None:
        try:
            self._wheel.advance(self._clock.monotonic_ms())
        except Exception:
            logger.exception("A timer failed")

    def _arm(self) -> None:
        deadline_ms = self._wheel.next_deadline_ms
        if deadline_ms is not None:
            self._set(deadline_ms)

    def _set(self, deadline_ms: int) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._armed_ms = deadline_ms
        self._handle = self._loop.call_at(deadline_ms / 1000, self._fire)
