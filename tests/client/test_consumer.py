"""The plain and the async consumer against a real broker."""

from __future__ import annotations

import itertools
import logging
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.client.consumer import Consumer
from barnabas.client.core.offsets import OffsetAndMetadata, TopicPartition
from barnabas.client.errors import (
    ClosedError,
    IllegalStateError,
    NoBrokerReachable,
    NoOffsetError,
    NotFoundError,
    OffsetOutOfRangeError,
    OptionError,
    PoisonRecordError,
    WakeupError,
)
from barnabas.testing import Cluster
from tests.client.consumers import KINDS, make_consumer, read, write
from tests.client.test_failures import free_port

COUNTER = itertools.count()
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return cluster.create_topic(f"t{next(COUNTER)}", partitions=2)


@pytest.fixture
def places(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, 0), TopicPartition(topic, 1)]


def earliest(cluster: Cluster, kind: str, **more: Any) -> Any:
    return make_consumer(
        kind,
        **{"bootstrap_servers": cluster.bootstrap_servers, "auto_offset_reset": "earliest", **more},
    )


def values(records: list[Any]) -> list[Any]:
    return [record.value for record in records]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % i for i in range(count)]


# -- records


@each_kind
def test_records_come_in_order(cluster: Cluster, kind: str, places: list[Any]) -> None:
    topic = places[0].topic
    for place in places:
        write(cluster.bootstrap_servers, topic, numbers(300), partition=place.partition)
    with earliest(cluster, kind, max_poll_records=70) as consumer:
        consumer.assign(places)
        assert consumer.assignment() == set(places)
        found = read(consumer, 600)
        for place in places:
            own = [r for r in found if r.partition == place.partition]
            assert [r.offset for r in own] == list(range(300))
            assert values(own) == numbers(300)
            assert consumer.position(place) == 300
            assert consumer.lag(place) == 0
        assert consumer.poll(0.0) == []
        write(cluster.bootstrap_servers, topic, [b"later"])
        assert values(read(consumer, 1)) == [b"later"]


@each_kind
def test_a_poll_is_bounded_by_its_time(cluster: Cluster, kind: str, places: list[Any]) -> None:
    with earliest(cluster, kind) as consumer:
        consumer.assign(places)
        began = time.monotonic()
        assert consumer.poll(0.2) == []
        assert 0.15 < time.monotonic() - began < 5
        with pytest.raises(OptionError, match="max_records"):
            consumer.poll(1.0, max_records=0)


@each_kind
def test_partitions_take_turns(cluster: Cluster, kind: str, places: list[Any]) -> None:
    for place in places:
        write(cluster.bootstrap_servers, place.topic, numbers(100), partition=place.partition)
    with earliest(cluster, kind) as consumer:
        consumer.assign(places)
        fetcher = consumer._engine.fetcher if kind == "plain" else consumer.fetcher
        deadline = time.monotonic() + 20
        while any(state.buffer.is_empty for state in fetcher.partitions.values()):
            consumer.end_offsets(places)
            assert time.monotonic() < deadline
        served = [consumer.poll(5.0, max_records=10)[0].partition for _ in range(6)]
        assert served in ([0, 1] * 3, [1, 0] * 3)


@each_kind
def test_records_larger_than_every_bound_come(cluster: Cluster, kind: str, topic: str) -> None:
    write(cluster.bootstrap_servers, topic, [b"x" * 20_000, b"y" * 30_000])
    write(cluster.bootstrap_servers, topic, [b"z" * 25_000], partition=1)
    with earliest(cluster, kind, max_partition_fetch_bytes=100, fetch_max_bytes=500) as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        assert sorted(len(v) for v in values(read(consumer, 3))) == [20_000, 25_000, 30_000]


@each_kind
def test_deserializers_and_headers(cluster: Cluster, kind: str, topic: str) -> None:
    write(cluster.bootstrap_servers, topic, [(b"k", b'{"a": 1}'), (None, None)])
    with earliest(cluster, kind, key_deserializer="string", value_deserializer="json") as consumer:
        consumer.assign([(topic, 0)])
        first, second = read(consumer, 2)
        assert (first.key, first.value) == ("k", {"a": 1})
        assert (first.serialized_key_size, first.serialized_value_size) == (1, 8)
        assert (second.key, second.value) == (None, None)


