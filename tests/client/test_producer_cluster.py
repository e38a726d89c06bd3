"""The producers against real brokers in this process, which restart and move leaders under load."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.client.producer import Producer
from barnabas.testing import Cluster
from tests.client.producers import KINDS, make_producer

pa = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def read_all(cluster: Cluster, topic: str, count: int) -> dict[int, list[Any]]:
    """The records of each partition, by another client than ours."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "reader",
            "enable.auto.commit": False,
        }
    )
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([confluent_kafka.TopicPartition(topic, p, 0) for p in partitions])
    found: dict[int, list[Any]] = {p: [] for p in partitions}
    left = count
    while left:
        messages = consumer.consume(min(left, 1_000), timeout=20)
        assert messages, f"{left} of {count} records are missing"
        for message in messages:
            assert message.error() is None
            found[message.partition()].append(message)
        left -= len(messages)
    assert not consumer.consume(1, timeout=0.2), "there are more records than were sent"
    consumer.close()
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_what_is_sent_can_be_read(cluster: Cluster, kind: str, compression: str) -> None:
    topic = cluster.create_topic(f"sent-{kind}-{compression}", 3)
    options = {"bootstrap_servers": cluster.bootstrap_servers, "compression_type": compression}
    with make_producer(kind, **options) as producer:
        futures = [
            producer.send(
                topic, f"v{n}", key=f"k{n % 7}", headers={"n": str(n)}, timestamp_ms=1_000 + n
            )
            for n in range(500)
        ]
        metadata = [producer.outcome(future) for future in futures]
    found = read_all(cluster, topic, 500)
    for number, (_topic, partition, offset, timestamp_ms) in enumerate(metadata):
        message = found[partition][offset]
        assert message.value() == f"v{number}".encode()
        assert message.key() == f"k{number % 7}".encode()
        assert message.headers() == [("n", str(number).encode())]
        assert message.timestamp()[1] == timestamp_ms == 1_000 + number


def test_keys_go_where_other_clients_put_them(cluster: Cluster) -> None:
    import confluent_kafka

    topic = cluster.create_topic("keys", 5)
    theirs: dict[bytes, int] = {}
    other = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "partitioner": "murmur2_random"}
    )
    keys = [b"key-%d" % n for n in range(100)]
    for key in keys:
        other.produce(
            topic, b"", key, on_delivery=lambda _e, m: theirs.update({m.key(): m.partition()})
        )
    other.flush(20)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        ours = {key: producer.send(topic, b"", key) for key in keys}
        assert {key: future.result(20).partition for key, future in ours.items()} == theirs


def test_topics_are_created_on_demand_and_log_append_time_is_told(cluster: Cluster) -> None:
    stamped = cluster.create_topic("stamped", 1, {"message.timestamp.type": "LogAppendTime"})
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        assert producer.send("made-by-send", "x").result(20).offset == 0
        assert producer.partitions_for("made-by-send") == [0]
        assert producer.send(stamped, "x", timestamp_ms=5).result(20).timestamp_ms > 1_000_000


def test_keyless_records_spread_over_all_partitions(cluster: Cluster) -> None:
    topic = cluster.create_topic("spread", 4)
    with Producer(
        bootstrap_servers=cluster.bootstrap_servers, batch_size=1_000, linger_ms=50
    ) as producer:
        futures = [producer.send(topic, "x" * 90) for _ in range(4_000)]
        counts = [0] * 4
        for future in futures:
            counts[future.result(20).partition] += 1
    assert min(counts) > 500


@pytest.mark.parametrize("kind", KINDS)
def test_tables(cluster: Cluster, kind: str) -> None:
    topic = cluster.create_topic(f"tables-{kind}", 3)
    count = 10_000
    table = pa.table(
        {
            "key": pa.chunked_array(
                [[f"k{n}" for n in range(4_000)], [f"k{n}" for n in range(4_000, count)]]
            ),
            "value": pa.array([None if n % 10 == 0 else b"v%d" % n for n in range(count)]),
            "timestamp": pa.array(range(count)).cast(pa.timestamp("ms")),
            "headers": pa.array(
                [[{"key": "h", "value": b"1"}] if n == 17 else [] for n in range(count)],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
    )
    with make_producer(
        kind,
        bootstrap_servers=cluster.bootstrap_servers,
        batch_size=2_000,
        buffer_memory=100_000,
    ) as producer:
        assert producer.outcome(producer.send_arrow(topic, table.slice(3)), 20) == count - 3
        with pytest.raises(Exception, match="binary"):
            producer.send_arrow(topic, pa.table({"value": [1, 2]}))
    found = read_all(cluster, topic, count - 3)
    seen = 0
    for messages in found.values():
        order = [message.timestamp()[1] for message in messages]
        assert order == sorted(order)
        for message in messages:
            number = message.timestamp()[1]
            assert message.key() == f"k{number}".encode()
            assert message.value() == (None if number % 10 == 0 else b"v%d" % number)
            assert message.headers() == ([("h", b"1")] if number == 17 else None)
            seen += 1
    assert seen == count - 3


Progress = Callable[[int], None]


def under_load(
    cluster: Cluster, topic: str, trouble: Callable[[Progress], None], **options: Any
) -> None:
    """Several threads send while there is trouble; everything arrives once and in order."""
    stop = threading.Event()
    sent: list[list[Any]] = [[], [], []]

    def send(thread: int) -> None:
        number = 0
        while not stop.is_set():
            sent[thread].append(producer.send(topic, b"%d-%d" % (thread, number), str(thread)))
            number += 1
            if number % 50 == 0:
                stop.wait(0.005)

    with Producer(
        bootstrap_servers=cluster.bootstrap_servers, batch_size=500, linger_ms=2, **options
    ) as producer:

        def progress(count: int) -> None:
            """Return when so many more records are acknowledged."""
            total = acknowledged() + count
            deadline = time.monotonic() + 60
            while acknowledged() < total:
                assert time.monotonic() < deadline
                stop.wait(0.01)

        def acknowledged() -> int:
            found: int = producer.metrics()["producer-metrics"]["record-send-total"]
            return found

        threads = [threading.Thread(target=send, args=(thread,)) for thread in range(3)]
        for thread in threads:
            thread.start()
        trouble(progress)
        stop.set()
        for thread in threads:
            thread.join(60)
        producer.flush(60)
        for futures in sent:
            assert futures
            assert all(future.exception(0) is None for future in futures)
    found = read_all(cluster, topic, sum(map(len, sent)))
    for thread, futures in enumerate(sent):
        prefix = b"%d-" % thread
        values = [
            message.value()
            for messages in found.values()
            for message in messages
            if message.value().startswith(prefix)
        ]
        assert values == [prefix + b"%d" % number for number in range(len(futures))]


def test_a_broker_restarts_under_load() -> None:
    with Cluster() as cluster:
        topic = cluster.create_topic("restarted", 3)

        def trouble(progress: Progress) -> None:
            for _ in range(2):
                progress(500)
                cluster.restart()
            progress(500)

        under_load(cluster, topic, trouble)


def test_leaders_move_under_load() -> None:
    quick = {"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 200}
    with Cluster(nodes=3, overrides=quick) as cluster:
        topic = cluster.create_topic("moved", 3, {"min.insync.replicas": 2})

        def trouble(progress: Progress) -> None:
            progress(500)
            for partition in range(2):
                leader = cluster.leader_of(topic, partition)
                cluster.kill(leader)
                progress(500)
                cluster.start_node(leader)
                progress(500)

        under_load(cluster, topic, trouble)
