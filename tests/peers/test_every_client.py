"""Every client library writes, every client library reads what each of them wrote.

One topic a writer, one partition a codec. A reader must see the same keys, values, headers,
timestamps and offsets whoever wrote them and however they were compressed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.peers.clients import ALL_CODECS, CLIENTS, Client, Record
from tests.peers.topics import create_topic

START_MS = int(time.time() * 1000) - 60_000
Written = dict[str, tuple[str, list[Record]]]


def sample(client: Client, partition: int) -> list[Record]:
    """Records at the edge of what the client can say, and some filling to make compression pay."""
    headers = (("trace", b"a1"), ("trace", b"a2"), ("empty", b""))
    if client.null_header_values:
        headers = (*headers, ("null", None))
    if not client.headers_per_record:
        headers = (("trace", b"a1"), ("other", b"b"))
    empty = None if not client.headers_per_record else b""
    records = [
        Record(partition, None, b"null key", headers),
        Record(partition, b"null value", None, headers),
        Record(partition, b"empty value", empty, headers),
        Record(partition, "clé".encode(), "valeur ☕".encode(), headers),
    ]
    records += [Record(partition, b"%d" % i, b"filling " * 20 + b"%d" % i) for i in range(60)]
    if client.sets_timestamps:
        records = [replace(r, timestamp=START_MS + i * 7) for i, r in enumerate(records)]
    return records


@pytest.fixture(scope="module")
def written() -> Written:
    return {}


@pytest.fixture
def writing(bootstrap: str, written: Written) -> Callable[[Client], tuple[str, list[Record]]]:
    """What one client wrote, written on first use."""

    def write(client: Client) -> tuple[str, list[Record]]:
        if client.name not in written:
            topic = f"every-client-{client.name}"
            create_topic(bootstrap, topic, len(ALL_CODECS))
            expected = []
            for codec in client.codecs:
                records = sample(client, ALL_CODECS.index(codec))
                client.produce(bootstrap, topic, records, codec=codec)
                expected += [replace(r, offset=i) for i, r in enumerate(records)]
            written[client.name] = (topic, expected)
        return written[client.name]

    return write


def need(client: Client) -> None:
    if (reason := client.missing()) is not None:
        pytest.skip(reason)


def in_order(records: list[Record], *, timestamps: bool) -> dict[int, list[Record]]:
    """By partition, in the order of arrival; header order between different keys is not compared
    because one library keeps headers in a map."""
    result: dict[int, list[Record]] = {}
    for record in records:
        record = replace(
            record,
            headers=tuple(sorted(record.headers, key=lambda pair: pair[0])),
            timestamp=record.timestamp if timestamps else None,
        )
        result.setdefault(record.partition, []).append(record)
    return result


@pytest.mark.parametrize("reader", CLIENTS)
@pytest.mark.parametrize("writer", CLIENTS)
def test_each_reads_what_each_wrote(
    writer: str,
    reader: str,
    bootstrap: str,
    writing: Callable[[Client], tuple[str, list[Record]]],
) -> None:
    need(CLIENTS[writer])
    need(CLIENTS[reader])
    topic, expected = writing(CLIENTS[writer])
    found = CLIENTS[reader].consume(bootstrap, topic, len(expected))
    timestamps = CLIENTS[writer].sets_timestamps
    assert in_order(found, timestamps=timestamps) == in_order(expected, timestamps=timestamps)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("writer", CLIENTS)
def test_acks(writer: str, acks: str, bootstrap: str, name: str) -> None:
    client = CLIENTS[writer]
    need(client)
    create_topic(bootstrap, name, 1)
    records = [Record(0, b"k%d" % i, b"v%d" % i) for i in range(50)]
    client.produce(bootstrap, name, records, acks=acks)
    found = CLIENTS["confluent"].consume(bootstrap, name, len(records))
    assert [(r.key, r.value) for r in found] == [(r.key, r.value) for r in records]


@pytest.mark.parametrize("writer", CLIENTS)
def test_idempotent_producer(writer: str, bootstrap: str, name: str) -> None:
    client = CLIENTS[writer]
    need(client)
    create_topic(bootstrap, name, 2)
    records = [Record(i % 2, None, b"v%d" % i) for i in range(200)]
    client.produce(bootstrap, name, records, idempotent=True)
    found = CLIENTS["confluent"].consume(bootstrap, name, len(records))
    by_partition = in_order(found, timestamps=False)
    for partition in range(2):
        values = [r.value for r in by_partition[partition]]
        assert values == [r.value for r in records if r.partition == partition]
        assert [r.offset for r in by_partition[partition]] == list(range(100))


@pytest.mark.parametrize("writer", [name for name in CLIENTS if name != "kcat"])
def test_a_topic_appears_when_it_is_written_to(writer: str, bootstrap: str, name: str) -> None:
    client = CLIENTS[writer]
    need(client)
    client.produce(bootstrap, name, [Record(0, b"k", b"v")])
    found = CLIENTS["confluent"].consume(bootstrap, name, 1)
    assert [(r.key, r.value, r.offset) for r in found] == [(b"k", b"v", 0)]


@pytest.mark.parametrize("client", [name for name in CLIENTS if name != "kcat"])
def test_big_messages(client: str, bootstrap: str, name: str) -> None:
    """Larger than every fetch limit's default: a consumer must still get the first one."""
    need(CLIENTS[client])
    create_topic(bootstrap, name, 1, {"max.message.bytes": "12000000"})
    values = [bytes([i]) * (3_000_000 + i) for i in range(3)]
    CLIENTS[client].produce(bootstrap, name, [Record(0, None, value) for value in values])
    found = CLIENTS[client].consume(bootstrap, name, len(values))
    assert [hash(record.value) for record in found] == [hash(value) for value in values]
