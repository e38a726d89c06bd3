"""How a query is getting on, from what Spark reports of its micro-batches.

Spark keeps the reports of the last batches; `Progress.update` adds up those not seen yet. Lag is how
many records the source has that the query has not read: for sources that give offsets by topic and
partition it is the difference of the latest and the reached ones.

A query's progress is also one small JSON file in the pipeline's home, replaced as a whole after each
change, so that `barnabas pipeline status` needs no Spark and works from any process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass
class Progress:
    job: str
    state: str = "starting"
    batches: int = 0
    rows: int = 0
    rows_per_second: float = 0.0
    lag: int | None = None
    batch_ms: int = 0
    slowest_batch_ms: int = 0
    busy_ms: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    dropped_late: int = 0
    watermark: str | None = None
    error: str | None = None
    updated_ms: int = 0
    _seen: tuple[str, int] = ("", -1)

    def update(self, reports: Iterable[Mapping[str, Any]]) -> bool:
        """Adds the batches that were not seen; whether there were any."""
        changed = False
        for report in reports:
            identity = (str(report["runId"]), int(report["batchId"]))
            if identity[0] == self._seen[0] and identity[1] <= self._seen[1]:
                continue
            if not report.get("durationMs", {}).get("addBatch"):
                continue  # an idle trigger
            self._seen = identity
            self._add(report)
            changed = True
        return changed

    def _add(self, report: Mapping[str, Any]) -> None:
        self.batches += 1
        self.rows += int(report["numInputRows"])
        self.batch_ms = int(report["batchDuration"])
        self.busy_ms += self.batch_ms
        self.slowest_batch_ms = max(self.slowest_batch_ms, self.batch_ms)
        self.rows_per_second = round(self.rows * 1000 / max(1, self.busy_ms), 1)
        lags = [lag for lag in map(_lag, report["sources"]) if lag is not None]
        self.lag = sum(lags) if lags else None
        operators = report.get("stateOperators") or []
        self.state_rows = sum(int(o["numRowsTotal"]) for o in operators)
        self.state_bytes = sum(int(o["memoryUsedBytes"]) for o in operators)
        self.dropped_late += sum(int(o["numRowsDroppedByWatermark"]) for o in operators)
        self.watermark = (report.get("eventTime") or {}).get("watermark", self.watermark)

    def line(self) -> str:
        """One line for a person."""
        parts = [
            f"{self.job:<18}{self.state:<9}batch {self.batches:>4}",
            f"{self.rows:>10,} rows",
            f"{self.rows_per_second:>9,.0f} rows/s",
            f"batch {self.batch_ms:>6,} ms",
        ]
        if self.lag is not None:
            parts.append(f"lag {self.lag:,}")
        if self.state_rows:
            parts.append(f"state {self.state_rows:,} rows")
        return "  ".join(parts)


def _lag(source: Mapping[str, Any]) -> int | None:
    latest, reached = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
    if latest is None or reached is None:
        return None
    return sum(max(0, end - reached.get(where, 0)) for where, end in latest.items())


def _offsets(value: Any) -> dict[tuple[str, str], int] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, dict):
        return None
    found = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, dict):
            return None
        for partition, offset in partitions.items():
            found[topic, str(partition)] = int(offset)
    return found


def save(directory: Path, progress: Progress, now_ms: int) -> None:
    progress.updated_ms = now_ms
    values = {name: value for name, value in asdict(progress).items() if not name.startswith("_")}
    directory.mkdir(parents=True, exist_ok=True)
    draft = directory / f"{progress.job}.json.tmp"
    draft.write_text(json.dumps(values), encoding="utf-8")
    os.replace(draft, directory / f"{progress.job}.json")


def load(directory: Path) -> list[dict[str, Any]]:
    """What was last saved of each job, by name."""
    if not directory.is_dir():
        return []
    return [json.loads(path.read_text("utf-8")) for path in sorted(directory.glob("*.json"))]
