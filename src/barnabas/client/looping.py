"""The reactor of the async clients: a thin cover over the asyncio loop that runs them."""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from barnabas.client.connecting import Connecting, Resolved, resolve_now
from barnabas.client.errors import IllegalStateError
from barnabas.client.reactor import Connected, Future, Timer

T = TypeVar("T")

logger = logging.getLogger(__name__)


class AsyncioReactor:
    """Made where a loop runs, or for a loop; belongs to that loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        if loop is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                raise IllegalStateError(
                    "An async client is made inside a coroutine, where its event loop runs.",
                    next_step="Make it in an `async def`, or use the client without Async.",
                ) from None
        self.loop = loop
        self.now = loop.time
        self.random = random.random
        self.add_reader = loop.add_reader
        self.remove_reader = loop.remove_reader
        self.add_writer = loop.add_writer
        self.remove_writer = loop.remove_writer
        self._tasks: set[asyncio.Task[Any]] = set()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        return self.loop.call_at(when, callback)

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.loop.call_soon(callback)

    def future(self) -> Future[Any]:
        return self.loop.create_future()

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        task = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def resolve(self, host: str, port: int, done: Resolved) -> None:
        known = resolve_now(host, port)
        if known is not None:
            self.loop.call_soon(done, known, None)
            return

        async def look_up() -> None:
            try:
                found = await self.loop.getaddrinfo(host, port, type=1)
            except OSError as error:
                done(None, error)
            else:
                done(found, None)

        self.spawn(look_up())

    def connect(self, host: str, port: int, timeout_s: float, done: Connected) -> Timer:
        return Connecting(self, host, port, timeout_s, done)

    async def call_user(self, function: Callable[..., Any], *args: Any) -> Any:
        result = function(*args)
        return await result if inspect.isawaitable(result) else result

    def call_outside(self, function: Callable[..., object], *args: Any) -> None:
        self.loop.call_soon(function, *args)
