"""What a producer sends when, and what an answer means. No I/O; `now` is handed in.

`take(now, …)` gives requests that should go out; each comes back exactly once, through `answered`
or `lost`. In between a node has at most `max.in.flight.requests.per.connection` of them, and one while
there is no connection to it.

What an answer means for a batch:

    no error, DUPLICATE_SEQUENCE_NUMBER      written
    MESSAGE_TOO_LARGE, several records       two halves are sent instead
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    UNKNOWN_PRODUCER_ID                      again, maybe with a new number (`idempotence.py`)
    INVALID_PRODUCER_EPOCH and the like      again, with a new producer id
    other retriable errors, no answer        again after a backoff, at once if the leader is new
    everything else                          failed

A batch that is not done after `delivery.timeout.ms` fails wherever it is. One whose topic the cluster
does not know fails after `max.block.ms`, as `send` to such a topic does.

What has to be told is collected for the engine: `completed` (batches, in the order in which they were
done), `stale` (the metadata of something), `learned` (leaders that an answer named).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from barnabas.client.core.accumulator import NOWHERE, Accumulator, PartitionQueue
from barnabas.client.core.batch import MAX_RECORD_ERRORS, ProducerBatch
from barnabas.client.core.idempotence import Idempotence
from barnabas.client.core.metadata import TopicPartition
from barnabas.client.core.splitting import split
from barnabas.client.errors import (
    BrokerError,
    ClientError,
    ClosedError,
    ConnectionFailure,
    DeliveryTimeout,
    NameLookupError,
    broker_error,
)
from barnabas.client.settings import ProducerSettings
from barnabas.wire.errors import ErrorCode

_OK = int(ErrorCode.NONE)
_WRITTEN_BEFORE = int(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
_OUT_OF_SEQUENCE = (
    int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    int(ErrorCode.UNKNOWN_PRODUCER_ID),
)
_ID_REFUSED = (int(ErrorCode.INVALID_PRODUCER_EPOCH), int(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
_LONGEST_BACKOFF_STEPS = 10


class Outgoing:
    """One Produce request: at most one batch of a partition."""

    __slots__ = ("batches", "node", "sent_at")

    def __init__(self, node: int, batches: list[ProducerBatch], sent_at: float) -> None:
        self.node = node
        self.batches = batches
        self.sent_at = sent_at


class Sender:
    def __init__(
        self,
        settings: ProducerSettings,
        accumulator: Accumulator,
        idempotence: Idempotence,
        random: Callable[[], float],
    ) -> None:
        self.accumulator = accumulator
        self.idempotence = idempotence
        self.completed: list[ProducerBatch] = []
        self.stale = False
        self.retries = 0
        self.splits = 0
        self._settings = settings
        self._random = random
        self._flying: dict[int, set[Outgoing]] = {}
        self._oldest_expires_at = 0.0
        self._delivery_timeout_s = settings.delivery_timeout_ms / 1000
        self._most = settings.max_in_flight_requests_per_connection
        self._served_at: dict[int, float] = {}

    # -- sending

    @property
    def in_flight(self) -> int:
        return sum(map(len, self._flying.values()))

    def needs_producer_id(self) -> bool:
        """Whether something waits for a producer id that nobody has asked for."""
        idempotence = self.idempotence
        return idempotence.wanted and bool(self.accumulator.due)

    def take(self, now: float, connected: Callable[[int], bool]) -> list[Outgoing]:
        """The requests to send now."""
        accumulator = self.accumulator
        accumulator.wake(now)
        if now >= self._oldest_expires_at:
            self._expire(now)
        found: list[Outgoing] = []
        for node in list(accumulator.due):
            if node == NOWHERE:
                self.stale = True
                continue
            flying = self._flying.setdefault(node, set())
            most = self._most if connected(node) else 1
            while len(flying) < most:
                batches = accumulator.drain(
                    node, now, self._settings.max_request_size, self.idempotence.ready
                )
                if not batches:
                    break
                for batch in batches:
                    batch.sent_at = now
                    self.idempotence.number(accumulator.queues[batch.topic, batch.partition], batch)
                outgoing = Outgoing(node, batches, now)
                flying.add(outgoing)
                found.append(outgoing)
        return found

    def next_at(self) -> float:
        """When `take` has something to do that time brings; infinity for never."""
        if not self.accumulator.incomplete:
            return float("inf")
        return min(self.accumulator.next_wake(), self._oldest_expires_at)

    def idle_since(self, node: int) -> float | None:
        """Since when a node has had something due and taken nothing; None if that is not so."""
        return self._served_at.get(node) if node in self.accumulator.due else None

    def _landed(self, outgoing: Outgoing, now: float) -> bool:
        """False if it has landed before, as `interrupted` may have made it."""
        flying = self._flying[outgoing.node]
        if outgoing not in flying:
            return False
        flying.remove(outgoing)
        self._served_at[outgoing.node] = now
        return True

    def interrupted(self, now: float) -> None:
        """Ctrl-C may have fallen into the middle of anything here, in the thread of a caller. What was
        in flight counts as lost, what is nowhere goes back to its queue. Connections have been
        ended by the caller, so nothing of it can overtake what is sent from now on."""
        error = ClosedError("The sending of the record was interrupted.")
        for flying in list(self._flying.values()):
            for outgoing in list(flying):
                self.lost(outgoing, error, now)
        self.accumulator.repair()

    # -- answers

    def written(self, outgoing: Outgoing, now: float) -> None:
        """With acks=0: the request has left, and that is all there is to know."""
        if not self._landed(outgoing, now):
            return
        for batch in outgoing.batches:
            self._written(batch, -1, -1, recycle=False)

    def answered(
        self,
        outgoing: Outgoing,
        answers: dict[TopicPartition, Any],
        now: float,
        leader_is_new: Callable[[ProducerBatch, Any], bool],
    ) -> None:
        """`answers` by partition. `leader_is_new` takes in the leader that an answer names."""
        if not self._landed(outgoing, now):
            return
        for batch in outgoing.batches:
            answer = answers.get((batch.topic, batch.partition))
            if answer is None:
                missing = broker_error(
                    ErrorCode.UNKNOWN_TOPIC_ID,
                    "The broker's answer does not name the partition.",
                    subject=f"{batch.topic}-{batch.partition}",
                )
                self._again(batch, missing, now)
            elif answer.error_code == _OK:
                self._written(batch, answer.base_offset, answer.log_append_time_ms, recycle=True)
            else:
                self._refused(batch, answer, now, leader_is_new)

    def lost(self, outgoing: Outgoing, error: ClientError, now: float) -> None:
        """There will be no answer."""
        if not self._landed(outgoing, now):
            return
        self.stale = True
        worth_it = error.retriable or isinstance(error, ClosedError | NameLookupError)
        unsent = isinstance(error, ConnectionFailure) and error.waiting_for is None
        for batch in outgoing.batches:
            if batch not in self.accumulator.queues[batch.topic, batch.partition].in_flight:
                continue  # interrupted when its answer had been taken in
            batch.may_be_written |= not unsent
            if worth_it:
                self._again(batch, error, now)
            else:
                self._fail(batch, error)

    def _written(self, batch: ProducerBatch, offset: int, time_ms: int, *, recycle: bool) -> None:
        queue = self.accumulator.queues[batch.topic, batch.partition]
        queue.missing_since = None
        self.idempotence.acknowledged(queue, batch)
        if not batch.done:
            batch.succeed(offset, time_ms)
            self.completed.append(batch)
        self.accumulator.finish(batch, recycle=recycle)

    def _refused(
        self,
        batch: ProducerBatch,
        answer: Any,
        now: float,
        leader_is_new: Callable[[ProducerBatch, Any], bool],
    ) -> None:
        code = answer.error_code
        if code == _WRITTEN_BEFORE:
            self._written(batch, answer.base_offset, answer.log_append_time_ms, recycle=True)
            return
        error = broker_error(code, answer.error_message, subject=f"{batch.topic}-{batch.partition}")
        queue = self.accumulator.queues[batch.topic, batch.partition]
        if code == ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1 and not batch.done:
            self._split(batch)
        elif code in _OUT_OF_SEQUENCE and batch.base_sequence >= 0:
            if self.idempotence.follows_others(queue, batch):
                self._again(batch, error, now)
            elif batch.may_be_written:
                self._fail(batch, _forgotten(batch, code))
            elif self._again(batch, error, now):
                self.idempotence.renumber(queue, batch)
        elif code in _ID_REFUSED and batch.base_sequence >= 0:
            self.idempotence.lose(queue)
            if batch.may_be_written:
                self._fail(batch, _forgotten(batch, code))
            elif self._again(batch, error, now):
                self.idempotence.renumber(queue, batch)
        elif error.retriable:
            # An answer that came after the append, from a leader that waited for others, is one too.
            batch.may_be_written = True
            if error.code.invalidates_metadata:
                self.stale = True
            at_once = leader_is_new(batch, answer)
            self._again(batch, error, now, at_once=at_once)
        else:
            self._fail(batch, error, _record_errors(answer))

    def _again(
        self, batch: ProducerBatch, error: ClientError, now: float, *, at_once: bool = False
    ) -> bool:
        """Put a batch back, or fail it if that is not worth it any more."""
        if batch.done:
            self.accumulator.finish(batch)
            return False
        batch.last_error = error
        queue = self.accumulator.queues[batch.topic, batch.partition]
        if self._gone(queue, error, now) or batch.attempts >= self._settings.retries:
            self._fail(batch, error)
            return False
        self.retries += 1
        pause_s = 0.0 if at_once else self._backoff_s(batch.attempts)
        self.accumulator.put_back(batch, now + pause_s)
        return True

    def _gone(self, queue: PartitionQueue, error: ClientError, now: float) -> bool:
        """Whether brokers have been saying for long that there is no such topic or partition."""
        if not isinstance(error, BrokerError) or error.code not in (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_ID,
        ):
            queue.missing_since = None
            return False
        if queue.missing_since is None:
            queue.missing_since = now
        return now - queue.missing_since >= self._settings.max_block_ms / 1000

    def _backoff_s(self, attempts: int) -> float:
        first, most = self._settings.retry_backoff_ms, self._settings.retry_backoff_max_ms
        pause_ms = min(first * 2.0 ** min(attempts, _LONGEST_BACKOFF_STEPS), max(first, most))
        return pause_ms * (0.8 + 0.4 * self._random()) / 1000

    def _split(self, batch: ProducerBatch) -> None:
        """The halves keep the sequence numbers that their records had, as none of them was taken."""
        parts = split(batch)
        self.splits += 1
        batch.replace(parts)
        self.accumulator.split(batch, [part for _, part in parts])
        self.completed.append(batch)

    # -- the end of a batch

    def _fail(
        self, batch: ProducerBatch, error: ClientError, errors: dict[int, str] | None = None
    ) -> None:
        """Fail a batch that is not in flight any more."""
        queue = self.accumulator.queues[batch.topic, batch.partition]
        self.idempotence.failed(queue, batch)
        if not batch.done:
            batch.close()
            batch.fail(error, errors)
            self.completed.append(batch)
        self.accumulator.finish(batch)

    def _expire(self, now: float) -> None:
        accumulator = self.accumulator
        while True:
            batch = accumulator.oldest()
            if batch is None:
                self._oldest_expires_at = now + self._delivery_timeout_s
                return
            expires_at = batch.created_at + self._delivery_timeout_s
            if now < expires_at:
                self._oldest_expires_at = expires_at
                return
            timeout_ms = self._settings.delivery_timeout_ms
            error = DeliveryTimeout(batch.topic, batch.partition, timeout_ms, last=batch.last_error)
            self.stale = True
            queue = accumulator.queues[batch.topic, batch.partition]
            if batch in queue.in_flight:
                # Its answer may still come; the partition waits for it, the caller does not.
                self.idempotence.failed(queue, batch)
                batch.fail(error)
                self.completed.append(batch)
                accumulator.release(batch)
            else:
                self._fail(batch, error)

    def fail_all(self, error: ClientError) -> None:
        """Nothing more will be sent: everything that is not done fails."""
        for batch in list(self.accumulator.incomplete):
            queue = self.accumulator.queues[batch.topic, batch.partition]
            if batch in queue.in_flight:
                batch.fail(error)
                self.completed.append(batch)
                self.accumulator.release(batch)
            else:
                self._fail(batch, error)

    def fail_waiting(self, error: ClientError, batches: Iterable[ProducerBatch]) -> None:
        """Fail these batches unless they are in flight."""
        for batch in batches:
            queue = self.accumulator.queues[batch.topic, batch.partition]
            if not batch.done and batch not in queue.in_flight:
                self._fail(batch, error)


def _forgotten(batch: ProducerBatch, code: int) -> BrokerError:
    return broker_error(
        code,
        "The broker does not know any more which of this producer's records it has. An earlier "
        "attempt may have written this one, so it is not sent again.",
        subject=f"{batch.topic}-{batch.partition}",
    )


def _record_errors(answer: Any) -> dict[int, str] | None:
    """Which records were at fault (KIP-467); None when the broker does not say."""
    if not answer.record_errors:
        return None
    return {
        each.batch_index: each.batch_index_error_message or answer.error_message or "It is invalid."
        for each in answer.record_errors[:MAX_RECORD_ERRORS]
    }
