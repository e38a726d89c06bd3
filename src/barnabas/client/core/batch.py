"""A batch of records of one partition: what is sent, succeeds and fails as one.

The records are in the part that the kernel touches (`AppendableBatch`); here is the rest: what the
sender has to know, and what became of it. A batch lives through

    open -> closed -> (taken -> put back)* -> done

It is done exactly once: acknowledged, failed, or replaced by `parts` because it was too large for the
broker; a record's answer is then that of the part it went to. Futures hold their batch, so a batch
outlives the accumulator's interest in it, but not its bytes.

`order` is the batch's place in its partition for ever. It is a tuple so that the parts of a batch
have a place between their neighbours.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from barnabas.client.errors import BrokerError, ClientError, broker_error
from barnabas.client.kernels_producer import AppendableBatch, SendFuture

MAX_RECORD_ERRORS = 1_000


class RecordMetadata(NamedTuple):
    """Where a record is. `offset` is -1 where nobody knows it: with acks=0, of a record that failed,
    and of one that was found written already when it was sent again."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


DeliveryCallback = Callable[[RecordMetadata, ClientError | None], object]


class Owner(Protocol):
    """Who runs the producer: it knows how to wait and where callbacks run."""

    def wait(self, batch: ProducerBatch, timeout: float | None) -> None:
        """Return when `batch` is done; RequestTimeout if that takes too long."""

    def awaitable(self, batch: ProducerBatch) -> Awaitable[object]:
        """Something to `await` until `batch` is done."""

    def when_done(self, future: SendFuture, callback: Callable[[SendFuture], object]) -> None:
        """Run `callback(future)` where callbacks run, once the record's batch is done."""


class ProducerBatch(AppendableBatch):
    __slots__ = (
        "attempts",
        "base_offset",
        "base_sequence",
        "created_at",
        "data",
        "done_at",
        "error",
        "last_error",
        "log_append_time_ms",
        "may_be_written",
        "not_before",
        "order",
        "owner",
        "partition",
        "parts",
        "producer_epoch",
        "producer_id",
        "record_count",
        "record_errors",
        "reserved",
        "sent_at",
        "size",
        "topic",
        "urgent",
        "watchers",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        order: tuple[int, ...],
        limit: int,
        created_at: float,
        owner: Owner | None = None,
        buffer: bytearray | None = None,
    ) -> None:
        super().__init__(limit, buffer)
        self.topic = topic
        self.partition = partition
        self.order = order
        self.created_at = created_at
        self.owner = owner
        self.reserved = 0
        self.record_count = 0
        self.size = 0
        self.data: bytearray | None = None
        self.attempts = 0
        self.may_be_written = False
        self.not_before = 0.0
        self.sent_at = 0.0
        self.done_at = 0.0
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = -1
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.error: ClientError | None = None
        self.last_error: ClientError | None = None
        self.record_errors: dict[int, str] | None = None
        self.parts: list[tuple[int, ProducerBatch]] | None = None
        self.urgent = False
        self.watchers: list[Callable[[], object]] = []
        """Called once when the batch is done, by its owner."""

    def __repr__(self) -> str:
        state = "done" if self.done else "closed" if self.closed else "open"
        return f"<{state} batch {self.topic}-{self.partition} {self.order}>"

    def close(self) -> None:
        """No further records. Afterwards `record_count` and `size` are known."""
        self.closed = True
        if self.data is None and self.builder is not None:
            self.record_count = self.builder.record_count
            self.size = self.builder.size_in_bytes

    def succeed(self, base_offset: int, log_append_time_ms: int) -> None:
        assert not self.done
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.done = True

    def fail(self, error: ClientError, record_errors: dict[int, str] | None = None) -> None:
        assert not self.done
        self.error = error
        self.record_errors = record_errors
        self.done = True

    def replace(self, parts: list[tuple[int, ProducerBatch]]) -> None:
        """`parts` are pairs of the first record's index here and the batch it went to."""
        assert not self.done
        self.parts = parts
        for future in self.told:
            part, _ = self.part_of(future.index)
            part.told.append(future)
        self.told = []
        self.done = True

    # -- what became of one record

    def part_of(self, index: int) -> tuple[ProducerBatch, int]:
        batch = self
        while batch.parts is not None:
            first, found = next(part for part in reversed(batch.parts) if part[0] <= index)
            batch, index = found, index - first
        return batch, index

    def future_done(self, index: int) -> bool:
        return bool(self.part_of(index)[0].done)

    def future_metadata(self, future: SendFuture) -> RecordMetadata:
        batch, index = self.part_of(future.index)
        offset = -1 if batch.base_offset < 0 else batch.base_offset + index
        timestamp_ms = batch.log_append_time_ms
        if timestamp_ms < 0:
            timestamp_ms = future.timestamp_ms
        return RecordMetadata(self.topic, self.partition, offset, timestamp_ms)

    def future_error(self, future: SendFuture) -> ClientError | None:
        batch, index = self.part_of(future.index)
        if batch.error is None or batch.record_errors is None:
            return batch.error
        return batch._record_error(index)

    def _record_error(self, index: int) -> ClientError:
        """KIP-467: only some records were at fault, and the others were not written because of them."""
        assert self.record_errors is not None
        assert isinstance(self.error, BrokerError)
        subject = f"{self.topic}-{self.partition}"
        detail = self.record_errors.get(index)
        if detail is None:
            detail = (
                "The record was not written, as the broker refused another one of the same batch: "
                + next(iter(self.record_errors.values()))
            )
        return broker_error(self.error.code, detail, subject=subject)

    def _settle(self, future: SendFuture, timeout: float | None) -> None:
        while True:
            batch, _ = self.part_of(future.index)
            if batch.done:
                return
            assert self.owner is not None
            self.owner.wait(batch, timeout)

    def future_result(self, future: SendFuture, timeout: float | None) -> RecordMetadata:
        self._settle(future, timeout)
        error = self.future_error(future)
        if error is not None:
            raise error
        return self.future_metadata(future)

    def future_exception(self, future: SendFuture, timeout: float | None) -> ClientError | None:
        self._settle(future, timeout)
        return self.future_error(future)

    async def future_await(self, future: SendFuture) -> RecordMetadata:
        while True:
            batch, _ = self.part_of(future.index)
            if batch.done:
                return self.future_result(future, 0.0)
            assert self.owner is not None
            await self.owner.awaitable(batch)

    def future_callback(self, future: SendFuture, callback: Callable[[SendFuture], object]) -> None:
        assert self.owner is not None
        self.owner.when_done(future, callback)
