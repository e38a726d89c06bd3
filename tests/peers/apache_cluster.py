"""Several Apache Kafka nodes as one cluster: three combined nodes on free loopback ports.

`start_cluster(directory)` formats and starts them side by side and waits until every node has seen
every broker. The quorum is dynamic (kraft.version 1), so that voters can be added and removed;
`static=True` gives `controller.quorum.voters` instead. `add_node` starts one more node, of any roles.

    cluster = start_cluster(tmp_path, log_dirs=2)
    cluster.bootstrap            # brokers, comma separated
    cluster.controllers          # controllers, comma separated
    cluster.node(2).kill(); cluster.node(2).restart()
    cluster.stop()

A node's files are in `directory/node-N`: `data` (and `data-2`, … with several log directories),
`server.properties` and `broker.log`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.peers import apache
from tests.peers.apache import ApacheBroker, ToolResult, free_port, run_tool

START_TIMEOUT_S = 90.0
HEAP = "256m"
# A node that dies is noticed soon.
QUICK = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "200",
    "replica.lag.time.max.ms": "2000",
}


@dataclass(slots=True)
class ClusterNode(ApacheBroker):
    """One node; `bootstrap` is empty without the broker role, `controller` without the other."""

    node_id: int = 0
    controller: str = ""
    directory_id: str = ""

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def sees(self, count: int) -> bool:
        return not self.bootstrap or apache.brokers_in_metadata(self.bootstrap) >= count

    @property
    def tail(self) -> str:
        return self.log_file.read_text(errors="replace")[-4000:]

    def pause(self) -> None:
        """SIGSTOP: alive, but silent."""
        assert self.process is not None
        self.process.send_signal(19)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(18)


@dataclass(slots=True)
class ApacheCluster:
    directory: Path
    nodes: dict[int, ClusterNode] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)
    static: bool = False
    log_dirs: int = 1
    initial: str = ""
    voters: str = ""
    version: str = apache.VERSION

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values() if node.bootstrap)

    @property
    def controllers(self) -> str:
        return ",".join(node.controller for node in self.nodes.values() if node.controller)

    def node(self, node_id: int) -> ClusterNode:
        return self.nodes[node_id]

    def wait_for_brokers(self, count: int | None = None) -> None:
        """Until every running broker names `count` brokers (those that run, by default)."""
        deadline = time.monotonic() + START_TIMEOUT_S
        waiting = [node for node in self.nodes.values() if node.process is not None]
        wanted = sum(1 for node in waiting if node.bootstrap) if count is None else count
        while waiting:
            for node in list(waiting):
                if not node.is_running:
                    raise RuntimeError(f"node {node.node_id} ended\n{node.tail}")
                if node.sees(wanted):
                    waiting.remove(node)
                elif time.monotonic() > deadline:
                    raise RuntimeError(
                        f"node {node.node_id} did not see {wanted} brokers\n{node.tail}"
                    )
            time.sleep(0.05)

    def add_node(
        self,
        node_id: int,
        roles: Sequence[str] = ("broker", "controller"),
        overrides: Mapping[str, str] | None = None,
        *,
        start: bool = True,
    ) -> ClusterNode:
        """One more node; with the controller role it is an observer until it is added."""
        node = self._prepare(node_id, roles)
        self._format(node, roles, overrides or {}, initial=False)
        if start:
            node.launch()
            self.wait_for_brokers()
        return node

    def stop(self) -> None:
        """All at once: a node that stops last has no quorum to tell, and does not wait for one."""
        for node in self.nodes.values():
            if node.is_running:
                assert node.process is not None
                node.resume()
                node.process.kill()
        for node in self.nodes.values():
            node.kill()

    def tool(self, name: str, args: Sequence[str], **more: object) -> ToolResult:
        """One of Apache's tools, told where the brokers are."""
        return run_tool(name, ["--bootstrap-server", self.bootstrap, *args], **more)  # type: ignore[arg-type]

    def _host(self, node_id: int) -> str:
        return "127.0.0.1"

    def _prepare(self, node_id: int, roles: Sequence[str]) -> ClusterNode:
        host = self._host(node_id)
        directory = self.directory / f"node-{node_id}"
        directory.mkdir(parents=True, exist_ok=True)
        node = ClusterNode(
            directory,
            f"{host}:{self._port()}" if "broker" in roles else "",
            self.version,
            HEAP,
            node_id=node_id,
            controller=f"{host}:{self._port()}" if "controller" in roles else "",
            directory_id=directory_id(node_id),
        )
        self.nodes[node_id] = node
        return node

    def _port(self) -> int:
        """A free port that no other node of this cluster will use."""
        taken = {
            each.rpartition(":")[2] for each in f"{self.bootstrap},{self.controllers}".split(",")
        }
        while True:
            port = free_port()
            if str(port) not in taken:
                return port

    def _format(
        self, node: ClusterNode, roles: Sequence[str], overrides: Mapping[str, str], initial: bool
    ) -> None:
        properties = self._properties(node, roles, overrides)
        args = ["format", "-t", apache.CLUSTER_ID, "-c", str(properties)]
        if initial and not self.static:
            args += ["--initial-controllers", self.initial]
        elif not self.static:
            args += ["--no-initial-controllers"]
        run_tool("StorageTool", args).check()

    def _properties(
        self, node: ClusterNode, roles: Sequence[str], overrides: Mapping[str, str]
    ) -> Path:
        listeners = [f"PLAINTEXT://{node.bootstrap}"] if node.bootstrap else []
        if node.controller:
            listeners.append(f"CONTROLLER://{node.controller}")
        dirs = [node.data_dir, *(f"{node.data_dir}-{n}" for n in range(2, self.log_dirs + 1))]
        properties = {
            "process.roles": ",".join(roles),
            "node.id": str(node.node_id),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": ",".join(map(str, dirs)),
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.num.partitions": "4",
            "group.initial.rebalance.delay.ms": "0",
            "broker.session.timeout.ms": "6000",
            "broker.heartbeat.interval.ms": "500",
            "replica.lag.time.max.ms": "5000",
            **(
                {"controller.quorum.voters": self.voters}
                if self.static
                else {"controller.quorum.bootstrap.servers": self.controllers}
            ),
            **self.overrides,
            **overrides,
        }
        if len(self.nodes) < 3:
            for name in ("offsets.topic", "transaction.state.log"):
                properties.setdefault(f"{name}.replication.factor", "1")
        path = node.directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return path


