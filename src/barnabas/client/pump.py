"""Several threads, one reactor, one lock: how the plain clients run the engine.

Whoever waits for something turns the reactor; all others who wait meanwhile sleep until a turn has
ended and look again. So a call runs in its caller's thread: it is interrupted by Ctrl-C, and bytes
are received where they are wanted, without a switch of threads.

A client that has work while nobody calls (a producer's batches, a member's heartbeats) has a
background thread. It turns the reactor from the time that `due` gives, and steps back as soon as a
caller comes.

Functions of the user that a call waits for (rebalance listeners, interceptors) are run by a thread
that waits, never by the background thread and never inside a turn, so they may call the client. One
that is called in a turn (a delivery's callback) may call it too: what it waits for is turned for in
that turn, by the same thread.

Invariants: engine state is touched with `lock` held; one thread turns at a time; the lock is given up
while a turn waits and while a function of the user runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from barnabas.client.errors import ClosedError
from barnabas.client.selecting import SelectReactor, Task

T = TypeVar("T")
NEVER = float("inf")
ALWAYS = 0.0
STEP_BACK_S = 0.002
_JOIN_S = 5.0


class Pump:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.reactor = SelectReactor(self.lock)
        self.closed = False
        self._changed = threading.Condition(self.lock)
        self._background_wakes = threading.Condition(self.lock)
        self._turning = False
        self._turner: int | None = None
        self._callers = 0
        self._sleepers = 0
        self._thread: threading.Thread | None = None
        self._due: Callable[[], float] = _never
        self._background_until = 0.0
        self._polled_at = float("-inf")
        self._forked = False
        self.on_fork: Callable[[], object] = _never

    # -- callers

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the engine to its end, in this thread."""
        with self.lock:
            if self.closed:
                coroutine.close()
                raise self._closed_error()
            task = Task(coroutine)
            task.step()
            if not task.done():
                try:
                    self._turn_until(task.done, NEVER)
                except BaseException:
                    task.cancel()
                    raise
                finally:
                    self._tell_background()
            if self.closed and not task.done():
                task.cancel()
                raise ClosedError("The client was closed during the call.")
            return task.result()

    def _closed_error(self) -> ClosedError:
        if self._forked:
            return ClosedError(
                "The client was made before this process was forked.",
                next_step="Make another one here.",
            )
        return ClosedError("The client is closed.")

    def wait(self, happened: Callable[[], bool], deadline: float = NEVER) -> bool:
        """Turn the reactor until `happened()` or the deadline; says whether it happened."""
        with self.lock:
            if not happened():
                try:
                    self._turn_until(happened, deadline)
                finally:
                    self._tell_background()
            if self.closed and not happened():
                raise self._closed_error()
            return happened()

    def poll(self) -> None:
        """With the lock held: do what can be done without waiting, but call no function of the
        user. For a caller who has something else to do and would like to find answers taken in."""
        if not self.closed:
            self.reactor.poll()
            self._polled_at = self.reactor.now()
            if self.reactor.has_outside:
                self._tell_background()

    def _turn_until(self, happened: Callable[[], bool], deadline: float) -> None:
        reactor = self.reactor
        self._callers += 1
        try:
            while not happened():
                if self.closed or (deadline < NEVER and reactor.now() >= deadline):
                    return
                if reactor.has_user_call:
                    reactor.run_user_call()
                elif self._turning and self._turner != threading.get_ident():
                    reactor.wake()
                    self._sleep(deadline)
                else:
                    self._turn(deadline)
        finally:
            self._callers -= 1

    def _turn(self, until: float) -> None:
        outer, self._turner = self._turner, threading.get_ident()
        self._turning = True
        try:
            self.reactor.turn(until)
        finally:
            self._turner = outer
            self._turning = outer is not None
            if self.closed and not self._turning:
                self.reactor.close()
            if self._sleepers:
                self._changed.notify_all()

    def _sleep(self, until: float) -> None:
        timeout_s = None if until == NEVER else max(until - self.reactor.now(), 0.0)
        self._sleepers += 1
        try:
            self._changed.wait(timeout_s)
        finally:
            self._sleepers -= 1

    def wake(self) -> None:
        """Let whoever waits look again. Safe without the lock."""
        self.reactor.wake()

    def nudge(self) -> None:
        """With the lock held: the background thread should ask again when it is due."""
        self._tell_background()

    # -- the background thread

    def start(self, name: str, due: Callable[[], float] = lambda: ALWAYS) -> None:
        """Have a daemon thread turn the reactor from `due()` on whenever no caller does."""
        self._due = due
        if self._thread is None:
            self._thread = threading.Thread(target=self._background, name=name, daemon=True)
            self._thread.start()

    def _background(self) -> None:
        with self.lock:
            while not self.closed:
                now = self.reactor.now()
                due = self._background_due()
                if not self._callers and not self._turning and due <= now:
                    self._turn(NEVER)
                    continue
                until = NEVER if self._callers or self._turning else due
                self._background_until = until
                self._background_wakes.wait(None if until == NEVER else until - now)
                self._background_until = 0.0

    def _tell_background(self) -> None:
        """What a caller did may have brought forward what the background thread waits for, and
        while callers turned the reactor it waited for them to go."""
        if self._thread is None or self._callers:
            return
        if self._background_due() < self._background_until:
            self._background_wakes.notify()

    def _background_due(self) -> float:
        """While a caller polls, the background thread leaves the reactor to it: two threads that take
        turns for every answer cost more than the answers do."""
        if self.reactor.has_outside:
            return ALWAYS
        return max(self._due(), self._polled_at + STEP_BACK_S)

    # -- the end

    def close(self) -> None:
        """No more turns. What the engine still holds must have been closed before."""
        with self.lock:
            if self.closed:
                return
            self.closed = True
            self.reactor.wake()
            self._changed.notify_all()
            self._background_wakes.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_S)
        with self.lock:
            if not self._turning:  # else whoever turns it closes it
                self.reactor.close()

    def forked(self) -> None:
        """In a process that was forked from the client's: whoever held the lock is not here."""
        self.lock._at_fork_reinit()  # type: ignore[attr-defined]
        self._thread = None
        self._forked = self.closed = True
        self.on_fork()
        self.reactor.close()


def _never() -> float:
    return NEVER
