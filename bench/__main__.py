"""`python -m bench`: rounds of the same workloads on both brokers, alternating, then the table."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from tests.peers import apache

from bench import clients, cluster, nodes, report, workloads

PARTITIONS = 4


class Bench:
    """One run. `quick` is for trying it out: a fifth of the work, fewer steps."""

    def __init__(self, systems: list[str], rounds: int, quick: bool, cluster: str | None) -> None:
        self.systems = systems
        self.rounds = rounds
        self.scale = 5 if quick else 1
        self.quick = quick
        self.cluster = cluster
        self.samples: report.Samples = {system: {} for system in systems}
        self.directory = nodes.memory_directory() / f"barnabas-bench-{time.time_ns()}"

    def note(self, system: str, key: str, value: float) -> None:
        self.samples[system].setdefault(key, []).append(value)

    def say(self, system: str, text: str) -> None:
        print(f"  {system:<9} {text}", flush=True)

    def run(self) -> None:
        try:
            for number in range(self.rounds):
                print(f"round {number + 1} of {self.rounds}", flush=True)
                order = self.systems if number % 2 == 0 else self.systems[::-1]
                for system in order:
                    if self.cluster != "only":
                        self.round(system)
                    if self.cluster:
                        self.nodes(system)
            if self.cluster == "only":
                return
            print("ladders: partitions and connections", flush=True)
            for system in self.systems:
                self.ladders(system)
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    def measured(self, node: nodes.Node, key: str, name: str, **arguments: Any) -> None:
        answer = workloads.run(name, bootstrap=node.bootstrap, topic=key, **arguments)
        self.note(node.system, key, answer["per_s"])
        self.say(node.system, f"{key:<12} {report.number(answer['per_s'])}/s")

    def round(self, system: str) -> None:
        node = nodes.start(system, self.directory / system)
        try:
            self.note(system, "start_s", node.start_s)
            self.note(system, "format_s", node.format_s)
            self.note(system, "rss_idle", node.rss_mb())
            self.say(system, f"{'started':<12} {node.start_s:.2f} s, {node.rss_mb():.0f} MB")
            self.load(node)
            self.note(system, "list_s", min(node.list_topics_s() for _ in range(3)))
            answer = workloads.run(
                "latency", bootstrap=node.bootstrap, topic="latency", count=2000 // self.scale
            )
            for key, value in answer.items():
                self.note(system, key, value)
            self.say(system, f"{'latency':<12} p50 {answer['p50_ms']:.2f} ms")
        finally:
            node.stop()

    def nodes(self, system: str) -> None:
        """Three nodes as one cluster."""
        for key, value in cluster.measure(system, self.directory / "cluster", self.scale):
            self.note(system, key, value)
            self.say(system, f"{key:<15} {report.number(value)}")

    def load(self, node: nodes.Node) -> None:
        """The five workloads whose processor time is added up."""
        before = node.cpu_s()
        records = 3_000_000 // self.scale
        self.measured(
            node, "produce_100", "produce", partitions=PARTITIONS, size=100, count=records
        )
        self.measured(
            node, "produce_1k", "produce", partitions=PARTITIONS, size=1024, count=records // 5
        )
        seconds = 5.0 / self.scale
        self.measured(node, "single", "single", seconds=seconds)
        self.measured(node, "pipelined", "pipelined", seconds=seconds)
        answer = workloads.run(
            "consume",
            bootstrap=node.bootstrap,
            topic="produce_100",
            partitions=PARTITIONS,
            count=records // PARTITIONS * PARTITIONS,
        )
        self.note(node.system, "consume", answer["per_s"])
        self.say(node.system, f"{'consume':<12} {report.number(answer['per_s'])}/s")
        self.note(node.system, "cpu_s", node.cpu_s() - before)
        self.note(node.system, "rss_loaded", node.rss_mb())
        self.say(node.system, f"{'CPU':<12} {node.cpu_s() - before:.1f} s, {node.rss_mb():.0f} MB")

    def ladders(self, system: str) -> None:
        """Cost as partitions and connections grow, each step on a topic of its own."""
        node = nodes.start(system, self.directory / system)
        try:
            records = 400_000 // self.scale
            for partitions in (1, 100) if self.quick else (1, 10, 100, 1000):
                before = node.cpu_s()
                answer = workloads.run(
                    "produce", bootstrap=node.bootstrap, topic=f"partitions-{partitions}",
                    partitions=partitions, size=100, count=records,
                )  # fmt: skip
                self.step(node, f"partitions@{partitions}", answer["per_s"],
                          (node.cpu_s() - before) / records)  # fmt: skip
                self.note(system, f"partitions@{partitions}:rss", node.rss_mb())
            seconds = 3.0 / self.scale
            for connections in (1, 100) if self.quick else (1, 10, 100, 500):
                before = node.cpu_s()
                answer = workloads.run(
                    "connections", bootstrap=node.bootstrap, topic=f"connections-{connections}",
                    seconds=seconds, connections=connections,
                )  # fmt: skip
                requests = answer["per_s"] * seconds
                self.step(node, f"connections@{connections}", answer["per_s"],
                          (node.cpu_s() - before) / requests)  # fmt: skip
        finally:
            node.stop()

    def step(self, node: nodes.Node, key: str, per_s: float, cpu_s: float) -> None:
        self.note(node.system, f"{key}:per_s", per_s)
        self.note(node.system, f"{key}:cpu_us", cpu_s * 1e6)
        self.say(node.system, f"{key:<18} {report.number(per_s)}/s, {cpu_s * 1e6:.3g} µs each")


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a fifth of the work")
    parser.add_argument("--only", choices=["barnabas", "kafka"], help="just one of the two")
    parser.add_argument(
        "--cluster", nargs="?", const="also", choices=["also", "only"], help="three nodes as well"
    )
    parser.add_argument(
        "--clients", nargs="?", const="also", choices=["also", "only"],
        help="the Python clients as well, against one Barnabas",
    )  # fmt: skip
    options = parser.parse_args()
    if options.clients == "only":
        compare_clients(options.rounds, options.quick)
        return
    systems = [options.only] if options.only else ["barnabas", "kafka"]
    facts: dict[str, Any] = {"rounds": options.rounds, "quick": options.quick, "kafka": None}
    if "kafka" in systems:
        reason = apache.missing("4.2.1") and apache.missing("4.3.0")
        if options.cluster:
            reason = reason or apache.missing()
        if reason:
            print(f"Apache Kafka is left out, so there are no ratios: {reason}", file=sys.stderr)
            systems.remove("kafka")
        else:
            facts["kafka"] = nodes.kafka_version()
            facts["kafka_cluster"] = apache.VERSION
    bench = Bench(systems, options.rounds, options.quick, options.cluster)
    bench.run()
    if "barnabas" in systems:
        path = report.write(bench.samples, Path(__file__).with_name("results"), facts)
        print(f"\nwritten to {path}")
    print(
        f"\nmedian of {options.rounds}; Apache Kafka {facts['kafka']}, 3 nodes: {apache.VERSION}\n"
    )
    print(report.table(bench.samples))
    if options.clients:
        compare_clients(options.rounds, options.quick)


def compare_clients(rounds: int, quick: bool) -> None:
    directory = nodes.memory_directory() / f"barnabas-bench-clients-{time.time_ns()}"
    compared = clients.ClientBench("barnabas", rounds, quick, directory)
    compared.run()
    facts = {"rounds": rounds, "quick": quick}
    path = report.write_clients(compared.samples, Path(__file__).with_name("results"), facts)
    print(f"\nwritten to {path}\n")
    print(compared.table())


if __name__ == "__main__":
    main()
