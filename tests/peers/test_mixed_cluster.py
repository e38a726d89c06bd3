"""Barnabas and Apache Kafka as nodes of one cluster, in both directions.

A Barnabas broker joins a quorum of Apache controllers, and an Apache broker a quorum of Barnabas
controllers. Each follows the other's leaders and leads for the other's followers, and the copies
of a partition hold the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.peers import jvm
from tests.peers.node_cluster import NodeCluster, Plan, State, start_nodes, until

pytestmark = pytest.mark.skipif(jvm.missing() is not None, reason=str(jvm.missing()))

BROKER = ("broker",)
COUNT = 500
SMALL = {
    "offsets.topic.replication.factor": "1",
    "group.coordinator.rebalance.protocols": "classic",
}


# Apache's controllers turn away a broker that lacks a feature the cluster has finalized; these are
# the ones that Barnabas does not offer.
WITHOUT = tuple(
    f"{name}=0"
    for name in ("group.version", "transaction.version", "share.version", "streams.version")
)


@pytest.fixture(scope="module", params=["apache", "barnabas"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NodeCluster]:
    """Node 1 is controller and broker of one project, node 2 a broker of the other."""
    first = request.param
    plans = {1: Plan(first), 2: Plan("barnabas" if first == "apache" else "apache", BROKER)}
    directory = tmp_path_factory.mktemp("mixed")
    running = start_nodes(directory, plans, SMALL, WITHOUT if first == "apache" else ())
    yield running
    running.stop()


def produce(bootstrap: str, topic: str, partition: int, values: list[bytes]) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True,
         "topic.metadata.refresh.interval.ms": 300, "retry.backoff.ms": 50}
    )  # fmt: skip
    failed: list[object] = []
    for value in values:
        producer.produce(
            topic, value, partition=partition,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )  # fmt: skip
    assert producer.flush(30) == 0
    assert failed == []


def consume(bootstrap: str, topic: str, partition: int, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[bytes] = []
    until(lambda: len(_more(consumer, found)) >= count, what="records are missing")
    consumer.close()
    return found


def _more(consumer: Consumer, found: list[bytes]) -> list[bytes]:
    found += [m.value() for m in consumer.consume(1000, 0.1) if m.error() is None]
    return found


def copies(cluster: NodeCluster, topic: str, partition: int) -> list[bytes]:
    """What each node has of a partition on disk, without the zeros of a preallocated end."""
    name = f"{topic}-{partition}/{0:020}.log"
    return [(node.data_dir / name).read_bytes() for node in cluster.nodes.values()]


def test_each_leads_and_follows(cluster: NodeCluster) -> None:
    state = State(cluster.bootstrap)
    state.create("both", replicas=[[1, 2], [2, 1]], config={"min.insync.replicas": "2"})
    until(lambda: state.in_sync("both", 2), what="not in sync")
    assert state.leader("both", 0) == 1
    assert state.leader("both", 1) == 2
    for partition in (0, 1):
        values = [b"%d-%d" % (partition, n) for n in range(COUNT)]
        produce(cluster.bootstrap, "both", partition, values)
        assert consume(cluster.bootstrap, "both", partition, COUNT) == values
        until(lambda p=partition: len(set(copies(cluster, "both", p))) == 1)  # type: ignore[misc]


def test_a_broker_that_comes_back_catches_up(cluster: NodeCluster) -> None:
    state = State(cluster.bootstrap)
    state.create("back", replicas=[[2, 1]], config={"min.insync.replicas": "1"})
    until(lambda: state.in_sync("back", 2), what="not in sync")
    values = [b"%d" % n for n in range(2 * COUNT)]
    produce(cluster.bootstrap, "back", 0, values[:COUNT])
    cluster.kill(2)
    until(lambda: state.partitions("back").get(0) == (1, {1}), what="no other leader")
    produce(cluster.bootstrap, "back", 0, values[COUNT:])
    cluster.start(2)
    until(lambda: state.in_sync("back", 2), what="it does not catch up")
    assert consume(cluster.bootstrap, "back", 0, 2 * COUNT) == values
    until(lambda: len(set(copies(cluster, "back", 0))) == 1)
