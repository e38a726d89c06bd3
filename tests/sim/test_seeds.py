"""Short runs of whole clusters with faults, on all cores. A failure names the seed's replay command.

They are also held against nodes that break their word, because a judge that never says no is none.
"""

from __future__ import annotations

import pytest

from barnabas.log.producer_state import Producers
from barnabas.sim.simulation import Simulation
from barnabas.sim.soak import run_seeds

COUNTS = {1: 150}


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


def first_failure(seeds: int = 30) -> str:
    for seed in range(seeds):
        outcome = Simulation(seed, 1).run()
        if outcome.failure is not None:
            assert f"--seed {seed} " in outcome.replay
            return outcome.failure
    return "none"


def test_a_node_that_only_pretends_to_flush_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.sim.disk.SimulatedFile.sync", lambda self: None)
    assert first_failure() != "none"


def test_a_node_that_forgets_its_producers_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without duplicates being recognised, a batch that is sent again is stored again."""
    monkeypatch.setattr(Producers, "find_duplicate", lambda *given, **named: None)
    assert first_failure() != "none"
