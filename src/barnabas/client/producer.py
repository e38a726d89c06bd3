"""The producer: batches in the caller's thread, network in a thread of its own.

`send` puts a record into the batch of its partition and returns a `Delivery`; the sender thread closes
batches that are full or have lingered, keeps a bounded number of requests in flight on each
connection, repeats what may be repeated, and completes deliveries. `flush` waits for everything sent
so far; `close` flushes. Callbacks run in the sender thread.

Memory is bounded by buffer.memory: `send` waits up to max.block.ms for room.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable
from typing import Any

from barnabas.client.blocking.cluster import Cluster
from barnabas.client.core.accumulator import (
    RECORD_OVERHEAD,
    Accumulator,
    Delivery,
    DeliveryCallback,
)
from barnabas.client.core.partitioner import StickyPartitioner, partition_for_key
from barnabas.client.errors import (
    BrokerError,
    ClientError,
    ClosedError,
    RequestTimeout,
    SerializationError,
)
from barnabas.client.sender import Sender
from barnabas.client.settings import ProducerSettings, load
from barnabas.wire.errors import ErrorCode

Headers = Iterable[tuple[str, bytes | None]]


class Producer:
    """Options are Kafka's, with underscores as keywords or with dots in a dict."""

    def __init__(
        self,
        options: dict[str, Any] | None = None,
        *,
        patience_ms: int = 0,
        **more: Any,
    ) -> None:
        self.settings = load(ProducerSettings, {**(options or {}), **more})
        self.cluster = Cluster(self.settings, patience_ms=patience_ms)
        self._accumulator = Accumulator(self.settings.batch_size, self.settings.linger_ms / 1000)
        self._changed = threading.Condition()
        self._sender = Sender(self.cluster, self.settings, self._accumulator, self._changed)
        self._sticky: dict[str, StickyPartitioner] = {}
        self._counts: dict[str, list[int]] = {}
        self._seen_version = -1
        self._closed = False

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic, created if the broker creates topics by itself."""
        if self._seen_version != self.cluster.metadata.version:
            self._seen_version = self.cluster.metadata.version
            self._counts.clear()
        known = self._counts.get(topic)
        if known is None:
            info = self.cluster.metadata.topics.get(topic)
            if info is None or not info.partitions or info.error_code != ErrorCode.NONE:
                block_ms = self.settings.max_block_ms
                info = self.cluster.topics([topic], allow_auto_create=True, timeout_ms=block_ms)[
                    topic
                ]
                self._seen_version = self.cluster.metadata.version
                self._counts.clear()
            known = self._counts[topic] = sorted(info.partitions)
        return known

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        on_delivery: DeliveryCallback | None = None,
    ) -> Delivery:
        """Queue one record. Text is sent as UTF-8; None is a null key or a tombstone."""
        if self._closed:
            raise ClosedError("The producer is closed.")
        if isinstance(key, str):
            key = key.encode()
        if isinstance(value, str):
            value = value.encode()
        size = (
            RECORD_OVERHEAD
            + (0 if key is None else len(key))
            + (0 if value is None else len(value))
        )
        if size > self.settings.max_request_size:
            raise BrokerError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"The record is {size} bytes, more than max.request.size "
                f"{self.settings.max_request_size}.",
                subject=f"topic {topic}",
            )
        indexes = self.partitions(topic)
        if partition is None:
            partition = self._choose(topic, key, size, indexes)
        elif partition not in indexes:
            raise BrokerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"The topic has {len(indexes)} partitions.",
                subject=f"{topic}-{partition}",
            )
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        with self._changed:
            if self._accumulator.buffered_bytes + size > self.settings.buffer_memory:
                self._wait_for_room(size)
            try:
                batch, index, news = self._accumulator.append(
                    (topic, partition), timestamp_ms, key, value, headers, size, time.monotonic()
                )
            except (TypeError, ValueError) as error:
                raise SerializationError(f"The record cannot be encoded: {error}") from error
            delivery = Delivery(batch, index, timestamp_ms)
            if on_delivery is not None:
                batch.callbacks.append((index, on_delivery))
            if news:
                self._sender.wake()
        return delivery

    def _choose(self, topic: str, key: Any, size: int, indexes: list[int]) -> int:
        if key is not None and not self.settings.partitioner_ignore_keys:
            return indexes[partition_for_key(key, len(indexes))]
        sticky = self._sticky.get(topic)
        if sticky is None:
            sticky = StickyPartitioner(self.settings.batch_size, random.random)
            self._sticky[topic] = sticky
        return sticky.choose(size, self._available(topic, indexes))

    def _available(self, topic: str, indexes: list[int]) -> list[int]:
        info = self.cluster.metadata.topics.get(topic)
        if info is None:
            return indexes
        return [i for i in indexes if (p := info.partitions.get(i)) and p.leader >= 0] or indexes

    def _wait_for_room(self, size: int) -> None:
        deadline = time.monotonic() + self.settings.max_block_ms / 1000
        self._sender.wake()
        while self._accumulator.buffered_bytes + size > self.settings.buffer_memory:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise RequestTimeout(
                    "room in buffer.memory (brokers take records slower than they are sent)",
                    self.settings.max_block_ms,
                )
            self._changed.wait(min(remaining, 0.5))

    def flush(self, timeout_ms: int | None = None) -> None:
        """Wait until everything sent so far succeeded or failed."""
        limit_ms = self.settings.delivery_timeout_ms + 5_000 if timeout_ms is None else timeout_ms
        deadline = time.monotonic() + limit_ms / 1000
        with self._changed:
            waiting = self._accumulator.all_batches()
            if not waiting:
                return
            self._accumulator.flushing += 1
            self._sender.wake()
            try:
                while not all(batch.done for batch in waiting):
                    remaining = deadline - time.monotonic()
                    if remaining <= 0:
                        raise RequestTimeout("records to be acknowledged", limit_ms)
                    self._changed.wait(min(remaining, 0.5))
            finally:
                self._accumulator.flushing -= 1

    def wait(self, delivery: Delivery, timeout_ms: int | None = None) -> Delivery:
        """Wait for one record and raise its error if it failed."""
        if not delivery.done:
            self.flush(timeout_ms)
        if delivery.error is not None:
            raise delivery.error
        return delivery

    def close(self, timeout_ms: int | None = None) -> None:
        """Flush, stop the sender and close the connections."""
        if self._closed:
            return
        self._closed = True
        try:
            self.flush(timeout_ms)
        finally:
            self._sender.stop()
            self.cluster.close()

    def abandon(self) -> None:
        """Close without sending what waits; its deliveries fail."""
        self._closed = True
        self._sender.stop()
        self.cluster.close()
        with self._changed:
            for batch in self._accumulator.all_batches():
                self._sender.fail(batch, ClosedError("The producer was closed before delivery."))

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: object, _error: object, _trace: object) -> None:
        if kind is None or (isinstance(kind, type) and issubclass(kind, ClientError)):
            self.close()
        else:
            self.abandon()
