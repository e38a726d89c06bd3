"""The reactor of the plain clients: selectors, timers, and coroutines that it runs by itself.

It has no thread. Whoever calls `turn` waits for sockets and timers and runs what they call back, so a
consumer's bytes are received in the thread that polls. It also needs no asyncio, which keeps the
commands quick to start and lets a plain client be used where an asyncio loop runs, as in a notebook.

One thread turns at a time, under the lock that `turn` is given and gives up while it waits (`pump.py`
arranges that). A turn handles sockets before timers: a caller who was away for a while finds the
answers that came meanwhile, not their time limits.
"""

from __future__ import annotations

import heapq
import logging
import random
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from barnabas.client.connecting import Connecting, Resolved, resolve_now
from barnabas.client.reactor import Connected, Timer

T = TypeVar("T")

logger = logging.getLogger(__name__)

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_LONGEST_WAIT_S = 3600.0


class Lock(Protocol):
    def acquire(self) -> object: ...

    def release(self) -> object: ...


class Cancelled(BaseException):
    """Raised inside a coroutine whose future was cancelled."""


class Promise(Generic[T]):
    """A result that comes later, for coroutines that this reactor runs."""

    __slots__ = ("_callbacks", "_error", "_finished", "_result")

    def __init__(self) -> None:
        self._finished = False
        self._result: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Any], object]] = []

    def __await__(self) -> Generator[Any, None, T]:
        if not self._finished:
            yield self
        return self.result()

    def done(self) -> bool:
        return self._finished

    def result(self) -> T:
        assert self._finished
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]

    def set_result(self, result: T, /) -> None:
        self._finish(result, None)

    def set_exception(self, error: BaseException, /) -> None:
        self._finish(None, error)

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        if self._finished:
            callback(self)
        else:
            self._callbacks.append(callback)

    def cancel(self) -> None:
        if not self._finished:
            self._finish(None, Cancelled())

    def _finish(self, result: T | None, error: BaseException | None) -> None:
        if self._finished:
            return
        self._finished = True
        self._result, self._error = result, error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


class Task(Promise[T]):
    """A coroutine on its way. `step` runs it to its next wait."""

    __slots__ = ("_coroutine", "_waits_for")

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        super().__init__()
        self._coroutine = coroutine
        self._waits_for: Promise[Any] | None = None

    def step(self, awaited: Promise[Any] | None = None) -> None:
        if self._finished or awaited is not self._waits_for:
            return
        try:
            waits_for: Promise[Any] = self._coroutine.send(None)
        except StopIteration as end:
            self._finish(end.value, None)
        except (Exception, Cancelled) as error:
            self._finish(None, error)
        except BaseException as error:
            self._finish(None, error)
            raise
        else:
            self._waits_for = waits_for
            waits_for.add_done_callback(self.step)

    def cancel(self) -> None:
        """End the coroutine now: `Cancelled` is raised where it waits."""
        if self._finished:
            return
        self._waits_for = Promise()  # what it waited for no longer steps it
        try:
            self._coroutine.throw(Cancelled())
        except StopIteration as end:
            self._finish(end.value, None)
        except (Exception, Cancelled) as error:
            self._finish(None, error)
        else:
            self._coroutine.close()
            self._finish(None, Cancelled())


class _Timer:
    __slots__ = ("callback", "when")

    def __init__(self, when: float, callback: Callable[[], object] | None) -> None:
        self.when = when
        self.callback = callback

    def cancel(self) -> None:
        self.callback = None


