"""Several nodes on one machine: their settings, ports and directories.

Every node has both roles and a directory of its own under the cluster's. What it was started with
stands beside it in a properties file, so that the same directory gives the same cluster again, on
the same ports: the voters are known by them. The file is all that a node needs; it can also be
started by hand.
"""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.config.broker import BrokerConfig
from barnabas.config.properties import read_properties
from barnabas.controller.format import format_storage, random_cluster_id
from barnabas.controller.initial_controllers import show_initial_controllers
from barnabas.log.disk import RealDisk
from barnabas.raft.errors import StorageError
from barnabas.raft.voters import VoterEndpoint, VoterNode, VoterSet
from barnabas.wire import uuids

DEFAULTS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "10",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}
CONTROLLER = "CONTROLLER"


@dataclass(frozen=True, slots=True)
class NodePlan:
    node_id: int
    file: str
    settings: Mapping[str, str]


def plan_cluster(
    data: str,
    nodes: int,
    *,
    host: str = "localhost",
    first_port: int = 0,
    overrides: Mapping[str, str] | None = None,
) -> list[NodePlan]:
    """The nodes of the cluster in `data`, formatted; one that is there already is taken as it is."""
    found = sorted(
        (
            name
            for name in _names(data)
            if name.startswith("node-") and name.endswith(".properties")
        ),
        key=len,
    )
    if found and len(found) != nodes:
        raise StorageError(
            f"{data} holds a cluster of {len(found)} nodes, not of {nodes}; use --nodes "
            f"{len(found)}, or another directory"
        )
    if not found and _is_formatted(data):
        raise StorageError(
            f"{data} holds the data of a single node; use another directory for a cluster"
        )
    if not found:
        _write_plans(data, nodes, host, first_port)
    plans = []
    for node_id in range(1, nodes + 1):
        file = os.path.join(data, f"node-{node_id}.properties")
        with open(file, encoding="utf-8") as properties:
            settings = {**read_properties(properties.read()), **(overrides or {})}
        plans.append(NodePlan(node_id, file, settings))
    return plans


def _names(data: str) -> list[str]:
    return os.listdir(data) if os.path.isdir(data) else []


def _is_formatted(data: str) -> bool:
    return os.path.exists(os.path.join(data, "meta.properties"))


def _write_plans(data: str, nodes: int, host: str, first_port: int) -> None:
    randomness = random.SystemRandom()
    cluster_id = random_cluster_id(randomness)
    bracketed = f"[{host}]" if ":" in host else host
    chosen = _free_ports(host, nodes if first_port else 2 * nodes)
    controllers = chosen[:nodes]
    brokers = [first_port + index for index in range(nodes)] if first_port else chosen[nodes:]
    voters = VoterSet(
        tuple(
            VoterNode(
                node_id,
                uuids.random_uuid(randomness.randbytes),
                (VoterEndpoint(CONTROLLER, host, controllers[node_id - 1]),),
            )
            for node_id in range(1, nodes + 1)
        )
    )
    servers = ",".join(f"{bracketed}:{port}" for port in controllers)
    replicas = str(min(nodes, 3))
    os.makedirs(data, exist_ok=True)
    for node_id in range(1, nodes + 1):
        settings = {
            "node.id": str(node_id),
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{bracketed}:{brokers[node_id - 1]},"
            f"{CONTROLLER}://{bracketed}:{controllers[node_id - 1]}",
            "controller.listener.names": CONTROLLER,
            "controller.quorum.bootstrap.servers": servers,
            "log.dirs": os.path.join(data, f"node-{node_id}"),
            **DEFAULTS,
            "default.replication.factor": replicas,
            "min.insync.replicas": "2" if nodes >= 3 else "1",
            "offsets.topic.replication.factor": replicas,
        }
        format_storage(
            RealDisk(),
            BrokerConfig(settings),
            cluster_id=cluster_id,
            randomness=randomness,
            now_ms=time.time_ns() // 1_000_000,
            initial_controllers=show_initial_controllers(voters),
            ignore_formatted=True,
        )
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        # Last: a directory with these files is a whole cluster.
        RealDisk().write_atomically(os.path.join(data, f"node-{node_id}.properties"), text.encode())


def _free_ports(host: str, count: int) -> list[int]:
    """Ports that are free now on every address of `host`."""
    held: list[socket.socket] = []
    ports: list[int] = []
    try:
        while len(ports) < count:
            taken = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
            held.append(taken)
            taken.bind((host if host not in ("", "0.0.0.0", "::") else "", 0))
            ports.append(taken.getsockname()[1])
    finally:
        for each in held:
            each.close()
    return ports
