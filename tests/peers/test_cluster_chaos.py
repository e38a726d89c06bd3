"""Three node processes whose leader, follower and active controller die or freeze in turn.

`make chaos` does it again and again, in an order that a seed gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.chaos import ROUNDS, Chaos, rounds
from tests.peers.node_cluster import NodeCluster, Plan, start_nodes

FAULTS = (
    ("leader", "kill"),
    ("controller", "kill"),
    ("follower", "freeze"),
    ("leader", "freeze"),
    ("controller", "freeze"),
    ("follower", "kill"),
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NodeCluster]:
    running = start_nodes(tmp_path, {1: Plan(), 2: Plan(), 3: Plan()})
    yield running
    running.stop()


@pytest.mark.timeout(120 * ROUNDS)
def test_nothing_acknowledged_is_lost_or_repeated(cluster: NodeCluster) -> None:
    chaos = Chaos(cluster)
    undo = {chaos.kill: chaos.restart, chaos.freeze: chaos.thaw}
    for victim, fault in rounds(FAULTS):
        begin = getattr(chaos, fault)
        chaos.strike(getattr(chaos, victim), begin, undo[begin])
    chaos.count()
