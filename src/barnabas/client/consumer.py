"""The consumers: records of partitions that are assigned by hand or by a group.

    with Consumer(bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        for record in consumer:
            handle(record)

`Consumer` runs in the thread that calls it: bytes are received and records made where they are wanted,
and Ctrl-C ends any call at once. Only a member of a group has a thread besides, for the heartbeats
between two polls. `AsyncConsumer` is the same with `await` and `async for`, made inside a coroutine.
What the calls mean is said in `consumer_engine.py`; neither is for several threads or tasks at once,
but for `wakeup` and the metrics.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from barnabas.client.cluster import Cluster
from barnabas.client.consumer_engine import ConsumerEngine
from barnabas.client.errors import ClosedError
from barnabas.client.faces import blocking, locked
from barnabas.client.kernels_consumer import ConsumerRecord
from barnabas.client.lifetime import look_after, warn_unclosed
from barnabas.client.pump import Pump
from barnabas.client.settings import ConsumerSettings, gather

if TYPE_CHECKING:
    from barnabas.client.looping import AsyncioReactor


class AsyncConsumer(ConsumerEngine):
    """Options are Kafka's, with underscores as keywords or with dots in a dict."""

    def __init__(
        self,
        options: Mapping[str, Any] | ConsumerSettings | None = None,
        /,
        *,
        patience_ms: float = 0,
        reactor: AsyncioReactor | None = None,
        **keywords: Any,
    ) -> None:
        from barnabas.client.looping import AsyncioReactor

        reactor = reactor or AsyncioReactor()
        self._loop = reactor.loop
        super().__init__(
            gather(ConsumerSettings, options, keywords), reactor, patience_ms=patience_ms
        )

    def wakeup(self) -> None:
        """Let the poll that runs now, or else the next one, raise WakeupError. For any thread."""
        self._loop.call_soon_threadsafe(super().wakeup)

    def __aiter__(self) -> AsyncConsumer:
        return self

    async def __anext__(self) -> ConsumerRecord:
        if not self.rest:
            if self.closed:
                raise StopAsyncIteration
            await self.next_records()
        return self.next_of_rest()

    def __del__(self) -> None:
        warn_unclosed(self, getattr(self, "cluster", None))

    async def __aenter__(self) -> AsyncConsumer:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close(dealt_with=kind is not None)


class Consumer:
    """Options are Kafka's, with underscores as keywords or with dots in a dict."""

    def __init__(
        self,
        options: Mapping[str, Any] | ConsumerSettings | None = None,
        /,
        *,
        patience_ms: float = 0,
        **keywords: Any,
    ) -> None:
        settings = gather(ConsumerSettings, options, keywords)
        self._pump = Pump()
        self._engine = ConsumerEngine(settings, self._pump.reactor, patience_ms=patience_ms)
        self._background = False
        close = functools.partial(self._engine.close, dealt_with=True)
        look_after(self, self._pump, self._engine.cluster, close)

    @property
    def settings(self) -> ConsumerSettings:
        return self._engine.settings

    @property
    def cluster(self) -> Cluster:
        return self._engine.cluster

    def subscribe(self, topics: Any, listener: object = None) -> None:
        with self._pump.lock:
            self._engine.subscribe(topics, listener)
        self._start_background()

    def commit_async(
        self,
        offsets: Mapping[Any, Any] | None = None,
        callback: Any = None,
    ) -> None:
        with self._pump.lock:
            self._engine.commit_async(offsets, callback)
        self._start_background()

    def _start_background(self) -> None:
        if not self._background:
            self._background = True
            self._pump.start("barnabas-consumer", self._engine.due)
        else:
            with self._pump.lock:
                self._pump.nudge()

    unsubscribe = blocking(ConsumerEngine.unsubscribe)
    assign = locked(ConsumerEngine.assign)
    assignment = locked(ConsumerEngine.assignment)
    subscription = locked(ConsumerEngine.subscription)
    poll = blocking(ConsumerEngine.poll)
    poll_arrow = blocking(ConsumerEngine.poll_arrow)
    seek = locked(ConsumerEngine.seek)
    seek_to_beginning = locked(ConsumerEngine.seek_to_beginning)
    seek_to_end = locked(ConsumerEngine.seek_to_end)
    pause = locked(ConsumerEngine.pause)
    resume = locked(ConsumerEngine.resume)
    paused = locked(ConsumerEngine.paused)
    position = blocking(ConsumerEngine.position)
    position_now = locked(ConsumerEngine.position_now)
    lag = locked(ConsumerEngine.lag)
    committed = blocking(ConsumerEngine.committed)
    commit = blocking(ConsumerEngine.commit)
    beginning_offsets = blocking(ConsumerEngine.beginning_offsets)
    end_offsets = blocking(ConsumerEngine.end_offsets)
    offsets_for_times = blocking(ConsumerEngine.offsets_for_times)
    partitions_for = blocking(ConsumerEngine.partitions_for)
    topics = blocking(ConsumerEngine.topics)
    group_metadata = locked(ConsumerEngine.group_metadata)
    metrics = locked(ConsumerEngine.metrics)
    wakeup = locked(ConsumerEngine.wakeup)

    def __iter__(self) -> Consumer:
        return self

    def __next__(self) -> ConsumerRecord:
        engine = self._engine
        if not engine.rest:
            if engine.closed:
                raise StopIteration
            self._pump.run(engine.next_records())
        return engine.next_of_rest()

    def close(self, timeout: float | None = None) -> None:
        """Commit if that is automatic, leave the group, end the connections. Idempotent."""
        self._close(timeout, dealt_with=False)

    def _close(self, timeout: float | None, *, dealt_with: bool) -> None:
        try:
            self._pump.run(self._engine.close(timeout, dealt_with=dealt_with))
        except ClosedError:
            pass
        finally:
            with self._pump.lock:
                self._engine.cluster.close()
            self._pump.close()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close(None, dealt_with=kind is not None)
