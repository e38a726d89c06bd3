"""Both faces of the Python clients as one kind of object, so that one test runs against each.

`make("plain", "Producer", linger_ms=0)` is a `Producer`; `make("asyncio", …)` is an `AsyncProducer`
whose coroutines are run on a loop in a thread of its own, so that its background work goes on between
calls.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from typing import Any

from barnabas.client.admin import Admin, AsyncAdmin
from barnabas.client.async_producer import AsyncProducer
from barnabas.client.consumer import AsyncConsumer, Consumer
from barnabas.client.producer import Producer

PLAIN = {"Admin": Admin, "Consumer": Consumer, "Producer": Producer}
ASYNC = {"Admin": AsyncAdmin, "Consumer": AsyncConsumer, "Producer": AsyncProducer}
KINDS = ["plain", "asyncio"]
CALL_TIMEOUT_S = 60.0


class Sent:
    """A future of an `AsyncProducer`, waited for from outside of its loop."""

    def __init__(self, looped: Looped, future: Any) -> None:
        self._looped = looped
        self._future = future

    def result(self, timeout: float | None = None) -> Any:
        async def wait() -> Any:
            return await asyncio.wait_for(asyncio.ensure_future(_awaited(self._future)), timeout)

        return self._looped.run(wait)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        try:
            self.result(timeout)
        except TimeoutError:
            raise
        except Exception as error:
            return error
        return None

    def done(self) -> bool:
        return bool(self._future.done())


async def _awaited(future: Any) -> Any:
    return await future


class Looped:
    """An async client on a loop of its own; its methods are called and awaited there."""

    def __init__(self, cls: Any, options: dict[str, Any]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self.client = self.run(cls, options)
        except BaseException:
            self._end()
            raise

    def run(self, function: Any, *args: Any, **more: Any) -> Any:
        async def inside() -> Any:
            result = function(*args, **more)
            return await result if inspect.isawaitable(result) else result

        return asyncio.run_coroutine_threadsafe(inside(), self._loop).result(CALL_TIMEOUT_S)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.client, name)
        if not callable(found):
            return found
        return lambda *args, **more: self.run(found, *args, **more)

    def send(self, *args: Any, **more: Any) -> Sent:
        return Sent(self, self.run(self.client.send, *args, **more))

    def __iter__(self) -> Iterator[Any]:
        while True:
            try:
                yield self.run(self.client.__anext__)
            except StopAsyncIteration:
                return

    def __enter__(self) -> Looped:
        return self

    def __exit__(self, *_exc: object) -> None:
        try:
            self.run(self.client.close)
        finally:
            self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_TIMEOUT_S)
        self._loop.close()


def make(kind: str, name: str, **options: Any) -> Any:
    """`name` is Producer, Consumer or Admin."""
    if kind == "plain":
        return PLAIN[name](options)
    return Looped(ASYNC[name], options)
