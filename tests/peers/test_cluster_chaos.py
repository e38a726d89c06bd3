"""Three node processes whose leader, follower and active controller die or freeze in turn.

Idempotent producers write an endless count with acks=all all the while, and a group reads and
commits. At the end every acknowledged record is at the offset that was promised, once, in order.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.peers.node_cluster import NodeCluster, Plan, State, active_controller, start_nodes, until
from tests.peers.test_crash import PARTITIONS, Load, read_all

TOPIC = "chaos"
PROGRESS = 300


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NodeCluster]:
    running = start_nodes(tmp_path, {1: Plan(), 2: Plan(), 3: Plan()})
    yield running
    running.stop()


class Group:
    """A consumer of a group in a thread; it commits whatever it has read."""

    def __init__(self, bootstrap: str) -> None:
        self.consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "chaos", "auto.offset.reset": "earliest",
             "enable.auto.commit": False, "reconnect.backoff.max.ms": 100, "socket.timeout.ms": 2000}
        )  # fmt: skip
        self.commits = 0
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        self.consumer.subscribe([TOPIC])
        while not self.stopping.is_set():
            if not [m for m in self.consumer.consume(500, 0.1) if m.error() is None]:
                continue
            try:
                self.consumer.commit(asynchronous=False)
            except KafkaException:
                continue  # the coordinator is on its way to another node
            self.commits += 1

    def stop(self) -> dict[int, int]:
        """The committed offsets, as the cluster tells them."""
        self.stopping.set()
        self.thread.join()
        asked = [TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
        found = self.consumer.committed(asked, timeout=20)
        self.consumer.close()
        return {each.partition: each.offset for each in found}


def goes_on(load: Load, group: Group) -> None:
    """Records are acknowledged and offsets committed that were not before."""
    records, commits = load.total(), group.commits
    until(lambda: load.total() >= records + PROGRESS, what="no more acknowledgements")
    until(lambda: group.commits > commits, what="no more commits")


def test_nothing_acknowledged_is_lost_or_repeated(cluster: NodeCluster) -> None:
    state = State(cluster.bootstrap)
    state.create(TOPIC, PARTITIONS, 3, {"min.insync.replicas": "2"})
    load = Load(
        cluster.bootstrap,
        TOPIC,
        enable_idempotence=True,
        topic_metadata_refresh_interval_ms=300,
        socket_timeout_ms=2000,
        request_timeout_ms=1500,
    )
    group = Group(cluster.bootstrap)
    goes_on(load, group)

    def leader() -> int:
        return state.leader(TOPIC)

    def follower() -> int:
        return leader() % 3 + 1

    def controller() -> int:
        return active_controller(cluster)

    for victim, freeze in (
        (leader, False),
        (controller, False),
        (follower, True),
        (leader, True),
        (controller, True),
        (follower, False),
    ):
        until(lambda: leader() > 0 and controller() > 0)
        chosen = victim()
        node = cluster.node(chosen)
        if freeze:
            node.pause()
        else:
            node.kill()
        # The others notice: nobody waits for it any longer, and nothing is led by it.
        until(
            lambda chosen=chosen: (
                (found := state.partitions(TOPIC))  # type: ignore[misc]
                and all(chosen not in isr and at > 0 for at, isr in found.values())
            ),
            what=f"node {chosen} stays in sync",
        )
        goes_on(load, group)
        if freeze:
            node.resume()
        else:
            cluster.start(chosen)
        until(lambda: state.in_sync(TOPIC, 3), what=f"node {chosen} does not come back")
    goes_on(load, group)
    load.stop()
    assert load.failed == []
    found = read_all(cluster.bootstrap, TOPIC)
    for partition, acknowledged in load.acknowledged.items():
        for offset, number in acknowledged:
            assert found[partition][offset] == number
        numbers = [found[partition][offset] for offset in sorted(found[partition])]
        assert numbers == list(range(len(numbers)))
    committed = group.stop()
    assert all(0 < committed[p] <= len(found[p]) for p in found)
