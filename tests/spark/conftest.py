"""One local session for all tests of Spark; `make spark` runs them.

Without Java or PySpark they are skipped, with the reason.

Starting a session costs several seconds, so there is one for the whole run. Records of the generator
come from files (`Files`), streams of it are several files, one a micro-batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from barnabas.spark import feed, session
from barnabas.spark.generator import Record, Settings, Traffic
from barnabas.spark.jobs.job import Job, Sort
from barnabas.spark.jobs.registry import JOBS
from barnabas.spark.pipeline import Pipeline
from barnabas.spark.pipeline import Settings as PipelineSettings
from barnabas.spark.streams import Files
from barnabas.spark.truth import Truth

# Spark's own Kafka connector, where `make peers` could fetch it.
CONNECTOR_JARS = tuple(
    str(path) for path in sorted((Path(__file__).parents[2] / ".peers/spark-kafka").glob("*.jar"))
)


@pytest.fixture
def connector_jars() -> tuple[str, ...]:
    if not CONNECTOR_JARS:
        pytest.skip("Spark's Kafka connector is not in .peers/spark-kafka: make peers")
    return CONNECTOR_JARS


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    if not os.environ.get("BARNABAS_SPARK"):
        pytest.skip("Spark takes minutes: make spark")
    try:
        session.check_available()
    except session.SparkMissing as error:
        pytest.skip(f"Spark: {error}")
    config = session.SHORT_RUN
    found = session.start(
        "tests", master="local[2]", shuffle_partitions=2, config=config, jars=CONNECTOR_JARS
    )
    yield found
    found.stop()


@dataclass
class Generated:
    records: list[Record]
    truth: Truth

    def write(self, directory: Path, files: int = 1) -> Files:
        """The records as topics in files; with several files of a topic, in the order of time."""
        by_topic: dict[str, list[Record]] = {}
        for record in self.records:
            by_topic.setdefault(record.topic, []).append(record)
        for topic, records in by_topic.items():
            size = -(-len(records) // files)
            for n in range(files):
                part = records[n * size : (n + 1) * size]
                write_lines(directory / topic / f"{n:03}.json", part, n * size)
        return Files(str(directory))


def write_lines(path: Path, records: Iterable[Record], first_offset: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for offset, record in enumerate(records, first_offset):
            file.write(feed.line(record, offset) + "\n")


@pytest.fixture(scope="session")
def generated() -> Generated:
    traffic = Traffic(Settings(seed=11, count=3_000, rate=0.12, cheaters=2))
    return Generated(list(traffic.records()), traffic.truth)


@pytest.fixture(scope="session")
def in_files(generated: Generated, tmp_path_factory: pytest.TempPathFactory) -> Files:
    return generated.write(tmp_path_factory.mktemp("topics"), files=2)


@pytest.fixture(scope="session")
def backfilled(spark: Any, in_files: Files, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """All jobs' answers to the generated traffic, computed as batches."""
    home = tmp_path_factory.mktemp("backfill")
    pipeline = Pipeline(spark, PipelineSettings(str(home), in_files))
    for job in JOBS.values():
        pipeline.prepare(job)
        pipeline.backfill(job)
    return pipeline


def answers(pipeline: Pipeline, job: Job) -> dict[str, Any]:
    """Everything that a job has answered, in an order of its own."""
    found: dict[str, Any] = {}
    for name, answer in job.outputs.items():
        if answer.sort is Sort.LAKE:
            frame = pipeline.lake_table(job, name).read()
            assert frame is not None
            # Which of several copies is kept is not specified.
            frame = frame.drop("partition", "offset", "timestamp") if answer.key else frame
            found[name] = sorted((tuple(row) for row in frame.collect()), key=repr)
        elif answer.sort is Sort.UPSERT:
            found[name] = pipeline.database.query(f"SELECT * FROM {name}")
        elif answer.sort is Sort.LEDGER:
            for table in ("balances", "completed_tasks", "progress"):
                found[table] = pipeline.database.query(f"SELECT * FROM {table}")
    return {name: sorted(rows, key=repr) for name, rows in found.items()}
