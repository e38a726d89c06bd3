"""State stays bounded on a long, skewed run: what windows and ids needed is given back. It takes
minutes, so it runs only if asked for: make spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from barnabas.spark import runner
from barnabas.spark.generator import Settings as TrafficSettings
from barnabas.spark.generator import Traffic
from barnabas.spark.jobs import collect
from barnabas.spark.jobs.registry import JOBS
from barnabas.spark.pipeline import Pipeline, Settings
from barnabas.spark.progress import Progress
from tests.spark.conftest import Generated

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("BARNABAS_SPARK_LONG"), reason="minutes long: make spark"
    ),
    pytest.mark.timeout(900),
]

DAYS = 10
FILES = 20


@pytest.mark.parametrize("name", ["account-switching", "invite-fraud", "collect"])
def test_state_does_not_grow_with_time(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # Ids are remembered by the query's own time, of which a test has little.
    monkeypatch.setattr(collect, "REMEMBERED", "1 second")
    count = 30_000
    rate = count / (DAYS * 24 * 3600)
    traffic = Traffic(TrafficSettings(seed=2, count=count, rate=rate, skew=3, cheaters=5))
    generated = Generated(list(traffic.records()), traffic.truth)
    records = generated.write(tmp_path / "topics", files=FILES)
    pipeline = Pipeline(spark, Settings(str(tmp_path), records, max_records=1))
    sizes: list[int] = []

    def note(progress: Progress) -> None:
        sizes.append(progress.state_rows)

    (progress,) = runner.run(pipeline, [JOBS[name]], once=True, on_progress=note)
    half = len(sizes) // 2
    assert half >= FILES // 4
    assert progress.dropped_late == 0
    assert max(sizes[half:]) <= 2 * max(sizes[:half])
    assert max(sizes) < progress.rows / 2
