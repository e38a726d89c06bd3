"""Both consumers as one kind of object, so that a test runs against each."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Producer

from barnabas.client.consumer import AsyncConsumer, Consumer

KINDS = ["plain", "asyncio"]


class LoopedConsumer:
    """An AsyncConsumer whose calls run on a loop of its own."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._loop = asyncio.new_event_loop()

        async def make() -> AsyncConsumer:
            return AsyncConsumer(options)

        try:
            self.consumer = self._loop.run_until_complete(make())
        except BaseException:
            self._loop.close()
            raise

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.consumer, name)
        if not callable(found) or name == "wakeup":
            return found

        async def call(*args: Any, **more: Any) -> Any:
            result = found(*args, **more)
            return await result if inspect.isawaitable(result) else result

        return lambda *args, **more: self._loop.run_until_complete(call(*args, **more))

    def __iter__(self) -> Iterator[Any]:
        while True:
            try:
                yield self._loop.run_until_complete(self.consumer.__anext__())
            except StopAsyncIteration:
                return

    def __enter__(self) -> LoopedConsumer:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._loop.run_until_complete(self.consumer.__aexit__(kind, error, trace))
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


def make_consumer(kind: str, **options: Any) -> Any:
    return Consumer(options) if kind == "plain" else LoopedConsumer(options)


def write(bootstrap: str, topic: str, values: list[Any], *, partition: int = 0) -> None:
    """Values to one partition; a tuple is key and value."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for value in values:
        key, value = value if isinstance(value, tuple) else (None, value)
        producer.produce(topic, value, key, partition=partition, timestamp=1_000)
    assert producer.flush(30) == 0


def read(consumer: Any, count: int, timeout: float = 20.0) -> list[Any]:
    """Polls until there are so many records."""
    found: list[Any] = []
    while len(found) < count:
        records = consumer.poll(timeout, max_records=count - len(found))
        assert records, f"{len(found)} of {count} records came in {timeout} s"
        found += records
    return found
