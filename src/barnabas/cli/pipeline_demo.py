"""`barnabas pipeline demo`: the whole pipeline on this machine, from nothing to a verdict."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.cli.exits import CommandError
from barnabas.cli.output import Output

if TYPE_CHECKING:
    from barnabas.spark.generator import Settings
    from barnabas.spark.judge import Judgement
    from barnabas.spark.progress import Progress

BROKER_STOP_S = 15
PARTITIONS = 2
BATCHES = 4


@contextmanager
def broker(data: Path) -> Iterator[str]:
    """A broker in a process of its own; its bootstrap address."""
    command = [sys.executable, "-m", "barnabas.cli.main", "up", "--port", "0", "--data", str(data)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        _, found, bootstrap = first.strip().partition("bootstrap=")
        if not found:
            raise CommandError("The broker did not start; what it says is above.")
        yield bootstrap
    finally:
        process.terminate()
        try:
            process.communicate(timeout=BROKER_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def play(
    traffic_settings: Settings,
    connector: str,
    jars: tuple[str, ...],
    home: str | None,
    out: Output,
) -> list[Judgement]:
    from barnabas.spark import session

    session.check_available()
    with tempfile.TemporaryDirectory(prefix="barnabas-demo-") as temporary:
        place = Path(home or temporary)
        with broker(place / "broker") as bootstrap:
            out.line(f"broker      {bootstrap}, data in {place}")
            return _play(traffic_settings, connector, jars, place, bootstrap, out)


def _play(
    traffic_settings: Settings,
    connector: str,
    jars: tuple[str, ...],
    home: Path,
    bootstrap: str,
    out: Output,
) -> list[Judgement]:
    from barnabas.spark import feed, runner, session
    from barnabas.spark.generator import Traffic
    from barnabas.spark.jobs.registry import JOBS
    from barnabas.spark.judge import judge
    from barnabas.spark.pipeline import Pipeline
    from barnabas.spark.pipeline import Settings as PipelineSettings
    from barnabas.spark.streams import Log

    options = {"bootstrap.servers": bootstrap}
    traffic = Traffic(traffic_settings)
    feed.ensure_topics(options, PARTITIONS)
    began = time.monotonic()
    count = feed.send(traffic.records(), options)
    took_s = time.monotonic() - began
    out.line(f"traffic     {count:,} records in {took_s:.1f} s, seed {traffic_settings.seed}")

    began = time.monotonic()
    spark = session.start("barnabas demo", jars=jars, config=session.SHORT_RUN)
    out.line(f"Spark       {spark.version}, up in {time.monotonic() - began:.1f} s")
    settings = PipelineSettings(
        home=str(home / "pipeline"),
        records=Log(bootstrap, connector),
        max_records=max(1000, traffic_settings.count // BATCHES),
    )
    pipeline = Pipeline(spark, settings)

    def show(progress: Progress) -> None:
        if out.is_text:
            print(progress.line(), file=sys.stderr)

    try:
        began = time.monotonic()
        runs = [runner.run(pipeline, [job], once=True, on_progress=show) for job in JOBS.values()]
        out.line(f"all jobs    at the end of the data after {time.monotonic() - began:.1f} s")
        judged = judge(pipeline, traffic.truth)
    finally:
        spark.stop()
    progress = [asdict(found) for run in runs for found in run]
    rows = [asdict(row) for row in judged]
    out.line()
    out.table(
        rows,
        ["job", "question", "found", "expected", "right"],
        data={"jobs": progress, "judgement": rows},
    )
    return judged
