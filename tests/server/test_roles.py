"""Nodes of one role each, and what is refused when nodes do not belong together."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from barnabas.config.broker import BrokerConfig
from barnabas.controller.format import format_storage, random_cluster_id
from barnabas.log.disk import RealDisk
from barnabas.raft.errors import StorageError
from barnabas.server.broker_state import BrokerState
from barnabas.server.node import Node, real_world
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest
from barnabas.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from tests.server.running import contents
from tests.server.serving import DEADLINE_S, on_loop
from tests.server.test_peer_channel import channel_to

N = TypeVar("N", bound="Nodes")

CLUSTER_ID = random_cluster_id(random.Random(1))
OTHER_CLUSTER_ID = random_cluster_id(random.Random(2))


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class Nodes:
    """Three controllers and any brokers, with static voters."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.ports = free_ports(3)
        self.voters = ",".join(
            f"{3000 + index}@127.0.0.1:{port}" for index, port in enumerate(self.ports)
        )
        self.running: list[Node] = []

    def settings(self, node_id: int, **more: str) -> dict[str, str]:
        is_controller = node_id >= 3000
        listener = (
            f"CONTROLLER://127.0.0.1:{self.ports[node_id - 3000]}"
            if is_controller
            else "PLAINTEXT://127.0.0.1:0"
        )
        return {
            "node.id": str(node_id),
            "process.roles": "controller" if is_controller else "broker",
            "listeners": listener,
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": self.voters,
            "log.dirs": str(self.data / str(node_id)),
            "initial.broker.registration.timeout.ms": "20000",
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def node(self, node_id: int, cluster_id: str = CLUSTER_ID, **more: str) -> Node:
        config = BrokerConfig(self.settings(node_id, **more))
        format_storage(
            RealDisk(),
            config,
            cluster_id=cluster_id,
            randomness=random.SystemRandom(),
            now_ms=1,
            ignore_formatted=True,
        )
        return Node(config, real_world())

    async def start(self, *nodes: Node) -> None:
        self.running += nodes
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(*(node.start() for node in nodes))


@contextlib.asynccontextmanager
async def nodes_in(data: Path, make: Callable[[Path], N] = Nodes) -> AsyncIterator[N]:  # type: ignore[assignment]
    nodes = make(data)
    try:
        yield nodes
    finally:
        stops = [
            node.stop(controlled=False)
            for node in nodes.running
            if node.lifecycle.state is not BrokerState.NOT_RUNNING
        ]
        await asyncio.gather(*stops)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.005)


def one_topic(name: str, replicas: int) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=replicas)
    return CreateTopicsRequest(topics=[topic], timeout_ms=10_000)


@on_loop
async def test_controllers_and_brokers_in_nodes_of_their_own(tmp_path: Path) -> None:
    async with nodes_in(tmp_path) as nodes:
        controllers = [nodes.node(3000 + index) for index in range(3)]
        await nodes.start(*controllers)
        brokers = [nodes.node(1), nodes.node(2)]
        await nodes.start(*brokers)
        async with channel_to(brokers[0].port) as peer:
            created = await peer.ask(one_topic("t", 2))
            assert created.topics[0].error_code == 0
            await until(lambda: all("t" in b.metadata.image.topics for b in brokers))
            described = await peer.ask(DescribeClusterRequest())
            assert [each.broker_id for each in described.brokers] == [1, 2]
            quorum = await peer.ask(_metadata_quorum())
            partition = quorum.topics[0].partitions[0]
            assert sorted(each.replica_id for each in partition.current_voters) == [
                3000,
                3001,
                3002,
            ]
            assert sorted(each.replica_id for each in partition.observers) == [1, 2]
        async with channel_to(nodes.ports[0]) as peer:
            await until(lambda: len(controllers[0].metadata.image.controllers) == 3)
            described = await peer.ask(DescribeClusterRequest(endpoint_type=2))
            assert [each.broker_id for each in described.brokers] == [3000, 3001, 3002]
            assert described.controller_id == controllers[0].quorum.raft.leader_id


def _metadata_quorum() -> Any:
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    topic = DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=[partition])
    return DescribeQuorumRequest(topics=[topic])


@on_loop
async def test_a_broker_of_another_cluster_is_refused(tmp_path: Path) -> None:
    async with nodes_in(tmp_path) as nodes:
        controllers = [nodes.node(3000 + index) for index in range(3)]
        await nodes.start(*controllers)
        stranger = nodes.node(1, OTHER_CLUSTER_ID)
        said = rf"belongs to the cluster {OTHER_CLUSTER_ID}, but the controllers at .* Correct"
        with pytest.raises(StorageError, match=said):
            await nodes.start(stranger)


@on_loop
async def test_another_nodes_directory_is_refused_and_kept(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    nodes.node(3000)
    before = contents(tmp_path / "3000")
    mistaken = Node(
        BrokerConfig(nodes.settings(3001, log_dirs=str(tmp_path / "3000"))), real_world()
    )
    with pytest.raises(StorageError, match="3000"):
        await mistaken.start()
    assert contents(tmp_path / "3000") == before


@on_loop
async def test_other_voters_than_the_log_knows_are_refused(tmp_path: Path) -> None:
    async with nodes_in(tmp_path) as nodes:
        first = [nodes.node(3000 + index) for index in range(3)]
        await nodes.start(*first)
        await until(lambda: any(each.quorum.raft.is_leader for each in first))
        await asyncio.gather(*(each.stop(controlled=False) for each in first))
        alone = BrokerConfig(
            nodes.settings(3000, controller_quorum_voters=f"3000@127.0.0.1:{nodes.ports[0]}")
        )
        node = Node(alone, real_world())
        with pytest.raises(StorageError, match="voters"):
            await node.start()


@on_loop
async def test_a_failed_directory_moves_the_leaderships_that_were_in_it(tmp_path: Path) -> None:
    async with nodes_in(tmp_path) as nodes:
        await nodes.start(*(nodes.node(3000 + index) for index in range(3)))
        two = [
            nodes.node(
                node_id,
                log_dirs=f"{tmp_path}/{node_id}a,{tmp_path}/{node_id}b",
                broker_heartbeat_interval_ms="200",
            )
            for node_id in (1, 2)
        ]
        await nodes.start(*two)
        async with channel_to(two[0].port) as peer:
            topic = CreatableTopic(name="t", num_partitions=6, replication_factor=2)
            created = await peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
            assert created.topics[0].error_code == 0
        await until(lambda: all("t" in node.metadata.image.topics for node in two))

        def is_told(node: Node) -> bool:
            partitions = two[0].metadata.image.topics["t"].partitions
            for index, partition in partitions.items():
                log = node.replicas.partitions["t", index].log
                meta = node.quorum.directories[log.parent_directory] if log else None
                if meta is None or partition.directory(node.node_id) != meta.directory_id:
                    return False
            return True

        await until(lambda: is_told(two[0]) and is_told(two[1]))
        failing = f"{tmp_path}/1a"
        lost = [
            partition.index
            for partition in two[0].replicas.partitions.values()
            if partition.log is not None and partition.log.parent_directory == failing
        ]
        assert lost
        two[0].replicas.directory_failed(failing, OSError(5, "Input/output error"))
        await until(
            lambda: all(
                two[1].metadata.image.topics["t"].partitions[index].leader == 2 for index in lost
            )
        )
