"""`python -m barnabas.sim`: replay one seed, or run many on all cores.

python -m barnabas.sim --seed 7 --nodes 3 --trace
python -m barnabas.sim --seeds 1000 --nodes 3
"""

from __future__ import annotations

import argparse
import sys

from barnabas.sim.simulation import Simulation
from barnabas.sim.soak import nodes_of, soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m barnabas.sim", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seed", type=int, default=0, help="the seed, or the first of many")
    parser.add_argument("--seeds", type=int, help="run so many seeds, on all cores")
    parser.add_argument("--nodes", type=int, help="nodes of the cluster (default: by the seed)")
    parser.add_argument("--trace", action="store_true", help="tell everything that happens")
    asked = parser.parse_args()
    if asked.seeds is not None:
        return soak(asked.seed, asked.seeds, asked.nodes)
    write = print if asked.trace else None
    outcome = Simulation(asked.seed, asked.nodes or nodes_of(asked.seed), write=write).run()
    print(f"seed {outcome.seed}, {outcome.nodes} nodes: {outcome.summary}")
    if outcome.failure is not None:
        print(f"FAILED: {outcome.failure}")
        print(f"replay: {outcome.replay}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
