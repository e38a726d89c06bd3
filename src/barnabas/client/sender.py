"""The producer's network thread: sends due batches, takes answers, repeats, completes.

One loop over non-blocking reads: it sleeps until an answer arrives, a batch is due, or `send` wakes it
through a socket pair. All state is guarded by the producer's condition; the lock is not held while
bytes are written.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from struct import Struct
from typing import Any

from barnabas.client.blocking.cluster import Cluster
from barnabas.client.blocking.connection import Connection
from barnabas.client.core.accumulator import (
    SEQUENCE_MASK,
    Accumulator,
    Batch,
    Delivery,
    PartitionQueue,
)
from barnabas.client.errors import ClientError, NotFoundError, RequestTimeout, broker_error
from barnabas.client.settings import ProducerSettings
from barnabas.record.batch import CRC, CRC_OFFSET, compute_crc
from barnabas.record.build import attributes_of, seal_batch
from barnabas.record.compression import Codec
from barnabas.wire.errors import ErrorCode
from barnabas.wire.uuids import ZERO

PURPOSE = "produce"
_CODECS = {
    "none": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
_PRODUCER = Struct(">qhi")
_PRODUCER_OFFSET = 43
_LAST_VERSION_BY_NAME = 12
_LONGEST_SLEEP_S = 0.5


class Sender:
    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        accumulator: Accumulator,
        changed: threading.Condition,
    ) -> None:
        self.cluster = cluster
        self.settings = settings
        self.accumulator = accumulator
        self.changed = changed
        self.acks = -1 if settings.acks == "all" else int(settings.acks)
        self.codec = _CODECS[settings.compression_type]
        self.producer_id = (-1, -1)
        self._in_flight: dict[int, list[tuple[Connection, float, list[Batch]]]] = {}
        self._stale: set[str] = set()
        self._next_refresh = 0.0
        self._woken = False
        self._running = True
        self._reads, self._writes = socket.socketpair()
        self._reads.setblocking(False)
        self._thread: threading.Thread | None = None

    # -- the thread

    def wake(self) -> None:
        """Called with the lock held: the sender should look again."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="barnabas-sender", daemon=True)
            self._thread.start()
        if not self._woken:
            self._woken = True
            self._writes.send(b"\0")

    def stop(self) -> None:
        self._running = False
        thread = self._thread
        if thread is not None:
            with self.changed:
                self._woken = False
                self.wake()
            thread.join(5.0)
        self._reads.close()
        self._writes.close()

    def _run(self) -> None:
        while self._running:
            try:
                self._turn()
            except ClientError as error:
                self._after_failure(error)

    def _turn(self) -> None:
        self._take_answers(self._sleep_s())
        now = time.monotonic()
        with self.changed:
            self._woken = False
            self._expire(now)
            due = list(self.accumulator.due(now))
        if not due:
            return
        if self.settings.enable_idempotence and self.producer_id[0] < 0:
            self._init_producer_id()
        self._send_due(due, now)

    def _sleep_s(self) -> float:
        with self.changed:
            if self._woken:
                return 0.0
            free = not self._busy_everywhere()
            next_due = self.accumulator.next_due() if free else float("inf")
        now = time.monotonic()
        return min(max(next_due - now, 0.0), _LONGEST_SLEEP_S)

    def _busy_everywhere(self) -> bool:
        most = self.settings.max_in_flight_requests_per_connection
        return bool(self._in_flight) and all(len(f) >= most for f in self._in_flight.values())

    def _after_failure(self, error: ClientError) -> None:
        """Nothing could be sent: wait a moment; what has no time left fails with this error."""
        now = time.monotonic()
        with self.changed:
            for batch in self.accumulator.all_batches():
                age_ms = (now - batch.created_at) * 1000
                final = not error.retriable or age_ms > self.settings.delivery_timeout_ms
                if final and batch not in self.accumulator.queue(batch.partition).in_flight:
                    self.fail(batch, error)
        time.sleep(self.settings.retry_backoff_ms / 1000)

    # -- sending

    def _init_producer_id(self) -> None:
        from barnabas.wire.messages.init_producer_id import InitProducerIdRequest

        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        response = self.cluster.call_any(request, "a producer id")
        if response.error_code != ErrorCode.NONE:
            raise broker_error(response.error_code, subject="producer id")
        with self.changed:
            self.producer_id = (response.producer_id, response.producer_epoch)
            for queue in self.accumulator.queues.values():
                queue.next_sequence = 0
                for batch in queue.batches:
                    batch.base_sequence = -1

    def _send_due(self, due: list[PartitionQueue], now: float) -> None:
        self._refresh_stale(now)
        by_node: dict[int, list[PartitionQueue]] = {}
        for queue in due:
            topic, index = partition = queue.batches[0].partition
            node_id = self.cluster.metadata.leader(topic, index)
            if node_id < 0:
                self._stale.add(topic)
                with self.changed:
                    queue.batches[0].attempts = max(queue.batches[0].attempts, 1)
                    pause = self.settings.retry_backoff_ms / 1000
                    queue.batches[0].not_before = now + pause
                    self._expire_leaderless(queue.batches[0], partition, now)
                continue
            by_node.setdefault(node_id, []).append(queue)
        most = self.settings.max_in_flight_requests_per_connection
        for node_id, queues in by_node.items():
            while queues and len(self._in_flight.get(node_id, ())) < most:
                queues = self._send_request(node_id, queues)

    def _expire_leaderless(self, batch: Batch, partition: Any, now: float) -> None:
        if (now - batch.created_at) * 1000 > self.settings.delivery_timeout_ms:
            subject = f"{partition[0]}-{partition[1]}"
            self.fail(batch, broker_error(ErrorCode.LEADER_NOT_AVAILABLE, subject=subject))

    def _refresh_stale(self, now: float) -> None:
        age_ms = now * 1000 - self.cluster.metadata.updated_ms
        if age_ms > self.settings.metadata_max_age_ms:
            self._stale.update(topic for topic, _ in self.accumulator.queues)
        if not self._stale or now < self._next_refresh:
            return
        self._next_refresh = now + self.settings.retry_backoff_ms / 1000
        self.cluster.refresh(self._stale)
        self._stale.clear()

    def _send_request(self, node_id: int, queues: list[PartitionQueue]) -> list[PartitionQueue]:
        """One request with the first batch of each queue; the queues that have another one due."""
        try:
            connection = self.cluster.connection(node_id, PURPOSE)
        except ClientError:
            self._stale.update(queue.batches[0].partition[0] for queue in queues)
            raise
        flights = self._in_flight.get(node_id)
        if flights and flights[0][0] is not connection:
            # What was sent on the connection that broke must be queued again before anything else.
            self._lost(node_id, RequestTimeout("the answer to PRODUCE", 0))
            return []
        batches: list[Batch] = []
        fresh: list[Batch] = []
        size = 0
        left: list[PartitionQueue] = []
        with self.changed:
            for queue in queues:
                first = queue.batches[0]
                if batches and size + first.size > self.settings.max_request_size:
                    left.append(queue)
                    continue
                batch = self.accumulator.take(queue)
                if batch.data is None or batch.base_sequence < 0:
                    fresh.append(batch)
                self._number(batch, queue)
                batches.append(batch)
                size += batch.size
                if queue.batches and self.accumulator._due_at(queue) <= time.monotonic():
                    left.append(queue)
        for batch in fresh:
            self._seal(batch)
        return left if self._write(connection, node_id, batches) else []

    def _number(self, batch: Batch, queue: PartitionQueue) -> None:
        if self.producer_id[0] < 0 or batch.base_sequence >= 0:
            return
        batch.producer = self.producer_id
        batch.base_sequence = queue.next_sequence
        queue.next_sequence = (queue.next_sequence + batch.record_count) & SEQUENCE_MASK

    def _seal(self, batch: Batch) -> None:
        """Make the bytes of a batch, or stamp those it has with a new producer id."""
        if batch.data is not None:
            stamp_producer(batch.data, batch.producer[0], batch.producer[1], batch.base_sequence)
            return
        builder = batch.builder
        assert builder is not None
        base_timestamp, max_timestamp = builder.base_timestamp, builder.max_timestamp
        batch.data = seal_batch(
            builder.finish(),
            codec=self.codec,
            level=self.settings.compression_level,
            base_offset=0,
            partition_leader_epoch=-1,
            attributes=attributes_of(codec=self.codec),
            last_offset_delta=batch.record_count - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=batch.producer[0],
            producer_epoch=batch.producer[1],
            base_sequence=batch.base_sequence,
            record_count=batch.record_count,
        )

    def _write(self, connection: Connection, node_id: int, batches: list[Batch]) -> bool:
        """False when the connection broke; the batches are queued again then."""
        from barnabas.wire.messages import produce as api

        topics: dict[str, list[Any]] = {}
        for batch in batches:
            data = api.PartitionProduceData(index=batch.partition[1], records=batch.data)
            topics.setdefault(batch.partition[0], []).append(data)
        metadata = self.cluster.metadata
        ids = {topic: metadata.topic_id(topic) for topic in topics}
        request = api.ProduceRequest(
            acks=self.acks,
            timeout_ms=self.settings.request_timeout_ms,
            topic_data=[
                api.TopicProduceData(name=topic, topic_id=ids[topic], partition_data=partitions)
                for topic, partitions in topics.items()
            ],
        )
        highest = _LAST_VERSION_BY_NAME if ZERO in ids.values() else None
        try:
            version = connection.choose_version(request, highest)
            connection.send(request, version, batches, answered=self.acks != 0)
        except ClientError as error:
            self._retry(batches, error)
            return False
        if self.acks == 0:
            with self.changed:
                for batch in batches:
                    self._complete(batch)
            return True
        flight = (connection, time.monotonic(), batches)
        self._in_flight.setdefault(node_id, []).append(flight)
        return True

    # -- answers

    def _take_answers(self, wait_s: float) -> None:
        watched: list[Any] = [self._reads]
        connections: dict[int, Connection] = {}
        for node_id, flights in list(self._in_flight.items()):
            connection = flights[0][0]
            if connection.closed:
                self._lost(node_id, RequestTimeout("the answer to PRODUCE", 0))
                continue
            connections[node_id] = connection
            watched.append(connection)
        readable, _, _ = select.select(watched, [], [], wait_s)
        if self._reads in readable:
            try:
                self._reads.recv(4096)
            except BlockingIOError:
                pass
        for node_id, connection in connections.items():
            if connection in readable:
                self._read(node_id, connection)
            else:
                self._check_time(node_id, connection)

    def _read(self, node_id: int, connection: Connection) -> None:
        try:
            answers = connection.receive_available()
        except ClientError as error:
            self._lost(node_id, error)
            return
        for sent, response in answers:
            flights = self._in_flight[node_id]
            flights.pop(0)
            if not flights:
                del self._in_flight[node_id]
            self._handle(sent.context, response)

    def _check_time(self, node_id: int, connection: Connection) -> None:
        limit_ms = self.settings.request_timeout_ms
        if time.monotonic() - self._in_flight[node_id][0][1] > limit_ms / 1000:
            connection.close()
            waited_for = f"the answer to PRODUCE from {connection.address}"
            self._lost(node_id, RequestTimeout(waited_for, limit_ms))

    def _lost(self, node_id: int, error: ClientError) -> None:
        for _connection, _sent_at, batches in self._in_flight.pop(node_id, ()):
            self._retry(batches, error)

    def _handle(self, batches: list[Batch], response: Any) -> None:
        by_partition = {batch.partition: batch for batch in batches}
        names = self.cluster.metadata.names_by_id
        with self.changed:
            for topic in response.responses:
                name = topic.name or names.get(topic.topic_id, "")
                for answer in topic.partition_responses:
                    batch = by_partition.pop((name, answer.index), None)
                    if batch is not None:
                        self._answer(batch, answer)
        if by_partition:
            self._retry(
                list(by_partition.values()),
                broker_error(ErrorCode.UNKNOWN_TOPIC_ID, "The answer does not name the partition."),
            )

    def _answer(self, batch: Batch, answer: Any) -> None:
        code = answer.error_code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            batch.base_offset = answer.base_offset
            batch.append_time_ms = answer.log_append_time_ms
            self._complete(batch)
            return
        subject = f"{batch.partition[0]}-{batch.partition[1]}"
        error = broker_error(code, answer.error_message, subject=subject)
        batch.record_errors = {
            e.batch_index: e.batch_index_error_message or "" for e in answer.record_errors
        }
        if error.code.invalidates_metadata:
            self._stale.add(batch.partition[0])
        queue = self.accumulator.queue(batch.partition)
        earlier_pending = bool(queue.in_flight) and queue.in_flight[0] is not batch
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and (earlier_pending or queue.draining):
            self.accumulator.put_back(batch, time.monotonic())
        elif error.retriable:
            self._retry([batch], error)
        else:
            self.fail(batch, error)

    def _retry(self, batches: list[Batch], error: ClientError) -> None:
        """Queue the batches again, or fail those for which there is no time or no reason."""
        now = time.monotonic()
        pause_s = self.settings.retry_backoff_ms / 1000
        with self.changed:
            for batch in batches:
                self._stale.add(batch.partition[0])
                used_ms = (now - batch.created_at) * 1000
                gone = isinstance(error, NotFoundError) and used_ms > self.settings.max_block_ms
                if gone or not error.retriable or used_ms > self.settings.delivery_timeout_ms:
                    self.fail(batch, error)
                else:
                    most = self.settings.retry_backoff_max_ms / 1000
                    wait_s = min(pause_s * 2 ** min(batch.attempts, 10), most)
                    self.accumulator.put_back(batch, now + wait_s)

    def _expire(self, now: float) -> None:
        """Batches that waited longer than delivery.timeout.ms without being in flight."""
        limit_s = self.settings.delivery_timeout_ms / 1000
        for queue in self.accumulator.queues.values():
            while queue.batches and now - queue.batches[0].created_at > limit_s:
                batch = queue.batches[0]
                what = f"{batch.partition[0]}-{batch.partition[1]} to take {batch.record_count} records"
                self.fail(batch, RequestTimeout(what, self.settings.delivery_timeout_ms))

    def fail(self, batch: Batch, error: BaseException) -> None:
        """With the lock held: this batch will not be delivered."""
        batch.error = error
        if batch.base_sequence >= 0:
            # Later sequences of this producer id would leave a gap, so a new id starts afresh.
            self.producer_id = (-1, -1)
        self._complete(batch)

    def _complete(self, batch: Batch) -> None:
        if batch.done:
            return
        batch.done_at_ns = time.perf_counter_ns()
        batch.done = True
        self.accumulator.finish(batch)
        for index, callback in batch.callbacks:
            callback(Delivery(batch, index, -1))
        batch.callbacks = []
        self.changed.notify_all()


def stamp_producer(data: bytearray, producer_id: int, epoch: int, base_sequence: int) -> None:
    """Give a sealed batch another producer id, epoch and sequence, and the checksum that follows."""
    _PRODUCER.pack_into(data, _PRODUCER_OFFSET, producer_id, epoch, base_sequence)
    CRC.pack_into(data, CRC_OFFSET, compute_crc(data, 0, len(data)))
