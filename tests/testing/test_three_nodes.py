"""Three nodes in this process: a quorum, replicas, and what happens when one of them dies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.testing import Cluster

DEADLINE_S = 30.0


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(
        nodes=3,
        overrides={"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 200},
    ) as running:
        yield running


def producer_of(cluster: Cluster) -> Producer:
    return Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "topic.metadata.refresh.interval.ms": 500,
        }
    )


def produce(producer: Producer, topic: str, values: list[bytes]) -> None:
    failures: list[object] = []

    def told(error: object, _message: object) -> None:
        if error is not None:
            failures.append(error)

    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=told)
    assert producer.flush(DEADLINE_S) == 0
    assert failures == []


def consume(cluster: Cluster, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": f"g-{topic}-{count}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.close()
    return found


def test_nothing_acknowledged_is_lost_when_leaders_die(cluster: Cluster) -> None:
    topic = cluster.create_topic("orders", replication_factor=3)
    producer = producer_of(cluster)
    values = [b"a%d" % index for index in range(100)]
    produce(producer, topic, values)
    assert consume(cluster, topic, 100) == values
    first = cluster.leader_of(topic)
    cluster.kill(first)
    more = [b"b%d" % index for index in range(100)]
    produce(producer, topic, more)
    assert cluster.leader_of(topic) != first
    assert consume(cluster, topic, 200) == values + more
    cluster.start_node(first)
    until(lambda: len(cluster.node.metadata.image.topics[topic].partitions[0].isr) == 3)
    second = cluster.leader_of(topic)
    cluster.kill(second)
    last = [b"c%d" % index for index in range(100)]
    produce(producer, topic, last)
    assert consume(cluster, topic, 300) == values + more + last


def test_another_controller_takes_over(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    before = cluster.controller_id
    assert before is not None
    cluster.kill(before)
    created = admin.create_topics([NewTopic("after", 3, 2)], operation_timeout=DEADLINE_S)
    created["after"].result(DEADLINE_S)
    assert cluster.controller_id not in (None, before)
    until(lambda: all("after" in node.metadata.image.topics for node in cluster.nodes.values()))
    cluster.start_node(before)
    until(lambda: "after" in cluster.nodes[before].metadata.image.topics)


def test_a_node_that_is_stopped_gives_its_leaderships_away_first(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", partitions=6, replication_factor=3)
    leaving = cluster.leader_of(topic, 0)
    cluster.stop_node(leaving)
    partitions = cluster.node.metadata.image.topics[topic].partitions
    assert all(each.leader not in (leaving, -1) for each in partitions.values())


def test_everything_is_there_after_all_nodes_were_stopped(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", replication_factor=3)
    produce(producer_of(cluster), topic, [b"1", b"2"])
    cluster_id = cluster.cluster_id
    cluster.restart()
    assert cluster.cluster_id == cluster_id
    until(lambda: cluster.leader_of(topic) > 0)
    assert consume(cluster, topic, 2) == [b"1", b"2"]
