"""The producers against Barnabas, today's Apache Kafka and an old one: what is sent is what is there.

What was written is read back by librdkafka, which knows nothing of this project.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from barnabas.client.errors import BrokerError, ClientError
from barnabas.record.batch import TimestampType
from tests.peers.clients import ALL_CODECS, CLIENTS, Record
from tests.peers.python.targets import Target
from tests.peers.topics import create_topic

Make = Callable[..., Any]
SENT_S = 20.0


def read(target: Target, topic: str, count: int) -> list[Record]:
    return CLIENTS["confluent"].consume(target.bootstrap, topic, count)


def results(futures: Iterable[Any]) -> list[Any]:
    return [future.result(SENT_S) for future in futures]


@pytest.mark.parametrize("idempotent", [True, False])
def test_every_codec(make: Make, target: Target, name: str, idempotent: bool) -> None:
    create_topic(target.bootstrap, name, len(ALL_CODECS))
    options = {} if idempotent else {"max_in_flight_requests_per_connection": 1}  # keeps the order
    for partition, codec in enumerate(ALL_CODECS):
        producer = make(
            "Producer", compression_type=codec, enable_idempotence=idempotent, **options
        )
        sent = [
            producer.send(name, b"filling " * 20 + b"%d" % i, b"k", partition=partition)
            for i in range(300)
        ]
        assert [r.offset for r in results(sent)] == list(range(300))
    found = read(target, name, 300 * len(ALL_CODECS))
    for partition in range(len(ALL_CODECS)):
        values = [r.value for r in found if r.partition == partition]
        assert values == [b"filling " * 20 + b"%d" % i for i in range(300)]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(make: Make, target: Target, name: str, acks: str) -> None:
    create_topic(target.bootstrap, name, 1)
    producer = make("Producer", acks=acks)
    told = results([producer.send(name, b"%d" % i, partition=0) for i in range(50)])
    assert [r.offset for r in told] == ([-1] * 50 if acks == "0" else list(range(50)))
    assert [r.value for r in read(target, name, 50)] == [b"%d" % i for i in range(50)]


def test_keys_headers_nulls_and_timestamps(make: Make, target: Target, name: str) -> None:
    create_topic(target.bootstrap, name, 1)
    now = int(time.time() * 1000)
    headers = (("trace", b"a"), ("trace", b"b"), ("empty", b""), ("null", None), ("clé", b"\xff"))
    records = [
        Record(0, b"k", b"v", headers, now - 5_000, 0),
        Record(0, b"tombstone", None, (), now - 9_000, 1),
        Record(0, None, b"", (), now, 2),
        Record(0, b"", b"no key but an empty one", (), now + 1, 3),
    ]
    producer = make("Producer")
    told = results(
        producer.send(
            name, r.value, r.key, partition=0, headers=r.headers, timestamp_ms=r.timestamp
        )
        for r in records
    )
    assert [(r.topic, r.partition) for r in told] == [(name, 0)] * 4
    assert [r.timestamp_ms for r in told] == [r.timestamp for r in records]
    assert read(target, name, 4) == records


def test_the_brokers_time_is_told(make: Make, target: Target, name: str) -> None:
    config = {"message.timestamp.type": "LogAppendTime"}
    create_topic(target.bootstrap, name, 1, config)
    before = int(time.time() * 1000)
    producer = make("Producer", compression_type="gzip")
    told = results(producer.send(name, b"x", partition=0, timestamp_ms=1_000) for _ in range(3))
    assert all(before <= r.timestamp_ms <= before + 60_000 for r in told)
    assert [r.timestamp for r in read(target, name, 3)] == [r.timestamp_ms for r in told]
    consumer = make("Consumer", auto_offset_reset="earliest")
    consumer.assign([(name, 0)])
    found: list[Any] = []
    while len(found) < 3:
        found += consumer.poll(5.0)
    assert {r.timestamp_type for r in found} == {TimestampType.LOG_APPEND_TIME}
    assert [r.timestamp for r in found] == [r.timestamp_ms for r in told]


def test_keys_go_where_javas_partitioner_puts_them(make: Make, target: Target, name: str) -> None:
    create_topic(target.bootstrap, name, 7)
    producer = make("Producer")
    assert producer.partitions_for(name) == list(range(7))
    keys = [b"", b"21", b"foobar", b"a-little-bit-long-string", "ключ".encode()]
    told = results(producer.send(name, b"x", key) for key in keys)
    # murmur2 of these keys as Apache's own tests have it
    hashes = [275646681, -973932308, -790332482, -985981536]
    assert [r.partition for r in told[:4]] == [(h & 0x7FFFFFFF) % 7 for h in hashes]


def test_a_batch_that_is_too_large_for_the_topic_is_split(
    make: Make, target: Target, name: str
) -> None:
    create_topic(target.bootstrap, name, 1, {"max.message.bytes": "20000"})
    producer = make("Producer", batch_size=200_000, linger_ms=200)
    values = [b"%04d" % i + bytes(996) for i in range(150)]
    sent = [producer.send(name, value, partition=0) for value in values]
    assert [r.offset for r in results(sent)] == list(range(150))
    assert [r.value for r in read(target, name, 150)] == values

    alone = producer.send(name, bytes(30_000), partition=0)
    with pytest.raises(BrokerError) as caught:
        alone.result(SENT_S)
    assert caught.value.code.name == "MESSAGE_TOO_LARGE"
    assert producer.send(name, b"and on", partition=0).result(SENT_S).offset == 150


def test_large_records(make: Make, target: Target, name: str) -> None:
    create_topic(target.bootstrap, name, 1, {"max.message.bytes": "12000000"})
    producer = make("Producer", max_request_size=12_000_000, buffer_memory=64_000_000)
    values = [bytes([i]) * (3_000_000 + i) for i in range(4)]
    results([producer.send(name, value, partition=0) for value in values])
    assert [hash(r.value) for r in read(target, name, 4)] == [hash(v) for v in values]
    consumer = make("Consumer", auto_offset_reset="earliest")
    consumer.assign([(name, 0)])
    found: list[Any] = []
    while len(found) < 4:
        found += consumer.poll(5.0)
    assert [hash(r.value) for r in found] == [hash(v) for v in values]


def test_mistakes_are_told_at_the_call_and_lose_nothing(
    make: Make, target: Target, name: str
) -> None:
    create_topic(target.bootstrap, name, 2)
    producer = make("Producer", linger_ms=300, max_request_size=50_000, max_block_ms=2_000)
    producer.send(name, b"warm", partition=0).result(SENT_S)
    good = [producer.send(name, b"%d" % i, partition=0) for i in range(10)]
    for wrong in (
        {"value": bytes(60_000), "partition": 0},
        {"value": object(), "partition": 0},
        {"value": b"x", "partition": 2},
        {"value": b"x", "partition": -2},
        {"value": b"x", "headers": [("a", 3.5)]},
    ):
        with pytest.raises((ClientError, ValueError, TypeError)) as caught:
            producer.send(name, **wrong).result(SENT_S)
        assert str(caught.value)
    assert [r.offset for r in results(good)] == list(range(1, 11))


def test_columns_are_written(make: Make, target: Target, name: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    create_topic(target.bootstrap, name, 1)
    producer = make("Producer", compression_type="zstd")
    values = [b"%d" % i for i in range(2_000)]
    keys = [None if i % 3 == 0 else b"k%d" % i for i in range(2_000)]
    table = pyarrow.table(
        {
            "key": pyarrow.array(keys, pyarrow.binary()),
            "value": pyarrow.array(values, pyarrow.binary()),
            "partition": pyarrow.array([0] * 2_000, pyarrow.int32()),
        }
    )
    producer.send_arrow(name, table)
    producer.flush()
    found = read(target, name, 2_000)
    assert [(r.key, r.value) for r in found] == list(zip(keys, values, strict=True))
