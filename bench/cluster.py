"""Three nodes of one project as a cluster: replication, failover, and a start with many replicas."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from tests.peers.node_cluster import NodeCluster, Plan, State, active_controller, start_nodes, until

from bench import nodes, workloads

PARTITIONS = 3
WAIT_S = 60.0
REPLICAS = 1000
SAFE = {"min.insync.replicas": "2"}


def measure(system: str, directory: Path, scale: int) -> Iterator[tuple[str, float]]:
    """Key and value of everything measured, as it is measured."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    project = "apache" if system == "kafka" else "barnabas"
    plans = {node_id: Plan(project) for node_id in (1, 2, 3)}
    cluster = start_nodes(directory, plans, heap="1g", options=nodes.SERVER_OPTIONS)
    try:
        state = State(cluster.bootstrap)
        yield from replication(cluster, state, scale)
        yield "leader_s", leader_killed(cluster, state)
        yield "controller_s", controller_killed(cluster, state)
        count = REPLICAS // (10 if scale > 1 else 1)
        yield f"replicas_{count}_s", started_with_replicas(cluster, state, count)
    finally:
        cluster.stop()
        shutil.rmtree(directory, ignore_errors=True)


def replication(cluster: NodeCluster, state: State, scale: int) -> Iterator[tuple[str, float]]:
    create(state, "replicated", PARTITIONS)
    answer = workloads.run(
        "replicated", bootstrap=cluster.bootstrap, topic="replicated", partitions=PARTITIONS,
        size=100, count=1_000_000 // scale,
    )  # fmt: skip
    yield "cluster_produce", answer["per_s"]
    create(state, "acknowledged", 1)
    answer = workloads.run(
        "acknowledged", bootstrap=cluster.bootstrap, topic="acknowledged", count=2000 // scale
    )
    yield "cluster_p50_ms", answer["p50_ms"]
    yield "cluster_p99_ms", answer["p99_ms"]


def create(state: State, topic: str, partitions: int) -> None:
    state.create(topic, partitions, 3, SAFE, within_s=WAIT_S)
    until(lambda: state.in_sync(topic, 3), WAIT_S, f"{topic} is not in sync")


def leader_killed(cluster: NodeCluster, state: State) -> float:
    """Seconds from the leader's death to the next acknowledged record."""
    topic = led_beside_the_controller(cluster, state)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True,
         "linger.ms": 0, "retry.backoff.ms": 20, "reconnect.backoff.max.ms": 100,
         "topic.metadata.refresh.interval.ms": 200, "log_level": 0}
    )  # fmt: skip
    acknowledge(producer, topic)
    chosen = state.leader(topic)
    began = time.perf_counter()
    cluster.kill(chosen)
    acknowledge(producer, topic)
    elapsed = time.perf_counter() - began
    cluster.start(chosen)
    until(lambda: state.in_sync(topic, 3), WAIT_S, "the killed leader does not come back")
    return elapsed


def led_beside_the_controller(cluster: NodeCluster, state: State) -> str:
    """A topic whose leader is not the active controller: one failover is measured, not two."""
    for attempt in range(20):
        topic = f"led-{attempt}"
        create(state, topic, 1)
        if state.leader(topic) != active_controller(cluster):
            return topic
    raise AssertionError("the active controller leads every topic")


def acknowledge(producer: Producer, topic: str) -> None:
    errors: list[Any] = []
    producer.produce(topic, b"x", partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(WAIT_S) == 0
    assert errors == [None], errors


def controller_killed(cluster: NodeCluster, state: State) -> float:
    """Seconds from the active controller's death to the next topic."""
    until(lambda: active_controller(cluster) > 0, WAIT_S, "no active controller")
    chosen = active_controller(cluster)
    began = time.perf_counter()
    cluster.kill(chosen)
    state.create("after-the-controller", 1, 2, within_s=WAIT_S)
    elapsed = time.perf_counter() - began
    cluster.start(chosen)
    until(
        lambda: state.in_sync("replicated", 3), WAIT_S, "the killed controller does not come back"
    )
    return elapsed


def started_with_replicas(cluster: NodeCluster, state: State, count: int) -> float:
    """Seconds from the birth of a node until its replicas are in sync."""
    create(state, "replicas", count)
    node = cluster.node(3)
    node.stop()
    until(lambda: state.in_sync("replicas", 2), WAIT_S, "the stopped node is still in sync")
    began = time.perf_counter()
    cluster.start(3)
    until(lambda: state.in_sync("replicas", 3), WAIT_S, "the replicas are not in sync again")
    return time.perf_counter() - began