def directory_id(node_id: int) -> str:
    """The directory id that a node is formatted with: 16 bytes in Kafka's base64."""
    import base64

    return base64.urlsafe_b64encode(b"peers-cluster-%02d" % node_id).decode().rstrip("=")


def start_cluster(
    directory: Path | str,
    nodes: int = 3,
    overrides: Mapping[str, str] | None = None,
    *,
    static: bool = False,
    log_dirs: int = 1,
    version: str = apache.VERSION,
) -> ApacheCluster:
    """Combined nodes 1, 2, …, formatted, started side by side and registered.

    A port may be taken between its choice and its use, so a failed start is tried once more.
    """
    try:
        return _start(Path(directory), nodes, overrides, static, log_dirs, version)
    except RuntimeError:
        again = Path(directory) / "again"
        return _start(again, nodes, overrides, static, log_dirs, version)


def _start(
    directory: Path,
    nodes: int,
    overrides: Mapping[str, str] | None,
    static: bool,
    log_dirs: int,
    version: str,
) -> ApacheCluster:
    cluster = ApacheCluster(directory, {}, overrides or {}, static, log_dirs, version=version)
    roles = ("broker", "controller")
    for node_id in range(1, nodes + 1):
        cluster._prepare(node_id, roles)
    members = cluster.nodes.values()
    cluster.initial = ",".join(f"{n.node_id}@{n.controller}:{n.directory_id}" for n in members)
    cluster.voters = ",".join(f"{n.node_id}@{n.controller}" for n in members)
    try:
        for node in members:
            cluster._format(node, roles, {}, initial=True)
            node.launch()
        cluster.wait_for_brokers()
    except BaseException:
        cluster.stop()
        raise
    return cluster
