"""What simulated clusters taught about starting a node, told one by one."""

from __future__ import annotations

import pytest

from barnabas.log.log import Log
from barnabas.sim.simulation import Simulation
from tests.sim.world import SECOND_NS


def test_a_disk_that_fails_while_a_node_waits_for_the_quorum_ends_its_start() -> None:
    simulation = Simulation(0, 3)
    machine = simulation.machines[0]
    machine.start()
    simulation.scheduler.run(2 * SECOND_NS)
    assert machine.node is not None
    assert not machine.is_running
    machine.loop.call_soon(machine.node.metadata_failed, OSError("worn out"))  # type: ignore[union-attr]
    simulation.scheduler.run(20 * SECOND_NS)
    assert simulation.failure is not None
    assert "node0 could not start: StorageError" in simulation.failure
    assert "worn out" in simulation.failure


def test_a_node_never_leads_in_an_epoch_older_than_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the metadata log tells of long ago is not acted upon while it is replayed."""
    begin = Log.start_leader_epoch
    begun = []

    def watched(self: Log, leader_epoch: int) -> None:
        assert leader_epoch >= self.epochs.latest
        begun.append(leader_epoch)
        begin(self, leader_epoch)

    monkeypatch.setattr(Log, "start_leader_epoch", watched)
    for seed in range(15):
        assert Simulation(seed, 3).run().failure is None
    assert max(begun) > 3
