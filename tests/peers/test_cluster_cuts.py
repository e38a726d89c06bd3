"""Three nodes in network namespaces of their own, and cuts between them under load.

The clients still reach a node that is cut off, which is the worst of cases: a leader without its
followers must not acknowledge, and a controller without a majority must not decide. When the others
have gone on without it, the clients lose it too: one that has all its partitions there would ask it,
and nobody else, where they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers import network
from tests.peers.chaos import ROUNDS, Chaos, rounds
from tests.peers.network import Hosts
from tests.peers.node_cluster import NodeCluster, Plan, start_nodes

FAULTS = (
    ("leader", "apart"),
    ("controller", "apart"),
    ("follower", "mute"),
)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    if (reason := network.missing()) is not None:
        pytest.skip(reason)
    found = Hosts(3)
    yield found
    found.close()


@pytest.fixture
def cluster(hosts: Hosts, tmp_path: Path) -> Iterator[NodeCluster]:
    running = start_nodes(tmp_path, {1: Plan(), 2: Plan(), 3: Plan()}, hosts=hosts)
    yield running
    running.stop()


@pytest.mark.timeout(120 * ROUNDS)
def test_nothing_acknowledged_is_lost_when_the_network_is_cut(
    cluster: NodeCluster, hosts: Hosts
) -> None:
    chaos = Chaos(cluster)

    def apart(node_id: int) -> None:
        hosts.separate([node_id], chaos.others(node_id))

    def mute(node_id: int) -> None:
        """It hears the others, and they do not hear it."""
        for other in chaos.others(node_id):
            hosts.cut(node_id, other)

    def lost(node_id: int) -> None:
        hosts.separate([node_id], [0])

    cuts = {"apart": apart, "mute": mute}
    for victim, fault in rounds(FAULTS):
        chaos.strike(getattr(chaos, victim), cuts[fault], lambda _: hosts.heal(), lost)
    chaos.count()
