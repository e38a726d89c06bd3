"""A reactor in virtual time, and streams whose other end is the test."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from barnabas.client.selecting import Promise, Task


class _Timer:
    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualStream:
    """What is sent is in `sent`; `receive` is what the other end says, in pieces if one likes.
    `room` is how many bytes the other end still takes."""

    def __init__(self, reactor: VirtualReactor) -> None:
        self.local_address = ("here", 1)
        self.peer_address = ("there", 2)
        self.sent = bytearray()
        self.room: int | None = None
        self.closed = False
        self._reactor = reactor
        self._received = bytearray()
        self._ended = False
        self._reader: Callable[[], object] | None = None
        self._writer: Callable[[], object] | None = None

    def receive(self, data: bytes) -> None:
        self._received += data
        self._tell()

    def end(self) -> None:
        self._ended = True
        self._tell()

    def give_room(self, size: int) -> None:
        self.room = (self.room or 0) + size
        if self._writer is not None:
            self._writer()

    def _tell(self) -> None:
        while self._reader is not None and (self._received or self._ended) and not self.closed:
            self._reader()

    def recv_into(self, buffer: memoryview, /) -> int:
        if self._received:
            count = min(len(buffer), len(self._received))
            buffer[:count] = self._received[:count]
            del self._received[:count]
            return count
        if self._ended:
            return 0
        raise BlockingIOError

    def send(self, data: Any, /) -> int:
        data = bytes(data)
        if self.room is not None:
            if self.room == 0:
                raise BlockingIOError
            data = data[: self.room]
            self.room -= len(data)
        self.sent += data
        return len(data)

    def sendmsg(self, buffers: Sequence[Any], more: bool, /) -> int:
        return self.send(b"".join(buffers))

    def sendfile(self, fileno: int, position: int, count: int, /) -> int:
        raise OSError("no files here")

    def on_readable(self, callback: Callable[[], object] | None, /) -> None:
        self._reader = callback
        if callback is not None:
            self._reactor.call_soon(self._tell)

    def on_writable(self, callback: Callable[[], object] | None, /) -> None:
        self._writer = callback

    def close(self) -> None:
        self.closed = True


class VirtualReactor:
    """`connected` is asked for a stream (or an OSError) for each connection that is made."""

    def __init__(
        self,
        connected: Callable[[str, int], VirtualStream | OSError] | None = None,
        seed: int = 0,
    ) -> None:
        self.time = 100.0
        self.random = random.Random(seed).random
        self._connected = connected
        self._ready: deque[Callable[[], object]] = deque()
        self._timers: list[tuple[float, int, _Timer]] = []
        self._count = 0

    def now(self) -> float:
        return self.time

    def wall_ms(self) -> int:
        return 1_780_000_000_000 + int(self.time * 1000)

    def call_at(self, when: float, callback: Callable[[], object]) -> _Timer:
        timer = _Timer(callback)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, timer))
        return timer

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._ready.append(callback)

    def future(self) -> Promise[Any]:
        return Promise()

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> Task[Any]:
        task = Task(coroutine)
        self.call_soon(task.step)
        return task

    async def sleep(self, seconds: float) -> None:
        promise: Promise[None] = Promise()
        self.call_at(self.time + seconds, lambda: promise.set_result(None))
        await promise

    async def call_user(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    def call_outside(self, function: Callable[..., object], *args: Any) -> None:
        self.call_soon(lambda: function(*args))

    def connect(self, host: str, port: int, timeout_s: float, done: Any) -> _Timer:
        assert self._connected is not None
        found = self._connected(host, port)
        timer = _Timer(lambda: None)

        def tell() -> None:
            if timer.callback is None:
                return
            if isinstance(found, OSError):
                done(None, found)
            else:
                done(found, None)

        self.call_soon(tell)
        return timer

    # -- what the test does

    def settle(self) -> None:
        """Run everything that is due now."""
        for _ in range(100_000):
            if self._ready:
                self._ready.popleft()()
            elif self._timers and self._timers[0][0] <= self.time:
                timer = heapq.heappop(self._timers)[2]
                if timer.callback is not None:
                    timer.callback()
            else:
                return
        raise AssertionError("it never settles")

    def advance(self, seconds: float) -> None:
        end = self.time + seconds
        self.settle()
        while self._timers and self._timers[0][0] <= end:
            self.time = max(self.time, self._timers[0][0])
            self.settle()
        self.time = end
        self.settle()

    def run(self, coroutine: Coroutine[Any, Any, Any], limit_s: float = 300.0) -> Any:
        """The coroutine's result; virtual time passes as it needs."""
        task = self.spawn(coroutine)
        end = self.time + limit_s
        self.settle()
        while not task.done():
            assert self._timers, "nothing will ever happen"
            assert self._timers[0][0] <= end, "it takes too long"
            self.advance(max(self._timers[0][0] - self.time, 0.0))
        return task.result()
