"""A cluster of node processes in which each node is Barnabas's or Apache Kafka's.

    cluster = start_nodes(tmp_path, {1: Plan("barnabas"), 2: Plan("apache", ("broker",))})
    cluster.node(1).kill(); cluster.node(1).restart()
    cluster.stop()

Every node is formatted by its own project's storage tool and started from a property file in
`directory/node-N`; the quorum is dynamic. `State` asks the cluster who leads and who is in sync,
through librdkafka.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from tests.peers import apache
from tests.peers.apache import ToolResult
from tests.peers.apache_cluster import HEAP, ApacheCluster, ClusterNode
from tests.peers.network import Hosts
from tests.peers.wire_connection import Wire

BOTH = ("broker", "controller")
FORMAT_TIMEOUT_S = 30.0
QUICK = {
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "150",
    "replica.lag.time.max.ms": "1500",
    "controller.quorum.election.timeout.ms": "400",
    "controller.quorum.election.backoff.max.ms": "200",
    "controller.quorum.fetch.timeout.ms": "800",
    "offsets.topic.num.partitions": "2",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What one node is to be."""

    project: str = "barnabas"
    roles: Sequence[str] = BOTH
    overrides: Mapping[str, str] = field(default_factory=dict)


def barnabas(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "barnabas.cli.main", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(apache.ROOT / "src"), "NO_COLOR": "1"}


@dataclass(slots=True)
class BarnabasNode(ClusterNode):
    """`barnabas server start` in a process of its own, on a host of its own if there is one."""

    on: Sequence[str] = ()

    def launch(self) -> None:
        properties = str(self.directory / "server.properties")
        command = [*self.on, *barnabas("server", "start", properties)]
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment()
            )

    def format(self, arguments: Sequence[str]) -> ToolResult:
        done = subprocess.run(
            barnabas("storage", *arguments),
            env=environment(),
            capture_output=True,
            text=True,
            timeout=FORMAT_TIMEOUT_S,
            check=False,
        )
        return ToolResult(done.returncode, done.stdout, done.stderr)


@dataclass(slots=True)
class NodeCluster(ApacheCluster):
    """Nodes of either project as one cluster."""

    plans: dict[int, Plan] = field(default_factory=dict)
    features: Sequence[str] = ()
    heap: str = HEAP
    options: Sequence[str] = apache.JVM_OPTIONS
    hosts: Hosts | None = None

    def _host(self, node_id: int) -> str:
        return "127.0.0.1" if self.hosts is None else self.hosts.address(node_id)

    def _prepare(self, node_id: int, roles: Sequence[str]) -> ClusterNode:
        # Not super(): a dataclass with slots is another class than the one its methods close over.
        node = ApacheCluster._prepare(self, node_id, roles)
        if self.plans[node_id].project == "barnabas":
            node = BarnabasNode(
                node.directory,
                node.bootstrap,
                node_id=node_id,
                controller=node.controller,
                directory_id=node.directory_id,
                on=() if self.hosts is None else self.hosts.command(node_id),
            )
            self.nodes[node_id] = node
        node.heap, node.options = self.heap, self.options
        return node

    def _format(
        self, node: ClusterNode, roles: Sequence[str], overrides: Mapping[str, str], initial: bool
    ) -> None:
        properties = self._properties(node, roles, overrides)
        arguments = ["format", "-t", apache.CLUSTER_ID, "-c", str(properties)]
        if initial:
            arguments += ["--initial-controllers", self.initial]
        elif "controller" in roles:
            arguments += ["--no-initial-controllers"]
        if node.controller:
            for feature in self.features:
                arguments += ["--feature", feature]
        if isinstance(node, BarnabasNode):
            node.format(arguments).check()
        else:
            apache.run_tool("StorageTool", arguments).check()

    def kill(self, node_id: int) -> None:
        self.nodes[node_id].kill()

    def start(self, node_id: int) -> None:
        """Launched, not awaited: a node whose quorum is down starts, but does not answer."""
        self.nodes[node_id].launch()

    def logs(self) -> str:
        """The ends of all nodes' logs, for a failure's report."""
        return "\n".join(f"--- node {n.node_id}\n{n.tail}" for n in self.nodes.values())


