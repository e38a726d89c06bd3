"""The consumers against Barnabas, today's Apache Kafka and an old one: what is there is what is read.

Most of it was written by librdkafka. `poll_arrow` must say the same as `poll`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer as ConfluentProducer

from barnabas.client.errors import OffsetOutOfRangeError
from tests.peers.clients import ALL_CODECS, CLIENTS, Record
from tests.peers.python.targets import Target
from tests.peers.topics import create_topic

Make = Callable[..., Any]
READ_S = 20.0
START_MS = 1_700_000_000_000


def write(target: Target, topic: str, records: Sequence[Record], codec: str = "none") -> None:
    CLIENTS["confluent"].produce(target.bootstrap, topic, list(records), codec=codec)


def numbered(count: int, partition: int = 0) -> list[Record]:
    return [
        Record(partition, b"k%d" % i, b"v%d" % i, timestamp=START_MS + i * 10) for i in range(count)
    ]


def take(consumer: Any, count: int) -> list[Any]:
    """At least `count` records."""
    found: list[Any] = []
    deadline = time.monotonic() + READ_S
    while len(found) < count:
        found += consumer.poll(1.0)
        assert time.monotonic() < deadline, f"{len(found)} of {count}"
    return found


def columns(consumer: Any, count: int) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    deadline = time.monotonic() + READ_S
    while len(rows) < count:
        batch = consumer.poll_arrow(1.0)
        rows += [
            (r["partition"], r["offset"], r["key"], r["value"], _headers(r["headers"]))
            for r in batch.to_pylist()
        ]
        assert time.monotonic() < deadline, f"{len(rows)} of {count}"
    return rows


def _headers(found: Any) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((h["key"], h["value"]) if isinstance(h, dict) else tuple(h) for h in found or ())


def reader(make: Make, topic: str, partitions: Sequence[int] = (0,), **options: Any) -> Any:
    consumer = make("Consumer", **{"auto_offset_reset": "earliest", **options})
    consumer.assign([(topic, index) for index in partitions])
    return consumer


def test_every_codec_as_records_and_as_columns(make: Make, target: Target, name: str) -> None:
    create_topic(target.bootstrap, name, len(ALL_CODECS))
    headers = (("trace", b"a"), ("null", None), ("trace", b""))
    for partition, codec in enumerate(ALL_CODECS):
        records = [
            Record(partition, None, b"null key", headers),
            Record(partition, b"tombstone", None),
            *(Record(partition, b"%d" % i, b"filling " * 20 + b"%d" % i) for i in range(300)),
        ]
        write(target, name, records, codec)
    count = 302 * len(ALL_CODECS)
    every = range(len(ALL_CODECS))
    found = sorted(take(reader(make, name, every), count), key=lambda r: (r.partition, r.offset))
    assert [r.offset for r in found] == [*range(302)] * len(ALL_CODECS)
    assert found[0].headers == headers
    assert (found[0].key, found[1].value) == (None, None)
    assert found[301].value == b"filling " * 20 + b"299"
    assert found[0].serialized_value_size == len(b"null key")
    assert all(r.topic == name and r.timestamp > 0 for r in found)
    pytest.importorskip("pyarrow")
    rows = sorted(columns(reader(make, name, every), count), key=lambda row: row[:2])
    assert rows == [(r.partition, r.offset, r.key, r.value, r.headers) for r in found]


def test_positions(make: Make, target: Target, name: str) -> None:
    create_topic(target.bootstrap, name, 2)
    write(target, name, [*numbered(100), *numbered(50, partition=1)])
    first, second = (name, 0), (name, 1)
    consumer = reader(make, name, [0, 1])
    assert consumer.beginning_offsets([first, second]) == {first: 0, second: 0}
    assert consumer.end_offsets([first, second]) == {first: 100, second: 50}
    times = consumer.offsets_for_times({first: START_MS + 495, second: START_MS + 10_000})
    assert times[first].offset == 50
    assert times[second] is None
    assert consumer.partitions_for(name) == [0, 1]

    consumer.pause([second])
    consumer.seek(first, 90)
    assert [r.offset for r in take(consumer, 10)] == list(range(90, 100))
    assert consumer.position(first) == 100
    assert consumer.lag(first) == 0
    assert consumer.paused() == {second}
    consumer.resume([second])
    assert [r.offset for r in take(consumer, 50)] == list(range(50))
    consumer.seek_to_end([first])
    consumer.seek_to_beginning([second])
    assert [r[1] for r in columns(consumer, 50)] == list(range(50))
    write(target, name, [Record(0, None, b"new")])
    assert [(r.offset, r.value) for r in take(consumer, 1)] == [(100, b"new")]


@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
def test_a_position_that_is_out_of_range(make: Make, target: Target, name: str, reset: str) -> None:
    create_topic(target.bootstrap, name, 1)
    write(target, name, numbered(10))
    consumer = reader(make, name, auto_offset_reset=reset)
    consumer.seek((name, 0), 1_000)
    if reset == "none":
        with pytest.raises(OffsetOutOfRangeError) as caught:
            take(consumer, 1)
        assert name in str(caught.value)
        consumer.seek((name, 0), 9)
        assert [r.offset for r in take(consumer, 1)] == [9]
    elif reset == "earliest":
        assert take(consumer, 10)[0].offset == 0
    else:
        assert consumer.poll(0.5) == []
        write(target, name, numbered(1))
        assert take(consumer, 1)[0].offset == 10


def test_iteration(make: Make, target: Target, name: str) -> None:
    create_topic(target.bootstrap, name, 1)
    write(target, name, numbered(25))
    consumer = reader(make, name, max_poll_records=10)
    offsets = []
    for record in consumer:
        offsets.append(record.offset)
        if record.offset == 24:
            break
    assert offsets == list(range(25))


def test_compaction_leaves_gaps(
    make: Make, target: Target, name: str, eventually: Callable[..., None]
) -> None:
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": "1048576",
        "min.cleanable.dirty.ratio": "0.01",
    }
    create_topic(target.bootstrap, name, 1, config)
    producer = confluent(target)
    for turn in range(300):  # a little more than one segment: what is active is never compacted
        producer.produce(name, b"%d" % turn + bytes(4_000), b"k%d" % (turn % 3), partition=0)
    producer.flush(READ_S)
    consumer = reader(make, name)

    def has_gaps() -> bool:
        consumer.seek_to_beginning([(name, 0)])
        found = []
        while not found or found[-1].offset < 299:
            found += consumer.poll(1.0)
        offsets = [r.offset for r in found]
        assert offsets == sorted(set(offsets))
        assert found[-1].value.startswith(b"299")
        return len(offsets) < 300

    eventually(has_gaps)
    consumer.seek((name, 0), 1)  # most likely in a gap: what comes is what follows
    assert take(consumer, 1)[0].offset >= 1


def confluent(target: Target, **more: Any) -> ConfluentProducer:
    return ConfluentProducer({"bootstrap.servers": target.bootstrap, "linger.ms": 5, **more})


def test_transactions_are_read_as_asked(make: Make, target: Target, name: str) -> None:
    if target.own:
        pytest.skip("Barnabas has no transaction coordinator yet")
    create_topic(target.bootstrap, name, 1)
    producer = confluent(target, **{"transactional.id": name})
    producer.init_transactions(READ_S)
    for turn in range(6):
        producer.begin_transaction()
        for i in range(5):
            producer.produce(name, b"%d-%d" % (turn, i), partition=0)
        producer.flush(READ_S)
        if turn % 2:
            producer.abort_transaction(READ_S)
        else:
            producer.commit_transaction(READ_S)
    committed = [b"%d-%d" % (turn, i) for turn in (0, 2, 4) for i in range(5)]
    every = [b"%d-%d" % (turn, i) for turn in range(6) for i in range(5)]

    careful = reader(make, name, isolation_level="read_committed")
    assert [r.value for r in take(careful, 15)] == committed
    assert careful.position((name, 0)) <= 36
    again = reader(make, name, isolation_level="read_committed")
    assert [row[3] for row in columns(again, 15)] == committed
    assert [r.value for r in take(reader(make, name), 30)] == every

    producer.begin_transaction()
    producer.produce(name, b"open", partition=0)
    producer.flush(READ_S)
    assert careful.poll(0.3) == []
    producer.commit_transaction(READ_S)
    assert [r.value for r in take(careful, 1)] == [b"open"]


def test_a_topic_that_is_made_later_is_read_then(make: Make, target: Target, name: str) -> None:
    consumer = reader(make, name, allow_auto_create_topics=False)
    assert consumer.poll(0.3) == []
    create_topic(target.bootstrap, name, 1)
    write(target, name, numbered(10))
    assert [r.offset for r in take(consumer, 10)] == list(range(10))
