"""A real broker, or a cluster of them, inside this process, for tests.

It is the same broker as in production, with its own event loop in a thread of its own, on a free port,
with its data in a temporary directory that goes away with it. Any Kafka client can use it:

    with Cluster() as cluster:
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})

Starting takes a few milliseconds, as nothing is forked, formatted by hand or waited for. With
`nodes=3` three nodes form a quorum and replicate to one another; each can be killed and started again:

    with Cluster(nodes=3) as cluster:
        topic = cluster.create_topic("orders")
        cluster.kill(cluster.leader_of(topic))
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tempfile
import threading
from collections.abc import Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    from barnabas.server.local_cluster import NodePlan
    from barnabas.server.node import Node
    from barnabas.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest

T = TypeVar("T")

logger = logging.getLogger(__name__)

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
KNOWN_TIMEOUT_MS = 10_000


class Cluster:
    """`nodes` brokers, each with the controller role too; `overrides` are broker settings; `data` a
    directory to keep, in place of a temporary one."""

    def __init__(
        self,
        *,
        nodes: int = 1,
        overrides: Mapping[str, object] | None = None,
        data: str | Path | None = None,
        port: int = 0,
    ) -> None:
        if nodes < 1:
            raise ValueError(f"a cluster has at least one node, not {nodes}")
        self._overrides = {key: _text(value) for key, value in (overrides or {}).items()}
        self._port = port
        self._count = nodes
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if data is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="barnabas-")
            data = self._temporary.name
        self.data = Path(data)
        self.nodes: dict[int, Node] = {}
        """The running nodes by id. Their loop is in another thread: look, do not touch."""
        self._plans: list[NodePlan] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ended: asyncio.Event | None = None

    @property
    def node(self) -> Node:
        """The running broker, or the first of them. Look, do not touch."""
        if not self.nodes:
            raise RuntimeError(
                "the cluster is not running; use it as a context manager or call start()"
            )
        return self.nodes[min(self.nodes)]

    @property
    def bootstrap_servers(self) -> str:
        """Of all nodes that run."""
        if not self.nodes:
            return self.node.bootstrap_servers
        return ",".join(self.nodes[each].bootstrap_servers for each in sorted(self.nodes))

    @property
    def cluster_id(self) -> str:
        return self.node.cluster_id

    @property
    def controller_id(self) -> int | None:
        """The node whose controller is active, as far as the running nodes know."""
        for node_id, node in tuple(self.nodes.items()):
            if node.quorum.raft.is_leader:
                return node_id
        return None

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The broker that leads a partition, -1 if none does."""
        found = self.node.metadata.image.partition(topic, partition)
        return -1 if found is None else found.leader

    def start(self) -> Self:
        if self._thread is not None:
            raise RuntimeError("the cluster is already running")
        started: threading.Event = threading.Event()
        failure: list[BaseException] = []
        self._thread = threading.Thread(
            target=self._run, args=(started, failure), name="barnabas", daemon=True
        )
        self._thread.start()
        if not started.wait(START_TIMEOUT_S):
            raise TimeoutError(f"the broker did not start within {START_TIMEOUT_S:.0f} s")
        if failure:
            self._thread.join()
            self._thread = None
            raise failure[0]
        return self

    def stop(self) -> None:
        """Shut down cleanly. The data stays until `close()` if it is temporary."""
        if self._thread is None or self._loop is None:
            return
        loop, ended = self._loop, self._ended
        assert ended is not None
        with contextlib.suppress(RuntimeError):  # it may have stopped by itself, and its loop too
            loop.call_soon_threadsafe(ended.set)
        self._thread.join(STOP_TIMEOUT_S)
        if self._thread.is_alive():
            raise TimeoutError(f"the broker did not stop within {STOP_TIMEOUT_S:.0f} s")
        self._thread = self._loop = self._ended = None
        self.nodes = {}

    def restart(self) -> None:
        """Stop and start everything, on the same data and the same ports."""
        if self._count == 1:
            self._port = self.node.port
        self.stop()
        self.start()

    def kill(self, node_id: int) -> None:
        """End one node as if its process had died."""
        node = self.nodes.pop(node_id)
        self._do(node.kill())

    def stop_node(self, node_id: int) -> None:
        """Shut one node down cleanly."""
        node = self.nodes.pop(node_id)
        self._do(node.stop())

    def start_node(self, node_id: int) -> None:
        """Start a node that was killed or stopped, on its data and its ports."""
        if node_id in self.nodes:
            raise RuntimeError(f"node {node_id} is running")
        self._do(self._start_node(node_id))

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise RuntimeError("the cluster is not running")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_TIMEOUT_S)

    async def _start_node(self, node_id: int) -> None:
        node = self._make(node_id)
        await node.start()
        self.nodes[node_id] = node

    def close(self) -> None:
        self.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, object] | None = None,
        replication_factor: int | None = None,
    ) -> str:
        """Create a topic and wait until it can be used; gives its name. Without a replication factor
        it gets as many replicas as there are nodes, at most three."""
        from barnabas.wire.errors import ApiError, ErrorCode
        from barnabas.wire.messages.create_topics import (
            CreatableTopic,
            CreatableTopicConfig,
            CreateTopicsRequest,
        )

        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=replication_factor or min(self._count, 3),
                    configs=[
                        CreatableTopicConfig(name=key, value=_text(value))
                        for key, value in (configs or {}).items()
                    ],
                )
            ]
        )
        result = self._do(self._create_topic(name, request))
        if result.error_code:
            raise ApiError(ErrorCode.of(result.error_code), result.error_message)
        return name

    async def _create_topic(self, name: str, request: CreateTopicsRequest) -> CreatableTopicResult:
        response = await self.node.controller.create_topics(request)
        result: CreatableTopicResult = response.topics[0]
        if not result.error_code:
            for node in tuple(self.nodes.values()):
                await node.until_known(lambda image: name in image.topics, KNOWN_TIMEOUT_MS)
        return result

    def _run(self, started: threading.Event, failure: list[BaseException]) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            self._ended = asyncio.Event()
            try:
                await self._start_all()
            except BaseException as error:
                failure.append(error)
                await self._stop_all()
                started.set()
                return
            started.set()
            waits = [
                asyncio.create_task(self._ended.wait()),
                *([asyncio.create_task(self.node.stopped())] if self._count == 1 else []),
            ]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
            await self._stop_all()

        asyncio.run(main())

    async def _start_all(self) -> None:
        if self._count > 1:
            from barnabas.server.local_cluster import plan_cluster

            self._plans = plan_cluster(
                str(self.data), self._count, host="127.0.0.1", overrides=self._overrides
            )
        starts = [self._start_node(node_id) for node_id in range(1, self._count + 1)]
        results = await asyncio.gather(*starts, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _stop_all(self) -> None:
        """All at once: nobody is left to take over, so leaderships are not moved first."""
        stops = [node.stop(controlled=self._count == 1) for node in self.nodes.values()]
        await asyncio.gather(*stops, return_exceptions=True)

    def _make(self, node_id: int) -> Node:
        from barnabas.config.support import warnings

        node: Node
        if self._count == 1:
            from barnabas.server.development import development_node

            node = development_node(data=str(self.data), port=self._port, overrides=self._overrides)
        else:
            from barnabas.config.broker import BrokerConfig
            from barnabas.server.node import Node as ClusterNode
            from barnabas.server.node import real_world

            node = ClusterNode(BrokerConfig(self._plans[node_id - 1].settings), real_world())
        for warning in warnings(node.static_config):
            logger.warning("%s", warning)
        return node

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
