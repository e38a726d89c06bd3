"""Members of a group on a real broker: heartbeats in the background, listeners that use the consumer."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.client.consumer import AsyncConsumer, Consumer
from barnabas.client.core.offsets import OffsetAndMetadata
from barnabas.client.errors import CommitFailedError, OptionError
from barnabas.testing import Cluster

COUNTER = itertools.count()
SESSION_MS = 1_000
QUICK = {
    "session_timeout_ms": SESSION_MS,
    "heartbeat_interval_ms": 200,
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    overrides = {"group.min.session.timeout.ms": 100, "group.initial.rebalance.delay.ms": 0}
    with Cluster(overrides=overrides) as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return cluster.create_topic(f"m{next(COUNTER)}", partitions=4)


def make(cluster: Cluster, group: str, **more: Any) -> Consumer:
    servers = cluster.bootstrap_servers
    return Consumer({**QUICK, "bootstrap_servers": servers, "group_id": group, **more})


def poll_until(consumer: Consumer, happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < deadline
        consumer.poll(0.02)


class Polling:
    """A consumer that is polled in a thread of its own."""

    def __init__(self, consumer: Consumer, topic: str) -> None:
        self.consumer = consumer
        consumer.subscribe([topic])
        self.held: set[Any] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.consumer.poll(0.02)
            self.held = self.consumer.assignment()

    def __enter__(self) -> Polling:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stop.set()
        self._thread.join(20)
        self.consumer.close()


class Counting:
    def __init__(self) -> None:
        self.told: list[tuple[str, list[Any]]] = []

    def on_partitions_assigned(self, partitions: list[Any]) -> None:
        self.told.append(("assigned", partitions))

    def on_partitions_revoked(self, partitions: list[Any]) -> None:
        self.told.append(("revoked", partitions))

    def on_partitions_lost(self, partitions: list[Any]) -> None:
        self.told.append(("lost", partitions))


def test_heartbeats_go_on_while_the_caller_is_busy(cluster: Cluster, topic: str) -> None:
    """Handling records takes longer than a session, and nobody joins or leaves."""
    listener = Counting()
    with make(cluster, topic) as consumer:
        consumer.subscribe([topic], listener)
        poll_until(consumer, consumer.assignment)
        busy_until = time.monotonic() + 2.5 * SESSION_MS / 1000
        while time.monotonic() < busy_until:
            sum(range(1_000))
        consumer.poll(0)
        consumer.commit({(topic, 0): 0})
        assert [what for what, _ in listener.told] == ["assigned"]


def test_who_does_not_poll_loses_the_partitions(
    cluster: Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Counting()
    with make(cluster, topic, max_poll_interval_ms=500) as consumer:
        consumer.subscribe([topic], listener)
        poll_until(consumer, consumer.assignment)
        with Polling(make(cluster, topic), topic) as other:
            deadline = time.monotonic() + 20
            while len(other.held) < 4:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            with pytest.raises(CommitFailedError, match=r"max\.poll\.interval\.ms"):
                consumer.commit({(topic, 0): 0})
            poll_until(consumer, lambda: len(consumer.assignment()) == 2)
        assert [what for what, _ in listener.told][:3] == ["assigned", "lost", "assigned"]
    assert "max.poll.interval.ms (500)" in caplog.text


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_listener_may_use_the_consumer(cluster: Cluster, topic: str, strategy: str) -> None:
    """Commit what is given up, and seek in what is new, in the thread that polls."""
    threads: set[threading.Thread] = set()
    options = {"partition_assignment_strategy": strategy}

    class Listener:
        def __init__(self, consumer: Consumer) -> None:
            self.consumer = consumer
            self.found: dict[Any, Any] = {}

        def on_partitions_assigned(self, partitions: list[Any]) -> None:
            threads.add(threading.current_thread())
            self.found.update(self.consumer.committed(partitions))
            for partition in partitions:
                self.consumer.position(partition)

        def on_partitions_revoked(self, partitions: list[Any]) -> None:
            threads.add(threading.current_thread())
            self.consumer.commit({p: OffsetAndMetadata(0, "given up") for p in partitions})

    with make(cluster, topic, **options) as first:
        first.subscribe([topic], Listener(first))
        poll_until(first, lambda: len(first.assignment()) == 4)
        with make(cluster, topic, **options) as second:
            listener = Listener(second)
            second.subscribe([topic], listener)
            deadline = time.monotonic() + 20
            while len(second.assignment()) < 2:
                assert time.monotonic() < deadline
                first.poll(0.02)
                second.poll(0.02)
            known = {found.metadata for found in listener.found.values() if found is not None}
            assert known == {"given up"}
    assert threads == {threading.current_thread()}


def test_a_listener_of_coroutines(cluster: Cluster, topic: str) -> None:
    told: list[str] = []

    class Listener:
        def __init__(self, consumer: AsyncConsumer) -> None:
            self.consumer = consumer

        async def on_partitions_assigned(self, partitions: list[Any]) -> None:
            await self.consumer.committed(partitions)
            told.append("assigned")

        async def on_partitions_revoked(self, partitions: list[Any]) -> None:
            await self.consumer.commit(dict.fromkeys(partitions, 0))
            told.append("revoked")

    async def work() -> None:
        options = {**QUICK, "bootstrap_servers": cluster.bootstrap_servers, "group_id": topic}
        async with AsyncConsumer(options) as consumer:
            consumer.subscribe([topic], Listener(consumer))
            async with asyncio.timeout(20):
                while not told:
                    await consumer.poll(0.1)
        assert told == ["assigned", "revoked"]

    asyncio.run(work())


def test_a_plain_consumer_has_no_loop_for_coroutines(cluster: Cluster, topic: str) -> None:
    class Listener:
        async def on_partitions_assigned(self, partitions: list[Any]) -> None: ...

    with make(cluster, topic) as consumer:
        consumer.subscribe([topic], Listener())
        with pytest.raises(OptionError, match="AsyncConsumer"):
            poll_until(consumer, lambda: False)
        assert len(consumer.assignment()) == 4, "the group goes on"


def test_what_a_listener_raises_comes_out_of_poll(cluster: Cluster, topic: str) -> None:
    class Listener:
        def on_partitions_assigned(self, partitions: list[Any]) -> None:
            raise RuntimeError("no room for that")

    with make(cluster, topic) as consumer:
        consumer.subscribe([topic], Listener())
        with pytest.raises(RuntimeError, match="no room"):
            poll_until(consumer, lambda: False)
        poll_until(consumer, lambda: len(consumer.assignment()) == 4)


def test_cooperative_members_read_on_while_another_joins(cluster: Cluster, topic: str) -> None:
    """What need not move is never given up, on either face of a rebalance."""
    listener = Counting()
    options = {"partition_assignment_strategy": "cooperative-sticky"}
    with make(cluster, topic, **options) as first:
        first.subscribe([topic], listener)
        poll_until(first, lambda: len(first.assignment()) == 4)
        with Polling(make(cluster, topic, **options), topic) as other:
            poll_until(first, lambda: len(first.assignment()) == 2)
            poll_until(first, lambda: len(other.held) == 2)
            assert other.held.isdisjoint(first.assignment())
        poll_until(first, lambda: len(first.assignment()) == 4)
    given_up = [partitions for what, partitions in listener.told if what == "revoked"]
    assert [len(partitions) for partitions in given_up] == [2, 4], "two moved, and all at the end"
