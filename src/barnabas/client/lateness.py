"""Notices that a poll loop is late, and says what it is doing.

A member that does not call poll for max.poll.interval.ms is put out of its group, and what its handler
did since may be done again by another. Before that, at `WARN_AT` of the interval, the log says where
the handler is at that moment: file, line and function of the thread (or the task) that polled, the
innermost that is not part of this package. A loop that was merely late says so at its next poll.

One timer serves all polls: when it fires too early, because a poll came meanwhile, it is set again.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any, Final

from barnabas.client.reactor import Reactor, Timer

logger = logging.getLogger(__name__)

WARN_AT: Final = 0.8
_PACKAGE = str(Path(__file__).parent)
_LIBRARY = str(Path(asyncio.__file__).parent)


class PollWatch:
    """`name` is for the log. Off until `start`, and while `begin` was called and not `end`."""

    def __init__(self, reactor: Reactor, interval_s: float, name: str) -> None:
        self._reactor = reactor
        self._interval_s = interval_s
        self._name = name
        self._watching = False
        self._timer: Timer | None = None
        self._ended_at: float | None = None
        self._warned = False
        self._thread_id = 0
        self._task: asyncio.Task[Any] | None = None

    def start(self) -> None:
        self._watching = True

    def stop(self) -> None:
        self._watching = False
        self._ended_at = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def due(self) -> float:
        """When this has something to say, if no poll comes before."""
        if not self._watching or self._ended_at is None or self._warned:
            return float("inf")
        return self._ended_at + WARN_AT * self._interval_s

    def begin(self, now: float) -> None:
        """A poll begins."""
        ended_at, self._ended_at = self._ended_at, None
        if ended_at is not None and self._watching and not self._warned:
            late_s = now - ended_at
            if late_s >= WARN_AT * self._interval_s:
                logger.warning("%s: poll() was called %.1f s after %s", *self._told(late_s))
        self._warned = False

    def end(self, now: float) -> None:
        """A poll ends: from now on the caller handles what it got."""
        if not self._watching:
            return
        self._ended_at = now
        self._thread_id = threading.get_ident()
        try:
            self._task = asyncio.current_task()
        except RuntimeError:
            self._task = None
        if self._timer is None:
            self._timer = self._reactor.call_at(self.due, self._look)

    def _told(self, late_s: float) -> tuple[str, float, str]:
        return (
            self._name,
            late_s,
            f"the one before ended; max.poll.interval.ms allows {self._interval_s:g} s",
        )

    def _look(self) -> None:
        self._timer = None
        ended_at = self._ended_at
        if ended_at is None or not self._watching:
            return  # in a poll; its end sets the timer
        now = self._reactor.now()
        if now < self.due:
            if not self._warned:
                self._timer = self._reactor.call_at(self.due, self._look)
            return
        self._warned = True
        logger.warning(
            "%s: no poll() for %.1f s, and max.poll.interval.ms allows %g s; the handler is at %s",
            self._name,
            now - ended_at,
            self._interval_s,
            self._place() or "a place that cannot be seen",
        )

    def _place(self) -> str | None:
        task = self._task
        if task is not None:
            stack = task.get_stack()
            return place_of(stack[-1]) if stack else None
        frame = sys._current_frames().get(self._thread_id)
        return None if frame is None else place_of(frame)


def place_of(frame: FrameType | None) -> str | None:
    """The innermost place that is neither in this package nor in asyncio."""
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith((_PACKAGE, _LIBRARY)):
            return f"{code.co_filename}:{frame.f_lineno} in {code.co_qualname}"
        frame = frame.f_back
    return None
