"""Short runs of whole clusters with faults, on all cores. A failure names the seed's replay command.

They are also held against nodes that break their word, because a judge that never says no is none.
"""

from __future__ import annotations

import pytest

from barnabas.replica.partition import Partition
from barnabas.sim.simulation import Simulation
from barnabas.sim.soak import run_seeds

COUNTS = {1: 100, 3: 100, 5: 24}


@pytest.mark.parametrize("nodes", COUNTS)
def test_clusters_keep_their_word_and_recover(nodes: int) -> None:
    failures = []
    acknowledged = 0
    for outcome in run_seeds(0, COUNTS[nodes], nodes):
        acknowledged += outcome.acknowledged
        if outcome.failure is not None:
            failures.append(f"{outcome.failure}\n    {outcome.replay}")
    assert not failures, "\n".join(failures)
    assert acknowledged > 20 * COUNTS[nodes]


def first_failure(nodes: int, seeds: int = 30) -> str | None:
    for seed in range(seeds):
        outcome = Simulation(seed, nodes).run()
        if outcome.failure is not None:
            assert f"--seed {seed} " in outcome.replay
            return outcome.failure
    return None


def test_a_node_that_only_pretends_to_flush_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.sim.disk.SimulatedFile.sync", lambda self: None)
    assert first_failure(nodes=1) is not None


def test_a_leader_that_does_not_wait_for_its_followers_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        Partition, "_replicated_below", lambda self, position, log, now_ms: position
    )
    failure = first_failure(nodes=3)
    assert failure is not None
    assert "in sync" in failure


def test_a_coordinator_that_forgets_commits_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The offsets are answered, but the log that another node would load them from lacks them."""
    append = Partition.append

    def forgetful(self, records, *rest, **named):  # type: ignore[no-untyped-def]
        info = append(self, records, *rest, **named)
        if self.topic == "__consumer_offsets" and info.last_offset > 3:
            self.log.truncate_to(info.first_offset)
        return info

    monkeypatch.setattr(Partition, "append", forgetful)
    assert first_failure(nodes=3) is not None
