"""A running node whose log directories fail one after the other, as a client sees it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.server.broker_state import BrokerState
from barnabas.testing import Cluster

WAIT_S = 20

KAFKA_STORAGE_ERROR = 56


def on_loop(cluster: Cluster, function: Any, *arguments: Any) -> None:
    async def call() -> None:
        function(*arguments)

    assert cluster._loop is not None
    asyncio.run_coroutine_threadsafe(call(), cluster._loop).result(WAIT_S)


def produce(bootstrap: str, topic: str, partition: int) -> KafkaError | None:
    errors: list[KafkaError | None] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "retries": 0,
            "delivery.timeout.ms": 5000,
            "enable.idempotence": False,
        }
    )
    producer.produce(
        topic, b"x", partition=partition, on_delivery=lambda error, _: errors.append(error)
    )
    producer.flush(WAIT_S)
    return errors[0]


def test_one_fails_and_then_the_other(tmp_path: Path) -> None:
    first, second = str(tmp_path / "a"), str(tmp_path / "b")
    with Cluster(overrides={"log.dirs": f"{first},{second}"}, data=tmp_path) as cluster:
        node, bootstrap = cluster.node, cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("t", 4, 1)])["t"].result(WAIT_S)
        place = {
            partition.index: partition.log.parent_directory
            for partition in node.replicas.partitions.values()
            if partition.log is not None
        }
        lost = sorted(index for index, path in place.items() if path == second)
        assert len(lost) == 2
        on_loop(cluster, node.replicas.directory_failed, second, OSError("simulated"))
        for index in range(4):
            error = produce(bootstrap, "t", index)
            if index in lost:
                assert error is not None
                # Told by the replica, or by metadata that has no leader for it any more.
                assert error.code() in (KAFKA_STORAGE_ERROR, KafkaError._MSG_TIMED_OUT)
            else:
                assert error is None
        described = node.metadata.image.topics["t"].partitions
        for index in range(4):
            offline = node.metadata.offline_replicas("t", index, described[index])
            assert offline == ([node.node_id] if index in lost else [])
        admin.create_topics([NewTopic("new", 2, 1)])["new"].result(WAIT_S)
        assert [produce(bootstrap, "new", index) for index in range(2)] == [None, None]

        on_loop(cluster, node.replicas.directory_failed, first, OSError("simulated"))
        assert cluster._thread is not None
        cluster._thread.join(WAIT_S)
        assert node.failure == "all log directories have failed"
        assert node.lifecycle.state is BrokerState.NOT_RUNNING


def test_a_move_goes_on_after_a_restart_while_clients_write(tmp_path: Path) -> None:
    first, second = str(tmp_path / "a"), str(tmp_path / "b")
    overrides = {"log.dirs": f"{first},{second}"}
    with Cluster(overrides=overrides, data=tmp_path) as cluster:
        node, admin = cluster.node, AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(WAIT_S)
        assert produce(cluster.bootstrap_servers, "t", 0) is None
        source = node.replicas.partition("t", 0).online_log().parent_directory
        target = second if source == first else first
        # Nothing moves while this lasts: one byte was enough for a long time.
        node.replicas.moves.quota.rate = 0
        on_loop(cluster, node.replicas.moves.quota.record, 1, node.clock.now_ms())
        on_loop(cluster, node.replicas.alter_log_directory, "t", 0, target)
        assert produce(cluster.bootstrap_servers, "t", 0) is None
        assert node.replicas.partition("t", 0).online_log().parent_directory == source
        assert any(path.name.endswith("-future") for path in Path(target).iterdir())
    with Cluster(overrides=overrides, data=tmp_path) as cluster:
        node, written = cluster.node, 2
        deadline = time.monotonic() + WAIT_S
        while len(node.replicas.moves) or written < 5:
            assert produce(cluster.bootstrap_servers, "t", 0) is None
            written += 1
            assert time.monotonic() < deadline
        log = node.replicas.partition("t", 0).online_log()
        assert (log.parent_directory, log.log_end_offset) == (target, written)
        assert not any(path.name.endswith("-future") for path in Path(target).iterdir())