# -- one at a time


@each_kind
def test_iteration_stands_at_the_record_it_gives(cluster: Cluster, kind: str, topic: str) -> None:
    write(cluster.bootstrap_servers, topic, numbers(50))
    with earliest(cluster, kind, group_id=f"g-{topic}", enable_auto_commit=False) as consumer:
        consumer.assign([(topic, 0)])
        seen = []
        for record in consumer:
            seen.append(record.value)
            if len(seen) == 20:
                break
        assert consumer.position((topic, 0)) == 20
        consumer.commit()
        assert consumer.committed([(topic, 0)])[TopicPartition(topic, 0)].offset == 20
        consumer.pause([(topic, 0)])
        assert consumer.poll(0.1) == []
        consumer.resume()
        assert values(read(consumer, 30)) == numbers(50)[20:]
        consumer.seek((topic, 0), 5)
        assert next(iter(consumer)).offset == 5
        consumer.seek((topic, 0), 45)
        assert next(iter(consumer)).offset == 45


@each_kind
def test_a_closed_consumer_ends_an_iteration(cluster: Cluster, kind: str, topic: str) -> None:
    write(cluster.bootstrap_servers, topic, numbers(3))
    consumer = earliest(cluster, kind)
    consumer.assign([(topic, 0)])
    with consumer:
        assert next(iter(consumer)).value == b"0"
    if kind == "plain":
        with pytest.raises(ClosedError):
            consumer.poll(1.0)
        consumer.close()


# -- columns


@each_kind
def test_columns(cluster: Cluster, kind: str, places: list[Any]) -> None:
    pa = pytest.importorskip("pyarrow")
    topic = places[0].topic
    for place in places:
        write(
            cluster.bootstrap_servers,
            topic,
            [(b"k%d" % i, b"%d" % i) for i in range(200)],
            partition=place.partition,
        )
    with earliest(cluster, kind, value_deserializer="json") as consumer:
        consumer.assign(places)
        batches = []
        while sum(b.num_rows for b in batches) < 400:
            batches.append(consumer.poll_arrow(20.0, max_records=150))
            assert 0 < batches[-1].num_rows <= 150
        table = pa.Table.from_batches(batches).to_pylist()
        for place in places:
            rows = [row for row in table if row["partition"] == place.partition]
            assert [row["offset"] for row in rows] == list(range(200))
            assert [row["value"] for row in rows] == numbers(200)
            assert {row["topic"] for row in rows} == {topic}
            assert {row["timestamp"].timestamp() for row in rows} == {1.0}
        empty = consumer.poll_arrow(0.0)
        assert empty.num_rows == 0
        assert empty.schema == batches[0].schema
        consumer.seek((topic, 0), 190)
        assert consumer.poll_arrow(20.0, max_records=3).column("offset").to_pylist() == [
            190, 191, 192
        ]  # fmt: skip
        consumer.seek((topic, 1), 200)
        assert [r.offset for r in read(consumer, 7)] == list(range(193, 200))


# -- positions


@each_kind
def test_seeking(cluster: Cluster, kind: str, places: list[Any]) -> None:
    write(cluster.bootstrap_servers, places[0].topic, numbers(100))
    first = places[0]
    with earliest(cluster, kind) as consumer:
        consumer.assign([first])
        consumer.seek(first, 90)
        assert values(read(consumer, 2)) == [b"90", b"91"]
        consumer.seek_to_beginning([first])
        assert consumer.position(first) == 0
        assert values(read(consumer, 1)) == [b"0"]
        consumer.seek_to_end()
        assert consumer.position(first) == 100
        assert consumer.beginning_offsets([first]) == {first: 0}
        assert consumer.end_offsets(places) == {places[0]: 100, places[1]: 0}
        found = consumer.offsets_for_times({first: 500, places[1]: 500})
        assert found[first].offset == 0
        assert found[places[1]] is None
        assert consumer.partitions_for(first.topic) == [0, 1]
        assert first.topic in consumer.topics()


