"""Both producers as one kind of object, so that a test runs against each."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from barnabas.client.async_producer import AsyncProducer
from barnabas.client.producer import Producer

KINDS = ["plain", "asyncio"]


class PlainProducer(Producer):
    def outcome(self, future: Any, timeout: float | None = 10.0) -> Any:
        return future.result(timeout)


class LoopedProducer:
    """An AsyncProducer whose coroutines are run to their end on a loop of its own."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._loop = asyncio.new_event_loop()

        async def make() -> AsyncProducer:
            return AsyncProducer(options)

        try:
            self._producer = self._loop.run_until_complete(make())
        except BaseException:
            self._loop.close()
            raise

    def _run(self, awaitable: Any) -> Any:
        async def main() -> Any:
            return await awaitable

        return self._loop.run_until_complete(main())

    def outcome(self, future: Any, timeout: float | None = 10.0) -> Any:
        return self._run(asyncio.wait_for(future, timeout))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._producer, name)
        if not callable(found):
            return found

        def call(*args: Any, **more: Any) -> Any:
            result = found(*args, **more)
            return self._run(result) if inspect.isawaitable(result) else result

        return call

    def __enter__(self) -> LoopedProducer:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._run(self._producer.close())
        self._run(asyncio.sleep(0))
        self._loop.close()


def make_producer(kind: str, **options: Any) -> Any:
    return PlainProducer(options) if kind == "plain" else LoopedProducer(options)
