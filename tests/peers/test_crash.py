"""SIGKILL under load: every acknowledged record is there afterwards, once, and in order.

Several rounds on one data directory. A process that is killed loses nothing the operating system
was given, so this holds for the default flush policy. The producers run on through the outage and
retry; idempotence is what keeps a retried batch from appearing twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.peers import jvm, systems
from tests.peers.clients import CLIENTS, Record
from tests.peers.topics import create_topic

ROUNDS = 3
PARTITIONS = 3
RUN_S = 0.8


@pytest.fixture
def system(tmp_path: Path) -> Iterator[systems.System]:
    if (reason := systems.missing()) is not None:
        pytest.skip(reason)
    running = systems.start_system(
        tmp_path / "node", {"log.segment.bytes": "1048576", "offsets.topic.num.partitions": "1"}
    )
    yield running
    running.kill()


class Load:
    """A producer in a thread that writes an endless count to each partition."""

    def __init__(self, bootstrap: str, topic: str, **config: Any) -> None:
        self.acknowledged: dict[int, list[tuple[int, int]]] = {p: [] for p in range(PARTITIONS)}
        self.failed: list[str] = []
        self.stopping = threading.Event()
        self.topic = topic
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 2, "acks": "all",
                    "delivery.timeout.ms": 100_000, "reconnect.backoff.max.ms": 100,
                    "retry.backoff.ms": 20, "batch.size": 20_000,
                    **{key.replace("_", "."): value for key, value in config.items()}}  # fmt: skip
        self.producer = Producer(settings)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        count = 0
        while not self.stopping.is_set():
            for partition in range(PARTITIONS):
                try:
                    self.producer.produce(
                        self.topic,
                        b"%d" % count + b"." * 200,
                        partition=partition,
                        on_delivery=self.delivered,
                    )
                except BufferError:
                    self.producer.poll(0.05)
            count += 1
            self.producer.poll(0)
            if len(self.producer) > 5000:
                self.producer.poll(0.05)

    def delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(error.name())
        else:
            number = int(message.value().split(b".", 1)[0])
            self.acknowledged[message.partition()].append((message.offset(), number))

    def total(self) -> int:
        return sum(len(found) for found in self.acknowledged.values())

    def stop(self) -> None:
        self.stopping.set()
        self.thread.join()
        assert self.producer.flush(60) == 0


def read_all(bootstrap: str, topic: str) -> dict[int, dict[int, int]]:
    """Partition -> offset -> the number that was written there."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader",
                         "queued.min.messages": 1_000_000})  # fmt: skip
    ends = {
        p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=20)[1]
        for p in range(PARTITIONS)
    }
    consumer.assign([TopicPartition(topic, p, 0) for p in ends])
    found: dict[int, dict[int, int]] = {p: {} for p in ends}
    deadline = time.monotonic() + 60
    while any(len(found[p]) < ends[p] for p in ends) and time.monotonic() < deadline:
        for message in consumer.consume(10_000, 0.2):
            assert message.error() is None, message.error()
            number = int(message.value().split(b".", 1)[0])
            found[message.partition()][message.offset()] = number
    consumer.close()
    assert {p: len(found[p]) for p in found} == ends
    return found


def crash_rounds(system: systems.System, load: Load) -> None:
    for _ in range(ROUNDS):
        before = load.total()
        deadline = time.monotonic() + 60
        while load.total() < before + 300 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(RUN_S)
        system.kill()
        system.restart()
    load.stop()
    assert load.total() > 300 * ROUNDS


def test_idempotent_producer_through_crashes(system: systems.System) -> None:
    create_topic(system.bootstrap, "crash", PARTITIONS)
    load = Load(system.bootstrap, "crash", enable_idempotence=True)
    crash_rounds(system, load)
    assert load.failed == []
    found = read_all(system.bootstrap, "crash")
    for partition, acknowledged in load.acknowledged.items():
        for offset, number in acknowledged:
            assert found[partition][offset] == number
        numbers = [found[partition][offset] for offset in sorted(found[partition])]
        assert numbers == list(range(len(numbers)))


def test_plain_producers_through_crashes(system: systems.System) -> None:
    """Without idempotence a retry may repeat a record; an acknowledged one must still be there."""
    for topic, config in (("one", {"acks": "1"}), ("all", {"compression.type": "lz4"})):
        create_topic(system.bootstrap, topic, PARTITIONS)
        load = Load(system.bootstrap, topic, enable_idempotence=False, **config)
        before = time.monotonic()
        while load.total() < 300 and time.monotonic() < before + 60:
            time.sleep(0.01)
        time.sleep(RUN_S)
        system.kill()
        system.restart()
        load.stop()
        found = read_all(system.bootstrap, topic)
        for partition, acknowledged in load.acknowledged.items():
            for offset, number in acknowledged:
                assert offset < 0 or found[partition][offset] == number
            written = set(found[partition].values())
            assert {number for _, number in acknowledged} <= written


def test_groups_and_offsets_survive_a_crash(system: systems.System) -> None:
    from confluent_kafka import Consumer, TopicPartition

    create_topic(system.bootstrap, "t", PARTITIONS, {"retention.ms": "123456789"})
    CLIENTS["confluent"].produce(system.bootstrap, "t", [Record(0, None, b"v")] * 20)
    settings = {"bootstrap.servers": system.bootstrap, "group.id": "g"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.assign([TopicPartition("t", 0)])
    for offset in range(20):
        consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
    system.kill()
    system.restart()
    assert consumer.committed([TopicPartition("t", 0)], timeout=20)[0].offset == 19
    consumer.close()


@pytest.mark.skipif(jvm.missing() is not None, reason=str(jvm.missing()))
def test_java_producer_through_a_crash(system: systems.System) -> None:
    """The Java producer is asked to write while the broker dies under it."""
    create_topic(system.bootstrap, "java", 1)
    records = [Record(0, None, b"%d" % n + b"." * 500) for n in range(20_000)]
    thread = threading.Thread(
        target=lambda: CLIENTS["java"].produce(system.bootstrap, "java", records, idempotent=True)
    )
    thread.start()
    deadline = time.monotonic() + 30
    segment = system.data_dir / "java-0" / f"{0:020}.log"
    while segment.stat().st_size < 100_000 and time.monotonic() < deadline:
        time.sleep(0.002)
    system.kill()
    system.restart()
    thread.join(60)
    assert not thread.is_alive()
    found = CLIENTS["confluent"].consume(system.bootstrap, "java", len(records))
    assert [r.value for r in found] == [r.value for r in records]
    assert [r.offset for r in found] == list(range(len(records)))
