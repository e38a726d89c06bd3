"""A whole node on the loop of a test, and peers that speak plain bytes to it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from barnabas.record.build import build_batch
from barnabas.server.development import development_node
from barnabas.server.node import Node
from barnabas.wire.messages import (
    create_topics,
    fetch,
    incremental_alter_configs,
    metadata,
    produce,
)
from tests.server.serving import DEADLINE_S, Peer

BROKER, TOPIC = 4, 2
START_MS = 1_700_000_000_000


class Running:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.peers: list[Peer] = []

    async def connect(
        self, host: str = "127.0.0.1", *, listener: int = 0, receive_buffer_bytes: int = 0
    ) -> Peer:
        sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        if receive_buffer_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.setblocking(False)
        port = self.node.network.listeners[listener].bound.port
        await asyncio.get_running_loop().sock_connect(sock, (host, port))
        peer = Peer(*await asyncio.open_connection(sock=sock, limit=2**16))
        self.peers.append(peer)
        return peer

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                await asyncio.sleep(0.002)


@contextlib.asynccontextmanager
async def running(data: Path, **overrides: object) -> AsyncIterator[Running]:
    """Settings are named with underscores for dots."""
    settings = {name.replace("_", "."): str(value) for name, value in overrides.items()}
    node = development_node(data=str(data), port=0, host="127.0.0.1", overrides=settings)
    await node.start()
    run = Running(node)
    try:
        yield run
    finally:
        for peer in run.peers:
            peer.close()
        await node.stop()


def contents(directory: Path) -> dict[str, bytes]:
    """Every file below a data directory but the lock."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


async def create_topic(peer: Peer, name: str, partitions: int = 1, **configs: str) -> None:
    topic = create_topics.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            create_topics.CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )
    request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    (created,) = (await peer.ask(request, 7)).topics
    assert created.error_code == 0, created.error_message


async def alter(peer: Peer, kind: int, name: str, **changes: str | None) -> tuple[int, str | None]:
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        name=key.replace("_", "."),
                        config_operation=1 if value is None else 0,
                        value=value,
                    )
                    for key, value in changes.items()
                ],
            )
        ]
    )
    (answer,) = (await peer.ask(request, 1)).responses
    return answer.error_code, answer.error_message


def produce_request(topic: str, value: bytes, *, acks: int = -1) -> Any:
    records = memoryview(build_batch([(START_MS, None, value, ())]))
    partition = produce.PartitionProduceData(index=0, records=records)
    data = produce.TopicProduceData(name=topic, partition_data=[partition])
    return produce.ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data])


async def send(peer: Peer, topic: str, value: bytes) -> int:
    """The error code of a Produce."""
    answer = await peer.ask(produce_request(topic, value), 9)
    return int(answer.responses[0].partition_responses[0].error_code)


def fetch_request(topic: str, offset: int, *, max_wait_ms: int = 0, min_bytes: int = 1) -> Any:
    partition = fetch.FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1_048_576
    )
    return fetch.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=52_428_800,
        session_epoch=-1,
        topics=[fetch.FetchTopic(topic=topic, partitions=[partition])],
    )


async def brokers(peer: Peer) -> list[tuple[int, str, int]]:
    answer = await peer.ask(metadata.MetadataRequest(topics=[]), 9)
    return [(each.node_id, each.host, each.port) for each in answer.brokers]