class SelectReactor:
    """`lock` is the one that guards the client; it is held whenever something here is called."""

    def __init__(self, lock: Lock) -> None:
        self.lock = lock
        self.now = time.monotonic
        self.random = random.random
        self._selector = selectors.DefaultSelector()
        self._ready: deque[Callable[[], object]] = deque()
        self._user_calls: deque[tuple[Callable[..., Any], tuple[Any, ...], Promise[Any]]] = deque()
        self._outside: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._timers: list[tuple[float, int, _Timer]] = []
        self._timer_count = 0
        self._waits_until = 0.0
        self._waiting = False
        self._wakes_in, self._wakes_out = socket.socketpair()
        self._wakes_in.setblocking(False)
        self._wakes_out.setblocking(False)
        self._selector.register(self._wakes_in, _READ, [self._woken, None])
        self._closed = False

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    @property
    def has_outside(self) -> bool:
        """Whether functions of the user wait to be called by a turn."""
        return bool(self._outside)

    # -- the turn

    def turn(self, until: float) -> None:
        """Wait until something happens, at most until `until`; run everything that is due then."""
        if self._ready or self._outside:
            self._run_ready()
            until = 0.0
        timers = self._timers
        while timers and timers[0][2].callback is None:
            heapq.heappop(timers)
        if timers and timers[0][0] < until:
            until = timers[0][0]
        wait_s = min(until - self.now(), _LONGEST_WAIT_S)
        if wait_s > 0:
            self._waits_until = until
            self._waiting = True
            self.lock.release()
            try:
                events = self._selector.select(wait_s)
            finally:
                self.lock.acquire()
                self._waiting = False
        else:
            events = self._selector.select(0)
        self._run_events(events)
        self._run_timers()
        self._run_ready()
        if self._outside:
            self.run_outside()

    def poll(self) -> None:
        """Run what is due without waiting, also while another thread waits in `turn`. What was given
        to `call_outside` is left to a turn."""
        self._run_events(self._selector.select(0))
        self._run_timers()
        self._run_ready()

    def _run_events(self, events: list[tuple[selectors.SelectorKey, int]]) -> None:
        interrupted: BaseException | None = None
        for key, mask in events:
            reader, writer = key.data
            try:
                if mask & _READ and reader is not None:
                    reader()
                if mask & _WRITE and writer is not None and key.data[1] is writer:
                    writer()
            except Exception:
                logger.exception("A callback of the client failed")
            except BaseException as error:
                interrupted = error
        if interrupted is not None:
            raise interrupted

    def _run_timers(self) -> None:
        timers = self._timers
        if not timers:
            return
        now = self.now()
        while timers and timers[0][0] <= now:
            timer = heapq.heappop(timers)[2]
            callback, timer.callback = timer.callback, None
            if callback is not None:
                self._call(callback)

    def _run_ready(self) -> None:
        for _ in range(len(self._ready)):
            if not self._ready:  # a turn inside a callback was faster
                return
            self._call(self._ready.popleft())

    def _call(self, callback: Callable[[], object]) -> None:
        try:
            callback()
        except Exception:
            logger.exception("A callback of the client failed")

    def run_outside(self) -> None:
        """Call what `call_outside` was given, without the lock."""
        while self._outside:
            function, args = self._outside.popleft()
            self.lock.release()
            try:
                function(*args)
            except Exception:
                logger.exception("A callback of the client's user failed")
            finally:
                self.lock.acquire()

    def wake(self) -> None:
        """End a wait that another thread is in. Safe without the lock."""
        if self._waiting and not self._closed:
            with suppress(BlockingIOError, OSError):
                self._wakes_out.send(b"\0")

    def _woken(self) -> None:
        with suppress(BlockingIOError):
            self._wakes_in.recv(4096)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._selector.close()
        self._wakes_in.close()
        self._wakes_out.close()

    # -- time

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        timer = _Timer(when, callback)
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, timer))
        if self._waiting and when < self._waits_until:
            self.wake()
        return timer

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._ready.append(callback)
        if self._waiting:
            self.wake()

    async def sleep(self, seconds: float) -> None:
        promise: Promise[None] = Promise()
        timer = self.call_at(self.now() + seconds, lambda: promise.set_result(None))
        try:
            await promise
        finally:
            timer.cancel()

    # -- coroutines

    def future(self) -> Promise[Any]:
        return Promise()

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> Task[T]:
        task = Task(coroutine)
        self.call_soon(task.step)
        return task

    async def call_user(self, function: Callable[..., Any], *args: Any) -> Any:
        """Not here: a coroutine may be stepped in the middle of a turn, in whichever thread turns.
        A thread that waits for something runs it, between two turns (`run_user_call`)."""
        promise: Promise[Any] = Promise()
        self._user_calls.append((function, args, promise))
        return await promise

    @property
    def has_user_call(self) -> bool:
        return bool(self._user_calls)

    def run_user_call(self) -> None:
        """Call a function of the user without the lock; it may use the client as it likes."""
        function, args, promise = self._user_calls.popleft()
        result: Any = None
        failure: BaseException | None = None
        self.lock.release()
        try:
            result = function(*args)
        except BaseException as error:
            failure = error
        finally:
            self.lock.acquire()
        if failure is None:
            promise.set_result(result)
        else:
            promise.set_exception(failure)

    def call_outside(self, function: Callable[..., object], *args: Any) -> None:
        self._outside.append((function, args))
        if self._waiting:
            self.wake()

    # -- sockets

    def add_reader(self, fd: Any, callback: Callable[[], object]) -> None:
        self._watch(fd, _READ, callback)

    def remove_reader(self, fd: Any) -> None:
        self._watch(fd, _READ, None)

    def add_writer(self, fd: Any, callback: Callable[[], object]) -> None:
        self._watch(fd, _WRITE, callback)

    def remove_writer(self, fd: Any) -> None:
        self._watch(fd, _WRITE, None)

    def _watch(self, fd: Any, event: int, callback: Callable[[], object] | None) -> None:
        if self._closed:
            return
        key = self._selector.get_map().get(fd)
        if key is None:
            if callback is not None:
                pair = [callback, None] if event == _READ else [None, callback]
                self._selector.register(fd, event, pair)
            return
        pair = key.data
        pair[0 if event == _READ else 1] = callback
        events = (_READ if pair[0] is not None else 0) | (_WRITE if pair[1] is not None else 0)
        if not events:
            self._selector.unregister(fd)
        elif events != key.events:
            self._selector.modify(fd, events, pair)

    def resolve(self, host: str, port: int, done: Resolved) -> None:
        known = resolve_now(host, port)
        if known is not None:
            self.call_soon(lambda: done(known, None))
            return

        def look_up() -> None:
            found: list[Any] | None = None
            failure: OSError | None = None
            try:
                found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except OSError as error:
                failure = error
            with self.lock:  # type: ignore[attr-defined]
                if not self._closed:
                    self.call_soon(lambda: done(found, failure))

        threading.Thread(target=look_up, name="barnabas-resolve", daemon=True).start()

    def connect(self, host: str, port: int, timeout_s: float, done: Connected) -> Timer:
        return Connecting(self, host, port, timeout_s, done)
