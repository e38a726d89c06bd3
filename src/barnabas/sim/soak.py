"""Many seeds on all cores, with a bar that says how far it is."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed

from barnabas.sim.simulation import Outcome, Simulation

SIZES = (1, 3, 5)
WIDTH = 30
SHOWN_FAILURES = 10


def nodes_of(seed: int) -> int:
    return SIZES[seed % len(SIZES)]


def run_seed(seed: int, nodes: int | None) -> Outcome:
    return Simulation(seed, nodes or nodes_of(seed)).run()


def run_seeds(
    first: int, count: int, nodes: int | None, workers: int | None = None
) -> Iterator[Outcome]:
    """Outcomes as they come, from as many processes as there are cores."""
    with ProcessPoolExecutor(workers or len(os.sched_getaffinity(0))) as pool:
        for future in as_completed(
            [pool.submit(run_seed, seed, nodes) for seed in range(first, first + count)]
        ):
            yield future.result()


def soak(first: int, count: int, nodes: int | None) -> int:
    started = time.monotonic()
    failures: list[Outcome] = []
    done = events = records = 0
    virtual_s = 0.0
    for outcome in run_seeds(first, count, nodes):
        done += 1
        events += outcome.events
        virtual_s += outcome.virtual_s
        records += outcome.acknowledged
        if outcome.failure is not None:
            failures.append(outcome)
            if len(failures) <= SHOWN_FAILURES:
                _clear()
                print(f"seed {outcome.seed}: {outcome.failure}\n  replay: {outcome.replay}")
        _draw(done, count, len(failures), time.monotonic() - started)
    _clear()
    print(
        f"{done} seeds, {len(failures)} failed: {virtual_s / 3600:.1f} virtual hours, {events} events, "
        f"{records} records acknowledged, in {time.monotonic() - started:.0f} s"
    )
    return 1 if failures else 0


def _draw(done: int, count: int, failed: int, elapsed_s: float) -> None:
    if not sys.stderr.isatty():
        return
    filled = WIDTH * done // count
    left_s = elapsed_s / done * (count - done)
    bar = "█" * filled + "░" * (WIDTH - filled)
    sys.stderr.write(f"\r{bar} {done}/{count} seeds, {failed} failed, {left_s:.0f} s left \x1b[K")
    sys.stderr.flush()


def _clear() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
