"""Barnabas's own clients as a load: producers that write an endless count, groups that read it.

`OwnLoad` has the face of `test_crash.Load`, `OwnGroup` that of `chaos.Group`. A group judges while it
reads: the number in a record must be its offset, no offset may be passed over, and after a rebalance it
goes on where it last committed, never before.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from barnabas.client.async_producer import AsyncProducer
from barnabas.client.consumer import AsyncConsumer, Consumer
from barnabas.client.errors import ClientError
from barnabas.client.producer import Producer
from tests.peers.test_crash import PARTITIONS

KINDS = ("plain", "asyncio")
QUICK = {
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
    "reconnect.backoff.max.ms": 100,
    "request.timeout.ms": 1_500,
    "socket.connection.setup.timeout.ms": 1_000,
}
PRODUCER = {**QUICK, "delivery.timeout.ms": 100_000, "linger.ms": 2, "batch.size": 20_000}
CONSUMER = {
    **QUICK,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "heartbeat.interval.ms": 300,
    "session.timeout.ms": 10_000,
    "max.poll.interval.ms": 20_000,
    "default.api.timeout.ms": 3_000,
}
OUTSTANDING = 600
PAUSE_S = 0.02
POLL_S = 0.1
STOP_S = 60.0


class OwnLoad:
    """A producer in a thread that writes an endless count to each partition."""

    def __init__(self, bootstrap: str, topic: str, kind: str) -> None:
        self.acknowledged: dict[int, list[tuple[int, int]]] = {p: [] for p in range(PARTITIONS)}
        self.failed: list[str] = []
        self.topic = topic
        self.sent = 0
        self.stopping = threading.Event()
        self.options = {"bootstrap.servers": bootstrap, **PRODUCER}
        self.thread = threading.Thread(target=self._run, args=(kind,), daemon=True)
        self.thread.start()

    def _run(self, kind: str) -> None:
        try:
            if kind == "plain":
                self._write()
            else:
                asyncio.run(self._write_on_a_loop())
        except Exception as error:
            self.failed.append(f"the {kind} producer ended: {error!r}")

    def _write(self) -> None:
        with Producer(self.options) as producer:
            while not self.stopping.wait(PAUSE_S):
                if self.sent - self.done() < OUTSTANDING:
                    for partition, value in self._next():
                        producer.send(
                            self.topic, value, partition=partition, on_delivery=self.told(value)
                        )

    async def _write_on_a_loop(self) -> None:
        async with AsyncProducer(self.options) as producer:
            while not self.stopping.is_set():
                await asyncio.sleep(PAUSE_S)
                if self.sent - self.done() < OUTSTANDING:
                    for partition, value in self._next():
                        await producer.send(
                            self.topic, value, partition=partition, on_delivery=self.told(value)
                        )

    def _next(self) -> list[tuple[int, bytes]]:
        """The next ten numbers for each partition."""
        first = self.sent // PARTITIONS
        self.sent += 10 * PARTITIONS
        return [
            (partition, b"%d" % number + b"." * 200)
            for number in range(first, first + 10)
            for partition in range(PARTITIONS)
        ]

    def told(self, value: bytes) -> Any:
        number = int(value.split(b".", 1)[0])

        def delivered(record: Any, error: ClientError | None) -> None:
            if error is not None:
                self.failed.append(str(error))
            else:
                self.acknowledged[record.partition].append((record.offset, number))

        return delivered

    def done(self) -> int:
        return self.total() + len(self.failed)

    def total(self) -> int:
        return sum(len(found) for found in self.acknowledged.values())

    def stop(self) -> None:
        """Close the producer, which waits until everything is acknowledged."""
        self.stopping.set()
        self.thread.join(STOP_S)
        assert not self.thread.is_alive()
        assert self.done() == self.sent, (self.topic, self.done(), self.sent, self.failed[:5])


class OwnGroup:
    """A member of a group in a thread; it commits whatever it has read."""

    def __init__(self, bootstrap: str, topic: str, kind: str) -> None:
        self.topic = topic
        self.commits = 0
        self.failed: list[str] = []
        self.committed: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
        self._expected: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
        self.stopping = threading.Event()
        self.options = {"bootstrap.servers": bootstrap, "group.id": topic, **CONSUMER}
        self.thread = threading.Thread(target=self._run, args=(kind,), daemon=True)
        self.thread.start()

    def _run(self, kind: str) -> None:
        try:
            if kind == "plain":
                self._read()
            else:
                asyncio.run(self._read_on_a_loop())
        except Exception as error:
            self.failed.append(f"the {kind} consumer ended: {error!r}")

    def _read(self) -> None:
        with Consumer(self.options) as consumer:
            consumer.subscribe([self.topic])
            while not self.stopping.is_set():
                if self._judge(consumer.poll(POLL_S)):
                    try:
                        consumer.commit()
                    except ClientError as error:
                        self._told(error)
                    else:
                        self._have_committed()

    async def _read_on_a_loop(self) -> None:
        async with AsyncConsumer(self.options) as consumer:
            consumer.subscribe([self.topic])
            while not self.stopping.is_set():
                if self._judge(await consumer.poll(POLL_S)):
                    try:
                        await consumer.commit()
                    except ClientError as error:
                        self._told(error)
                    else:
                        self._have_committed()

    def _judge(self, records: list[Any]) -> bool:
        for record in records:
            partition, offset = record.partition, record.offset
            expected = self._expected[partition]
            if offset != expected and not self.committed[partition] <= offset < expected:
                self.failed.append(f"{partition}: offset {offset} came, {expected} was due")
            if int(record.value.split(b".", 1)[0]) != offset:
                self.failed.append(f"{partition}: {record.value[:12]!r} at offset {offset}")
            self._expected[partition] = offset + 1
        return bool(records)

    def _told(self, error: ClientError) -> None:
        """A commit while the coordinator moves or the group changes may fail; it is tried again."""
        if type(error) is ClientError:
            self.failed.append(str(error))

    def _have_committed(self) -> None:
        self.committed.update(self._expected)
        self.commits += 1

    def stop(self) -> dict[int, int]:
        """The offsets that were committed last."""
        self.stopping.set()
        self.thread.join(STOP_S)
        assert not self.thread.is_alive()
        assert not self.failed, (self.topic, self.failed[:5])
        return dict(self.committed)
