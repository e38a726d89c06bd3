"""One seed, one trace: in this process, and in others whose hashes are salted differently."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from barnabas.sim.simulation import Simulation

SIZES = [1, 3, 5]


@pytest.mark.parametrize("nodes", SIZES)
def test_a_seed_gives_the_same_trace_twice(nodes: int) -> None:
    for seed in (3, 4):
        outcomes = [Simulation(seed, nodes).run() for _ in range(2)]
        assert outcomes[0] == outcomes[1]


def test_listening_to_the_trace_changes_nothing() -> None:
    lines: list[str] = []
    told = Simulation(5, 3, write=lines.append).run()
    assert told == Simulation(5, 3).run()
    assert len(lines) > 20


def test_other_seeds_give_other_traces() -> None:
    digests = {Simulation(seed, 1).run().digest for seed in range(5)}
    assert len(digests) == 5


@pytest.mark.parametrize("nodes", SIZES)
def test_a_seed_gives_the_same_trace_whatever_the_salt_of_hashes(nodes: int) -> None:
    command = [sys.executable, "-m", "barnabas.sim", "--seed", "6", "--nodes", str(nodes)]
    told = {
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": salt},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        ).stdout
        for salt in ("1", "2", "3")
    }
    assert len(told) == 1
    assert "trace" in told.pop()
