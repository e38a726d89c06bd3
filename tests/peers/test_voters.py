"""Apache's kafka-metadata-quorum.sh makes a controller a voter of our quorum, and takes it out."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from barnabas.config.broker import BrokerConfig
from barnabas.controller.format import format_storage
from barnabas.log.disk import RealDisk
from barnabas.server.node import Node, real_world
from barnabas.testing import Cluster
from barnabas.wire import uuids
from tests.peers import apache

TOOL = "org.apache.kafka.tools.MetadataQuorumCommand"


async def started(config: BrokerConfig) -> Node:
    node = Node(config, real_world())
    await node.start()
    return node


def voters(cluster: Cluster) -> list[int]:
    """As the leader knows them."""
    leader = cluster.controller_id
    assert leader is not None
    return sorted(cluster.nodes[leader].quorum.raft.voters.ids)


def test_a_controller_is_added_and_removed(tmp_path: Path) -> None:
    if (reason := apache.missing()) is not None:
        pytest.skip(reason)
    with Cluster(nodes=3) as cluster:
        config = cluster.node.static_config
        settings = {
            "node.id": "4",
            "process.roles": "controller",
            "listeners": f"CONTROLLER://127.0.0.1:{apache.free_port()}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": ",".join(
                config.controller_quorum_bootstrap_servers
            ),
            "log.dirs": str(tmp_path / "data"),
        }
        file = tmp_path / "controller.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        format_storage(
            RealDisk(),
            BrokerConfig(settings),
            cluster_id=cluster.cluster_id,
            randomness=random.SystemRandom(),
            now_ms=1,
            no_initial_controllers=True,
        )
        joining = cluster._do(started(BrokerConfig(settings)))
        try:
            to = ["--bootstrap-server", cluster.bootstrap_servers]
            apache.run_tool(TOOL, [*to, "--command-config", str(file), "add-controller"]).check()
            assert voters(cluster) == [1, 2, 3, 4]
            directory = uuids.to_text(joining.quorum.raft.directory_id)
            who = ["--controller-id", "4", "--controller-directory-id", directory]
            apache.run_tool(TOOL, [*to, "remove-controller", *who]).check()
            assert voters(cluster) == [1, 2, 3]
            shown = apache.run_tool(
                "org.apache.kafka.tools.FeatureCommand", [*to, "describe"]
            ).check()
            (line,) = (each for each in shown.splitlines() if "kraft.version" in each)
            assert "FinalizedVersionLevel: 1" in line
        finally:
            cluster._do(joining.stop())
