"""Controllers that join and leave the voters of a running quorum, and a quorum that begins with
configured voters and writes them into its log."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from barnabas.config.broker import BrokerConfig
from barnabas.controller.format import format_storage
from barnabas.log.disk import RealDisk
from barnabas.server.node import Node, real_world
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.server.serving import on_loop
from tests.server.test_peer_channel import channel_to
from tests.server.test_roles import CLUSTER_ID, Nodes, free_ports, nodes_in, until


class Quorum(Nodes):
    """Three controllers with configured voters, and others that only know where the quorum is."""

    def newcomer(self, node_id: int, port: int, **more: str) -> Node:
        settings = self.settings(3000) | {
            "node.id": str(node_id),
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "log.dirs": str(self.data / str(node_id)),
            "controller.quorum.bootstrap.servers": ",".join(
                f"127.0.0.1:{each}" for each in self.ports
            ),
            **more,
        }
        del settings["controller.quorum.voters"]
        config = BrokerConfig(settings)
        format_storage(
            RealDisk(),
            config,
            cluster_id=CLUSTER_ID,
            randomness=random.SystemRandom(),
            now_ms=1,
            no_initial_controllers=True,
        )
        return Node(config, real_world())

    async def finalized(self, port: int) -> dict[str, int]:
        request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        async with channel_to(port) as peer:
            found = await peer.ask(request)
        return {each.name: each.max_version_level for each in found.finalized_features}


def voter(node: Node, port: int) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        timeout_ms=10_000,
        voter_id=node.node_id,
        voter_directory_id=node.quorum.raft.directory_id,
        listeners=[Listener(name="CONTROLLER", host="127.0.0.1", port=port)],
    )


def kraft_version(level: int) -> UpdateFeaturesRequest:
    update = FeatureUpdateKey(feature="kraft.version", max_version_level=level, upgrade_type=1)
    return UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[update])


@on_loop
async def test_configured_voters_become_dynamic_and_change(tmp_path: Path) -> None:
    async with nodes_in(tmp_path, Quorum) as nodes:
        controllers = [nodes.node(3000 + index) for index in range(3)]
        await nodes.start(*controllers)
        broker = nodes.node(1)
        await nodes.start(broker)
        assert "kraft.version" not in await nodes.finalized(broker.port)
        joining_port, auto_port = free_ports(2)
        joining = nodes.newcomer(3003, joining_port)
        await nodes.start(joining)
        ids = [3000, 3001, 3002]
        everyone = [*controllers, broker, joining]
        async with channel_to(broker.port) as peer:
            refused = await peer.ask(voter(joining, joining_port))
            assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
            raised = await peer.ask(kraft_version(1))
            assert (raised.error_code, raised.error_message) == (0, None)
            await until(lambda: all(n.quorum.raft.kraft_version == 1 for n in everyone))
            for port in (broker.port, *nodes.ports, joining_port):
                assert (await nodes.finalized(port))["kraft.version"] == 1
            assert list(joining.quorum.raft.voters.ids) == ids

            added = await peer.ask(voter(joining, joining_port))
            assert (added.error_code, added.error_message) == (0, None)
            await until(lambda: all(3003 in n.quorum.raft.voters.ids for n in everyone))
            again = await peer.ask(voter(joining, joining_port))
            assert again.error_code == ErrorCode.DUPLICATE_VOTER

            auto = nodes.newcomer(3004, auto_port, **{"controller.quorum.auto.join.enable": "true"})
            await nodes.start(auto)
            everyone.append(auto)
            await until(lambda: all(3004 in n.quorum.raft.voters.ids for n in everyone))

            # A voter is seen before its record is committed, and until then no other change is taken.
            removal = RemoveRaftVoterRequest(
                cluster_id=CLUSTER_ID,
                voter_id=3003,
                voter_directory_id=joining.quorum.raft.directory_id,
            )
            while (removed := await peer.ask(removal)).error_code == ErrorCode.REQUEST_TIMED_OUT:
                pass
            assert (removed.error_code, removed.error_message) == (0, None)
            await until(lambda: all(3003 not in n.quorum.raft.voters.ids for n in everyone))

        # The log knows the voters now; what the configuration says is of the past.
        await asyncio.gather(*(each.stop(controlled=False) for each in everyone))
        started = [nodes.node(3000 + index) for index in range(3)]
        await nodes.start(*started)
        assert {each.quorum.raft.voters.ids for each in started} == {(*ids, 3004)}
        assert {each.quorum.raft.kraft_version for each in started} == {1}
