"""Rows, ratios and the table.

A row's ratio is Barnabas's median over Apache Kafka's median of the same run. For most rows more is
better; for times, memory and processor time less is. `aim` is the ratio the project wants.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Samples = dict[str, dict[str, list[float]]]


@dataclass(frozen=True, slots=True)
class Row:
    """`aim` is a lower bound when `more_is_better`, an upper bound otherwise."""

    key: str
    title: str
    unit: str
    aim: float | None
    more_is_better: bool = True


ROWS = (
    Row("produce_100", "produce 100 B, librdkafka, 4 partitions", "records/s", 1.2),
    Row("produce_1k", "produce 1 KB, the same", "records/s", 1.0),
    Row("single", "one-record produce, one in flight", "requests/s", 1.5),
    Row("pipelined", "one-record produce, pipelined", "requests/s", 3.0),
    Row("consume", "consume 100 B, librdkafka", "records/s", 1.0),
    Row("cpu_s", "broker CPU for the above", "s", 0.4, more_is_better=False),
    Row("start_s", "start to first Metadata answer", "s", 0.25, more_is_better=False),
    Row("format_s", "format before the first start", "s", None, more_is_better=False),
    Row("rss_idle", "RSS idle", "MB", 0.2, more_is_better=False),
    Row("rss_loaded", "RSS after the load", "MB", 0.2, more_is_better=False),
    Row("list_s", "command: list the topics", "s", 0.2, more_is_better=False),
    Row("p50_ms", "end-to-end latency p50", "ms", None, more_is_better=False),
    Row("p99_ms", "end-to-end latency p99", "ms", None, more_is_better=False),
    Row("cluster_produce", "3 nodes: produce 100 B, acks=all", "records/s", None),
    Row("cluster_p50_ms", "3 nodes: acks=all p50", "ms", None, more_is_better=False),
    Row("cluster_p99_ms", "3 nodes: acks=all p99", "ms", None, more_is_better=False),
    Row("leader_s", "3 nodes: leader killed to next produce", "s", None, more_is_better=False),
    Row("controller_s", "3 nodes: controller killed to new topic", "s", None, more_is_better=False),
    Row("replicas_1000_s", "3 nodes: start with 1,000 replicas", "s", None, more_is_better=False),
    Row("replicas_100_s", "3 nodes: start with 100 replicas", "s", None, more_is_better=False),
)


def number(value: float) -> str:
    if value >= 100_000:
        return f"{value / 1000:,.0f} k"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def scaling_rows(samples: Samples) -> list[Row]:
    """The rows of the two ladders, named by their step, in the order they were measured."""
    rows = []
    for key in dict.fromkeys(key for system in samples.values() for key in system):
        kind, _, rest = key.partition("@")
        if not rest:
            continue
        count, what = rest.split(":")
        title = f"{int(count):,} {kind}"
        if what == "per_s":
            rows.append(Row(key, f"{title}: produce", "per s", None))
        elif what == "cpu_us":
            rows.append(Row(key, f"{title}: broker CPU", "µs each", None, more_is_better=False))
        else:
            rows.append(Row(key, f"{title}: RSS", "MB", None, more_is_better=False))
    return rows


def table(samples: Samples) -> str:
    """The whole table as text."""
    lines = [
        f"{'workload':<42} {'Barnabas':>10} {'Kafka':>10}  {'unit':<10} {'ratio':>6}  aim",
        "-" * 92,
    ]
    for row in (*ROWS, *scaling_rows(samples)):
        ours = samples.get("barnabas", {}).get(row.key, [])
        theirs = samples.get("kafka", {}).get(row.key, [])
        if ours or theirs:
            lines.append(line(row, ours, theirs))
    return "\n".join(lines)


def line(row: Row, ours: list[float], theirs: list[float]) -> str:
    shown = [number(statistics.median(values)) if values else "-" for values in (ours, theirs)]
    found = ratio(ours, theirs)
    verdict = ""
    if row.aim is not None:
        verdict = f"{'≥' if row.more_is_better else '≤'} {row.aim:g}"
        if found is not None:
            met = found >= row.aim if row.more_is_better else found <= row.aim
            verdict += "" if met else "  missed"
    text = f"{found:.2f}" if found is not None else "-"
    return f"{row.title:<42} {shown[0]:>10} {shown[1]:>10}  {row.unit:<10} {text:>6}  {verdict}"


def ratio(ours: list[float], theirs: list[float]) -> float | None:
    if not ours or not theirs or not statistics.median(theirs):
        return None
    return statistics.median(ours) / statistics.median(theirs)


def write(samples: Samples, directory: Path, facts: dict[str, Any]) -> Path:
    """Everything measured, each sample by itself, as JSON named after the time of the run."""
    keys = {key for system in samples.values() for key in system}
    ratios = {
        key: ratio(samples["barnabas"].get(key, []), samples.get("kafka", {}).get(key, []))
        for key in sorted(keys)
    }
    return save(directory, "", {**facts, "ratios": ratios, "samples": samples})


def write_clients(samples: Any, directory: Path, facts: dict[str, Any]) -> Path:
    """The same for the clients."""
    return save(directory, "clients-", {**facts, "samples": samples})


def save(directory: Path, prefix: str, document: dict[str, Any]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / time.strftime(f"{prefix}%Y-%m-%dT%H-%M-%S.json")
    machine = {
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    path.write_text(json.dumps({"machine": machine, **document}, indent=2) + "\n")
    return path