@each_kind
def test_paused_partitions_keep_what_they_have(
    cluster: Cluster, kind: str, places: list[Any]
) -> None:
    for place in places:
        write(cluster.bootstrap_servers, place.topic, numbers(20), partition=place.partition)
    with earliest(cluster, kind) as consumer:
        consumer.assign(places)
        first = read(consumer, 1)[0].partition
        consumer.pause([places[first]])
        assert consumer.paused() == {places[first]}
        assert {r.partition for r in read(consumer, 20)} == {1 - first}
        assert consumer.poll(0.1) == []
        consumer.resume([places[first]])
        assert {r.partition for r in read(consumer, 19)} == {first}


@each_kind
def test_without_a_policy_there_is_an_error(cluster: Cluster, kind: str, topic: str) -> None:
    write(cluster.bootstrap_servers, topic, numbers(10))
    with earliest(cluster, kind, auto_offset_reset="none", group_id=f"n-{topic}") as consumer:
        consumer.assign([(topic, 0)])
        with pytest.raises(NoOffsetError, match=topic):
            consumer.poll(10.0)
        consumer.seek((topic, 0), 500)
        with pytest.raises(OffsetOutOfRangeError, match="500"):
            consumer.poll(10.0)
        consumer.seek((topic, 0), 8)
        assert values(read(consumer, 2)) == [b"8", b"9"]


@each_kind
@pytest.mark.parametrize(("reset", "expected"), [("earliest", 0), ("latest", 10)])
def test_out_of_range_goes_where_the_policy_says(
    cluster: Cluster, kind: str, topic: str, reset: str, expected: int
) -> None:
    write(cluster.bootstrap_servers, topic, numbers(10))
    with earliest(cluster, kind, auto_offset_reset=reset) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 77)
        deadline = time.monotonic() + 20
        while consumer.position((topic, 0)) != expected or consumer.poll(0.05) is None:
            assert time.monotonic() < deadline
            consumer.poll(0.05, max_records=1)
            if expected == 0 and consumer.position((topic, 0)) > 0:
                break


@each_kind
def test_reset_by_duration(cluster: Cluster, kind: str, topic: str) -> None:
    write(cluster.bootstrap_servers, topic, numbers(5))  # of 1970
    with earliest(cluster, kind, auto_offset_reset="by_duration:PT1H") as consumer:
        consumer.assign([(topic, 0)])
        assert consumer.position((topic, 0)) == 5


# -- wrong calls


@each_kind
def test_wrong_calls_are_told_at_once(cluster: Cluster, kind: str, topic: str) -> None:
    with earliest(cluster, kind) as consumer:
        with pytest.raises(IllegalStateError, match="nothing to read"):
            consumer.poll(1.0)
        with pytest.raises(OptionError, match=r"group\.id"):
            consumer.subscribe([topic])
        with pytest.raises(OptionError, match=r"group\.id"):
            consumer.commit()
        with pytest.raises(OptionError, match="not a partition"):
            consumer.assign([(topic, -1)])
        with pytest.raises(OptionError, match="not a partition"):
            consumer.assign([topic])
        consumer.assign([(topic, 0)])
        with pytest.raises(IllegalStateError, match="not assigned"):
            consumer.seek((topic, 1), 0)
        with pytest.raises(OptionError, match="-5 is no offset"):
            consumer.seek((topic, 0), -5)
        with pytest.raises(OptionError, match="no time"):
            consumer.offsets_for_times({(topic, 0): -2})
        with pytest.raises(NotFoundError):
            consumer.partitions_for("no-such-topic")
    with earliest(cluster, kind, group_id="g") as consumer:
        with pytest.raises(OptionError, match="no topics"):
            consumer.subscribe([])
        with pytest.raises(OptionError, match="name of a topic"):
            consumer.subscribe([" "])
        with pytest.raises(OptionError, match="-1 is no offset"):
            consumer.commit({(topic, 0): -1})
        consumer.assign([(topic, 0)])
        with pytest.raises(IllegalStateError, match="by hand"):
            consumer.subscribe([topic])