def start_nodes(
    directory: Path,
    plans: Mapping[int, Plan],
    overrides: Mapping[str, str] | None = None,
    features: Sequence[str] = (),
    heap: str = HEAP,
    options: Sequence[str] = apache.JVM_OPTIONS,
    hosts: Hosts | None = None,
) -> NodeCluster:
    """All nodes, formatted, started side by side and registered; heap and options are a JVM's.

    With `hosts`, node N is Barnabas's and runs on host N.
    """
    settings = {**QUICK, **(overrides or {})}
    cluster = NodeCluster(
        directory,
        overrides=settings,
        plans=dict(plans),
        features=features,
        heap=heap,
        options=options,
        hosts=hosts,
    )
    for node_id, plan in plans.items():
        cluster._prepare(node_id, plan.roles)
    voters = [node for node in cluster.nodes.values() if node.controller]
    cluster.initial = ",".join(f"{n.node_id}@{n.controller}:{n.directory_id}" for n in voters)
    try:
        for node_id, plan in plans.items():
            node = cluster.nodes[node_id]
            cluster._format(node, plan.roles, plan.overrides, initial=bool(node.controller))
            node.launch()
        cluster.wait_for_brokers()
    except BaseException:
        cluster.stop()
        raise
    return cluster


class State:
    """What the cluster says of itself. A question that fails counts as not yet answered."""

    def __init__(self, bootstrap: str) -> None:
        self.admin = AdminClient(
            {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200,
             "socket.timeout.ms": 2000, "log_level": 0}
        )  # fmt: skip

    def create(
        self,
        topic: str,
        partitions: int = 1,
        replicas: int | Sequence[Sequence[int]] = 3,
        config: Mapping[str, str] | None = None,
        within_s: float = 20.0,
    ) -> None:
        """Creates a topic, again if its answer was lost on the way; returns when it is there."""
        if isinstance(replicas, int):
            new = NewTopic(topic, partitions, replicas, config=dict(config or {}))
        else:
            placed = [list(each) for each in replicas]
            new = NewTopic(topic, len(placed), replica_assignment=placed, config=dict(config or {}))

        def created() -> bool:
            try:
                self.admin.create_topics([new], operation_timeout=5)[topic].result(10)
            except KafkaException as error:
                return str(error.args[0].name()) == "TOPIC_ALREADY_EXISTS"
            return True

        until(created, within_s)

    def partitions(self, topic: str) -> dict[int, tuple[int, set[int]]]:
        """Partition -> (leader, in-sync replicas); empty without an answer."""
        try:
            found = self.admin.list_topics(topic, timeout=2).topics[topic]
        except KafkaException:
            return {}
        if found.error is not None:
            return {}
        return {p.id: (p.leader, set(p.isrs)) for p in found.partitions.values()}

    def leader(self, topic: str, partition: int = 0) -> int:
        return self.partitions(topic).get(partition, (-1, set()))[0]

    def in_sync(self, topic: str, count: int) -> bool:
        """Every partition has a leader and `count` replicas in sync."""
        found = self.partitions(topic)
        return bool(found) and all(
            leader >= 0 and len(isr) == count for leader, isr in found.values()
        )


def active_controller(cluster: NodeCluster, other_than: int = -1) -> int:
    """The node that leads the quorum by the latest epoch that anybody knows; -1 without one."""
    latest, found = -1, -1
    for node in cluster.nodes.values():
        if node.node_id == other_than or not node.is_running or not node.controller:
            continue
        try:
            with Wire(node.controller) as wire:
                wire.socket.settimeout(1.0)
                topic = DescribeQuorumRequestTopicData(
                    topic_name="__cluster_metadata",
                    partitions=[DescribeQuorumRequestPartitionData(partition_index=0)],
                )
                answer = wire.ask(DescribeQuorumRequest(topics=[topic]), 2)
        except (OSError, AssertionError):
            continue
        for partition in (p for t in answer.topics for p in t.partitions):
            # Only the leader itself answers without an error.
            if partition.error_code == 0 and partition.leader_epoch > latest:
                latest, found = partition.leader_epoch, partition.leader_id
    return int(found)


def until(condition: Callable[[], object], within_s: float = 20.0, what: str = "") -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not true within {within_s} s {what}"
        time.sleep(0.02)
