"""Records on their way to a producer's sender: one queue of batches for each partition.

No I/O and no clock of its own. A batch is open while it is the last of its queue and has room; it is
due when it is full, has lingered, follows another that is due, or a flush was asked for.

Order is kept by two rules. A batch gets its sequence number when it is first sent and keeps it; and a
partition of which a batch failed retriably sends nothing until all its requests in flight have come
back, then repeats from the lowest sequence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from barnabas.client.core.metadata import TopicPartition
from barnabas.record.kernels import RecordsBuilder

RECORD_OVERHEAD = 21
BATCH_OVERHEAD = 61
SEQUENCE_MASK = 0x7FFFFFFF

DeliveryCallback = Callable[["Delivery"], object]


class Batch:
    """Records of one partition that are sent, and succeed or fail, together."""

    __slots__ = (
        "append_time_ms",
        "attempts",
        "base_offset",
        "base_sequence",
        "builder",
        "callbacks",
        "closed",
        "created_at",
        "data",
        "done",
        "done_at_ns",
        "error",
        "not_before",
        "partition",
        "producer",
        "record_count",
        "record_errors",
        "size",
    )

    def __init__(self, partition: TopicPartition, created_at: float, capacity: int) -> None:
        self.partition = partition
        self.created_at = created_at
        self.builder: RecordsBuilder | None = RecordsBuilder(None, capacity)
        self.data: Any = None
        self.size = BATCH_OVERHEAD
        self.record_count = 0
        self.closed = False
        self.done = False
        self.done_at_ns = 0
        self.error: BaseException | None = None
        self.record_errors: dict[int, str] = {}
        self.base_offset = -1
        self.append_time_ms = -1
        self.base_sequence = -1
        self.producer: tuple[int, int] = (-1, -1)
        self.attempts = 0
        self.not_before = 0.0
        self.callbacks: list[tuple[int, DeliveryCallback]] = []


class Delivery:
    """What became of one record. `Producer.wait` and `Producer.flush` make it `done`."""

    __slots__ = ("_batch", "_index", "timestamp_ms")

    def __init__(self, batch: Batch, index: int, timestamp_ms: int) -> None:
        self._batch = batch
        self._index = index
        self.timestamp_ms = timestamp_ms

    @property
    def batch(self) -> Batch:
        """What the record is sent with; for those who measure."""
        return self._batch

    @property
    def topic(self) -> str:
        return self._batch.partition[0]

    @property
    def partition(self) -> int:
        return self._batch.partition[1]

    @property
    def done(self) -> bool:
        return self._batch.done

    @property
    def error(self) -> BaseException | None:
        return self._batch.error

    @property
    def offset(self) -> int:
        """The record's offset; -1 until it is known, and for ever with acks=0."""
        base = self._batch.base_offset
        return -1 if base < 0 else base + self._index


class PartitionQueue:
    __slots__ = ("batches", "draining", "in_flight", "next_sequence")

    def __init__(self) -> None:
        self.batches: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.next_sequence = 0
        self.draining = False


class Accumulator:
    def __init__(self, batch_size: int, linger_s: float) -> None:
        self.batch_size = max(batch_size, 1)
        self.linger_s = linger_s
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.buffered_bytes = 0
        self.open_batches = 0
        self.flushing = 0

    def queue(self, partition: TopicPartition) -> PartitionQueue:
        queue = self.queues.get(partition)
        if queue is None:
            queue = self.queues[partition] = PartitionQueue()
        return queue

    def append(
        self,
        partition: TopicPartition,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Any,
        size: int,
        now: float,
    ) -> tuple[Batch, int, bool]:
        """The batch, the record's index in it, and whether the sender should look now."""
        queue = self.queue(partition)
        batches = queue.batches
        batch = batches[-1] if batches else None
        news = False
        if batch is None or batch.closed or batch.size + size > self.batch_size:
            if batch is not None and not batch.closed:
                batch.closed = news = True
            news = news or not batches
            batch = Batch(partition, now, min(max(self.batch_size, size + 64), 1 << 20))
            batches.append(batch)
            self.open_batches += 1
        assert batch.builder is not None
        index = batch.record_count
        batch.builder.append(timestamp_ms, key, value, headers)
        batch.record_count = index + 1
        before = batch.size
        batch.size = batch.builder.size_in_bytes
        if index == 0:
            before = 0
        self.buffered_bytes += batch.size - before
        if batch.size >= self.batch_size:
            batch.closed = news = True
        return batch, index, news

    def due(self, now: float) -> Iterator[PartitionQueue]:
        """The queues whose first batch should go out now."""
        for queue in self.queues.values():
            if queue.batches and self._due_at(queue) <= now:
                yield queue

    def _due_at(self, queue: PartitionQueue) -> float:
        if queue.draining and queue.in_flight:
            return float("inf")
        first = queue.batches[0]
        if first.attempts:
            return first.not_before
        if first.closed or len(queue.batches) > 1 or self.flushing:
            return 0.0
        return first.created_at + self.linger_s

    def next_due(self) -> float:
        """When the sender has something to do, in monotonic seconds; infinity for never."""
        return min(
            (self._due_at(queue) for queue in self.queues.values() if queue.batches),
            default=float("inf"),
        )

    def take(self, queue: PartitionQueue) -> Batch:
        """The first batch, closed, moved from waiting to in flight."""
        batch = queue.batches.popleft()
        batch.closed = True
        queue.draining = False
        queue.in_flight.append(batch)
        return batch

    def put_back(self, batch: Batch, not_before: float) -> None:
        """After a retriable failure: first in line again, in the order of sequences."""
        queue = self.queue(batch.partition)
        if batch in queue.in_flight:
            queue.in_flight.remove(batch)
        batch.attempts += 1
        batch.not_before = not_before
        waiting = queue.batches
        at = 0
        while (
            at < len(waiting)
            and waiting[at].attempts
            and _before(waiting[at].base_sequence, batch.base_sequence)
        ):
            at += 1
        waiting.insert(at, batch)
        queue.draining = True

    def finish(self, batch: Batch) -> None:
        """The batch succeeded or failed for good."""
        queue = self.queue(batch.partition)
        if batch in queue.in_flight:
            queue.in_flight.remove(batch)
        elif batch in queue.batches:
            queue.batches.remove(batch)
        self.buffered_bytes -= batch.size
        self.open_batches -= 1
        batch.builder = None
        batch.data = None

    def all_batches(self) -> list[Batch]:
        return [
            batch for queue in self.queues.values() for batch in (*queue.in_flight, *queue.batches)
        ]


def _before(first: int, second: int) -> bool:
    """Whether a sequence number precedes another, across the wrap at the largest int32."""
    return 0 < ((second - first) & SEQUENCE_MASK) < (1 << 30)