@each_kind
def test_a_wrong_address_is_told_by_the_first_poll(kind: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    with make_consumer(kind, bootstrap_servers=address) as consumer:
        consumer.assign([("t", 0)])
        with pytest.raises(NoBrokerReachable, match=address):
            consumer.poll(20.0)


# -- records that cannot be read


@each_kind
def test_a_poison_record_is_raised_and_can_be_passed_over(
    cluster: Cluster, kind: str, topic: str
) -> None:
    write(cluster.bootstrap_servers, topic, [b"1", b"x", b"3"])
    with earliest(cluster, kind, value_deserializer="json") as consumer:
        consumer.assign([(topic, 0)])
        assert values(read(consumer, 1)) == [1]
        for _ in range(2):
            with pytest.raises(PoisonRecordError, match="offset 1") as caught:
                consumer.poll(10.0)
        assert caught.value.record is not None
        assert caught.value.record.value == b"x"
        consumer.seek((topic, 0), 2)
        assert values(read(consumer, 1)) == [3]


@each_kind
def test_poison_records_are_skipped(
    cluster: Cluster, kind: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(cluster.bootstrap_servers, topic, [b"x", b"2", b"y", b"4", b"z"])
    with earliest(cluster, kind, value_deserializer="json", poison_records="skip") as consumer:
        consumer.assign([(topic, 0)])
        assert values(read(consumer, 2)) == [2, 4]
        assert consumer.poll(0.2) == []
        assert consumer.position((topic, 0)) == 5
        found = consumer.metrics()["consumer-fetch-manager-metrics"]
        assert found["records-poisoned-total"] == 3
    assert "offset 2" in caplog.text


@each_kind
def test_poison_records_go_to_a_dead_letter_topic(cluster: Cluster, kind: str, topic: str) -> None:
    dead = cluster.create_topic(f"dead-{topic}", partitions=1)
    write(cluster.bootstrap_servers, topic, [(b"k", b"x"), b"2"], partition=1)
    with earliest(
        cluster,
        kind,
        value_deserializer="json",
        poison_records="dead-letter",
        dead_letter_topic=dead,
    ) as consumer:
        consumer.assign([(topic, 1)])
        assert values(read(consumer, 1)) == [2]
    with earliest(cluster, kind) as consumer:
        consumer.assign([(dead, 0)])
        (letter,) = read(consumer, 1)
    assert (letter.key, letter.value, letter.timestamp) == (b"k", b"x", 1_000)
    headers = dict(letter.headers)
    assert headers["barnabas.dead-letter.topic"] == topic.encode()
    assert headers["barnabas.dead-letter.partition"] == b"1"
    assert headers["barnabas.dead-letter.offset"] == b"0"
    assert headers["barnabas.dead-letter.field"] == b"value"
    assert b"JSON" in headers["barnabas.dead-letter.error"]


# -- groups and commits


@each_kind
def test_a_group_goes_on_where_it_committed(cluster: Cluster, kind: str, topic: str) -> None:
    write(cluster.bootstrap_servers, topic, numbers(20))
    group = f"group-{topic}"
    place = TopicPartition(topic, 0)
    with earliest(cluster, kind, group_id=group, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        read(consumer, 12)
        assert consumer.subscription() == {topic}
        assert len(consumer.assignment()) == 2
        consumer.commit({place: OffsetAndMetadata(7, "seven")})
        assert consumer.committed([place])[place][:2] == (7, "seven")
        told: list[Any] = []
        consumer.commit_async(callback=lambda offsets, error: told.append((offsets, error)))
        deadline = time.monotonic() + 20
        while not told and time.monotonic() < deadline:
            consumer.poll(0.05, max_records=1)
        ((offsets, error),) = told
        assert error is None
        assert offsets[place].offset == 12
        assert consumer.group_metadata()[0] == group
        consumer.seek(place, 12)
        consumer.commit()
    with earliest(cluster, kind, group_id=group) as consumer:
        consumer.subscribe(re.compile(f"^{topic}$"))
        assert values(read(consumer, 8)) == numbers(20)[12:]


@each_kind
def test_positions_are_committed_at_the_end(cluster: Cluster, kind: str, topic: str) -> None:
    write(cluster.bootstrap_servers, topic, numbers(20))
    group = f"auto-{topic}"
    with earliest(cluster, kind, group_id=group) as consumer:
        consumer.subscribe(topic)
        read(consumer, 5)
    with earliest(cluster, kind, group_id=group) as consumer:
        consumer.subscribe(topic)
        assert values(read(consumer, 1)) == [b"5"]


@each_kind
def test_what_failed_halfway_is_not_committed(cluster: Cluster, kind: str, topic: str) -> None:
    write(cluster.bootstrap_servers, topic, numbers(20))
    group = f"failed-{topic}"

    def handle() -> None:
        with earliest(cluster, kind, group_id=group) as consumer:
            consumer.subscribe(topic)
            read(consumer, 5)
            consumer.poll(10.0, max_records=5)
            raise RuntimeError("the handler failed")

    with pytest.raises(RuntimeError, match="handler"):
        handle()
    with earliest(cluster, kind, group_id=group) as consumer:
        consumer.subscribe(topic)
        assert values(read(consumer, 1)) == [b"5"]


@each_kind
def test_commits_go_on_by_themselves(cluster: Cluster, kind: str, topic: str) -> None:
    write(cluster.bootstrap_servers, topic, numbers(5))
    place = TopicPartition(topic, 0)
    with earliest(cluster, kind, group_id=f"self-{topic}", auto_commit_interval_ms=10) as consumer:
        consumer.subscribe([topic])
        read(consumer, 5)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            found = consumer.committed([place])[place]
            if found is not None and found.offset == 5:
                return
            consumer.poll(0.02)
        pytest.fail(f"committed is {found}")


@each_kind
def test_listeners_are_told(cluster: Cluster, kind: str, topic: str) -> None:
    told: list[tuple[str, int]] = []

    class Listener:
        def on_partitions_assigned(self, partitions: Any) -> None:
            told.append(("assigned", len(partitions)))

        def on_partitions_revoked(self, partitions: Any) -> None:
            told.append(("revoked", len(partitions)))

    with earliest(cluster, kind, group_id=f"told-{topic}") as consumer:
        consumer.subscribe([topic], Listener())
        deadline = time.monotonic() + 20
        while not told and time.monotonic() < deadline:
            consumer.poll(0.1)
        assert told == [("assigned", 2)]
        consumer.unsubscribe()
        assert told == [("assigned", 2), ("revoked", 2)]
        assert consumer.assignment() == set()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_that_grows_and_shrinks_reads_everything_once(
    cluster: Cluster, topic: str, strategy: str
) -> None:
    options = {
        "group_id": f"grows-{topic}",
        "partition_assignment_strategy": [strategy],
        "heartbeat_interval_ms": 50,
        "max_poll_records": 3,
    }
    found: list[tuple[int, int]] = []

    def poll(*consumers: Any, until: Any) -> None:
        deadline = time.monotonic() + 40
        while not until():
            for consumer in consumers:
                found.extend((r.partition, r.offset) for r in consumer.poll(0.02))
            assert time.monotonic() < deadline

    for partition in (0, 1):
        write(cluster.bootstrap_servers, topic, numbers(100), partition=partition)
    with earliest(cluster, "plain", **options) as first:
        first.subscribe([topic])
        poll(first, until=lambda: len(found) >= 20)
        with earliest(cluster, "plain", **options) as second:
            second.subscribe([topic])
            poll(first, second, until=lambda: len(second.assignment()) == 1)
            poll(first, second, until=lambda: len(found) >= 60)
        poll(first, until=lambda: len(found) >= 200)
        assert first.poll(0.1) == []
    assert sorted(found) == [(p, offset) for p in (0, 1) for offset in range(100)]


# -- interruptions


@each_kind
def test_wakeup_ends_a_poll(cluster: Cluster, kind: str, topic: str) -> None:
    with earliest(cluster, kind) as consumer:
        consumer.assign([(topic, 0)])
        consumer.poll(0.0)
        timer = threading.Timer(0.1, consumer.wakeup)
        timer.start()
        began = time.monotonic()
        with pytest.raises(WakeupError):
            consumer.poll(30.0)
        assert time.monotonic() - began < 10
        timer.join()
        write(cluster.bootstrap_servers, topic, [b"x"])
        assert values(read(consumer, 1)) == [b"x"]


def test_ctrl_c_ends_a_poll_and_loses_nothing(cluster: Cluster, topic: str) -> None:
    with earliest(cluster, "plain") as consumer:
        consumer.assign([(topic, 0)])
        consumer.poll(0.0)
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(30.0)
        assert time.monotonic() - began < 10
        timer.join()
        write(cluster.bootstrap_servers, topic, numbers(5))
        assert values(read(consumer, 5)) == numbers(5)


def test_another_thread_may_not_poll(cluster: Cluster, topic: str) -> None:
    with earliest(cluster, "plain") as consumer:
        consumer.assign([(topic, 0)])
        polling = threading.Thread(target=consumer.poll, args=(2.0,))
        polling.start()
        deadline = time.monotonic() + 10
        refused = False
        while not refused and time.monotonic() < deadline:
            try:
                consumer.poll(0.0)
            except IllegalStateError as error:
                refused = "Another poll" in str(error)
        polling.join()
        assert refused


@each_kind
def test_interceptors(cluster: Cluster, kind: str, topic: str) -> None:
    class Doubling:
        def __init__(self) -> None:
            self.committed: list[Any] = []

        def on_consume(self, records: list[Any]) -> list[Any]:
            return [record for record in records for _ in range(2)]

        def on_commit(self, offsets: Any) -> None:
            self.committed.append(dict(offsets))

    doubling = Doubling()
    write(cluster.bootstrap_servers, topic, [b"1"])
    with earliest(
        cluster, kind, interceptors=[doubling], group_id=f"i-{topic}", enable_auto_commit=False
    ) as consumer:
        consumer.assign([(topic, 0)])
        assert values(consumer.poll(20.0)) == [b"1", b"1"]
        consumer.commit()
        assert doubling.committed == [{(topic, 0): OffsetAndMetadata(1, "", 0)}]


# -- what goes wrong around it


@each_kind
def test_a_broker_that_restarts(kind: str) -> None:
    with Cluster() as cluster:
        topic = cluster.create_topic("t", partitions=1)
        write(cluster.bootstrap_servers, topic, numbers(10))
        with earliest(cluster, kind, reconnect_backoff_ms=10, retry_backoff_ms=10) as consumer:
            consumer.assign([(topic, 0)])
            assert values(read(consumer, 4)) == numbers(10)[:4]
            cluster.restart()
            write(cluster.bootstrap_servers, topic, [b"after"])
            assert values(read(consumer, 7)) == [*numbers(10)[4:], b"after"]


@each_kind
def test_leaders_that_die(kind: str) -> None:
    quick = {"broker.session.timeout.ms": 1_500, "broker.heartbeat.interval.ms": 300}
    with Cluster(nodes=3, overrides=quick) as cluster:
        topic = cluster.create_topic("t", partitions=1, replication_factor=3)
        write(cluster.bootstrap_servers, topic, numbers(10))
        with earliest(cluster, kind, reconnect_backoff_ms=10, retry_backoff_ms=20) as consumer:
            consumer.assign([(topic, 0)])
            assert values(read(consumer, 10)) == numbers(10)
            killed = cluster.leader_of(topic)
            cluster.kill(killed)
            write(cluster.bootstrap_servers, topic, [b"after"])
            assert values(read(consumer, 1, 40.0)) == [b"after"]


def test_a_late_poll_loop_is_named(
    cluster: Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "barnabas.client.lateness")
    write(cluster.bootstrap_servers, topic, [b"1"])

    def slow_handler() -> None:
        deadline = time.monotonic() + 20
        while "slow_handler" not in caplog.text and time.monotonic() < deadline:
            time.sleep(0.01)

    with Consumer(
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        group_id=f"late-{topic}",
        max_poll_interval_ms=300,
        heartbeat_interval_ms=50,
    ) as consumer:
        consumer.subscribe([topic])
        read(consumer, 1)
        slow_handler()
    assert "test_consumer.py" in caplog.text
    assert "slow_handler" in caplog.text


def test_metrics(cluster: Cluster, topic: str) -> None:
    write(cluster.bootstrap_servers, topic, numbers(10))
    with earliest(cluster, "plain", group_id=f"m-{topic}") as consumer:
        consumer.assign([(topic, 0)])
        read(consumer, 4)
        consumer.commit()
        found = consumer.metrics()
        fetch = found["consumer-fetch-manager-metrics"]
        assert fetch["records-consumed-total"] == 4
        assert fetch["bytes-consumed-total"] > 0
        assert fetch[f"{topic}-0"]["records-lag"] == 6
        assert fetch["records-lag-max"] == 6
        assert found["consumer-coordinator-metrics"]["commit-total"] == 1
        assert found["consumer-metrics"]["poll-idle-ratio-avg"] >= 0
        consumer.assign([])
        assert f"{topic}-0" not in consumer.metrics()["consumer-fetch-manager-metrics"]
