"""One workload in a client process of its own: `python -m bench.workloads NAME JSON`.

The parent starts it, so that a client's work is never counted as a broker's; the answer is one line
of JSON on standard output.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from tests.peers.apache import ROOT
from tests.peers.topics import create_topic

from bench import librdkafka, raw

TIMEOUT_S = 600.0
WARM_UP_PART = 5  # a fifth of the work goes first and is not counted: a JVM compiles as it runs


def produce(bootstrap: str, topic: str, partitions: int, size: int, count: int) -> dict[str, float]:
    create_topic(bootstrap, topic, partitions)
    load = librdkafka.Load(topic, partitions, size)
    load.produce(bootstrap, count // WARM_UP_PART)
    elapsed = load.produce(bootstrap, count)
    return {"per_s": count / elapsed}


def consume(bootstrap: str, topic: str, partitions: int, count: int) -> dict[str, float]:
    return {"per_s": count / librdkafka.consume(bootstrap, topic, partitions, count)}


def single(bootstrap: str, topic: str, seconds: float) -> dict[str, float]:
    create_topic(bootstrap, topic, 1)
    raw.one_in_flight(bootstrap, topic, seconds / WARM_UP_PART)
    return {"per_s": raw.one_in_flight(bootstrap, topic, seconds)}


def pipelined(bootstrap: str, topic: str, seconds: float) -> dict[str, float]:
    create_topic(bootstrap, topic, 1)
    raw.pipelined(bootstrap, topic, seconds / WARM_UP_PART)
    return {"per_s": raw.pipelined(bootstrap, topic, seconds)}


def connections(bootstrap: str, topic: str, seconds: float, connections: int) -> dict[str, float]:
    create_topic(bootstrap, topic, 1)
    raw.many_connections(bootstrap, topic, seconds / WARM_UP_PART, connections)
    return {"per_s": raw.many_connections(bootstrap, topic, seconds, connections)}


def latency(bootstrap: str, topic: str, count: int) -> dict[str, float]:
    create_topic(bootstrap, topic, 1)
    times = librdkafka.round_trips(bootstrap, topic, count)
    cuts = statistics.quantiles(times, n=100)
    return {"p50_ms": cuts[49], "p99_ms": cuts[98]}


def replicated(
    bootstrap: str, topic: str, partitions: int, size: int, count: int
) -> dict[str, float]:
    """On a topic that is there: acks=all, so that every record is on every node in sync."""
    load = librdkafka.Load(topic, partitions, size, "all")
    load.produce(bootstrap, count // WARM_UP_PART)
    before = librdkafka.end_offsets(bootstrap, topic, partitions)
    elapsed = load.produce(bootstrap, count)
    found = librdkafka.end_offsets(bootstrap, topic, partitions) - before
    assert found >= count * 0.99, f"only {found} of {count} records are there"
    return {"per_s": found / elapsed}


def acknowledged(bootstrap: str, topic: str, count: int) -> dict[str, float]:
    cuts = statistics.quantiles(librdkafka.acknowledgements(bootstrap, topic, count), n=100)
    return {"p50_ms": cuts[49], "p99_ms": cuts[98]}


WORKLOADS: dict[str, Callable[..., dict[str, float]]] = {
    "produce": produce,
    "consume": consume,
    "single": single,
    "pipelined": pipelined,
    "connections": connections,
    "latency": latency,
    "replicated": replicated,
    "acknowledged": acknowledged,
}


def run(name: str, **arguments: Any) -> dict[str, float]:
    """Runs a workload in a fresh process and waits for its answer."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.workloads", name, json.dumps(arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"workload {name} failed\n{done.stderr[-3000:]}")
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


if __name__ == "__main__":
    print(json.dumps(WORKLOADS[sys.argv[1]](**json.loads(sys.argv[2]))), flush=True)
