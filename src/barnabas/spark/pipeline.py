"""The pipeline's outputs around its jobs: takes a micro-batch's answers to where they belong.

`Pipeline.take` is what a stream does for each micro-batch and a backfill for everything. Databases and
the lake come first, each of them skipping what it has; topics come last and are written for a replay as
well, so that no alert is lost between a commit and the crash after it. Whoever reads an alert topic may
therefore see a record twice, unless the connector's sink knows the batch.

Everything is below one `home`: `checkpoints/JOB`, `lake/TABLE`, `pipeline.sqlite`, `status/JOB.json`. On
a cluster `storage` is where the first two are instead: a place that the executors share.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.spark.jobs.job import Job, Sort
from barnabas.spark.outputs.batch import BatchId
from barnabas.spark.outputs.cassandra import CassandraTable
from barnabas.spark.outputs.database import Database
from barnabas.spark.outputs.delta import DeltaLakeTable
from barnabas.spark.outputs.lake import LakeTable
from barnabas.spark.streams import Records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LAKE_FORMATS = ("parquet", "delta")


@dataclass(frozen=True)
class Settings:
    home: str
    records: Records
    database: str | None = None
    lake_format: str = "parquet"
    cassandra: str | None = None
    max_records: int | None = None
    trigger: str = "2 seconds"
    storage: str | None = None

    @property
    def database_url(self) -> str:
        return self.database or f"{self.home}/pipeline.sqlite"

    def checkpoint(self, job: str) -> str:
        return f"{self.storage or self.home}/checkpoints/{job}"

    def lake_root(self, table: str) -> str:
        return f"{self.storage or self.home}/lake/{table}"


class Pipeline:
    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self.spark = spark
        self.settings = settings
        self.database = Database(settings.database_url)
        self._cassandra = CassandraTable(settings.cassandra) if settings.cassandra else None
        self._lake: dict[str, LakeTable | DeltaLakeTable] = {}

    def prepare(self, job: Job) -> None:
        """Makes what a job's outputs need; whatever cannot be used is told before it starts."""
        self.settings.records.check(job.all_topics())
        wanted = {
            name: answer
            for name, answer in job.outputs.items()
            if answer.sort in (Sort.UPSERT, Sort.LEDGER)
        }
        if wanted:
            self.database.prepare(wanted)
        for name, answer in job.outputs.items():
            if answer.sort is Sort.LAKE:
                self.lake_table(job, name)

    def lake_table(self, job: Job, name: str) -> LakeTable | DeltaLakeTable:
        found = self._lake.get(name)
        if found is None:
            answer = job.outputs[name]
            make = DeltaLakeTable if self.settings.lake_format == "delta" else LakeTable
            root = self.settings.lake_root(name)
            found = self._lake[name] = make(
                self.spark, root, answer.partition_by, answer.key, answer.settled
            )
        return found

    def backfill(self, job: Job) -> None:
        """Computes a prepared job's answers from all that the log has, in place of what is there."""
        records = self.settings.records.read(self.spark, job.topics)
        self.take(job, BatchId(f"backfill-{job.name}", 0, True), job.transform(records))

    def stream(self, job: Job) -> DataFrame:
        settings = self.settings
        records = settings.records.stream(self.spark, job.topics, settings.max_records)
        return job.transform(records)

    def take(self, job: Job, batch: BatchId, frame: DataFrame) -> None:
        context = _BatchContext(self.spark, self.settings.records)
        frame = frame.persist()
        try:
            answers = job.answers(frame, context)
            undeclared = set(answers) ^ set(job.outputs)
            assert not undeclared, f"{job.name}: {undeclared} is answered or declared, not both"
            self._keep(job, batch, answers)
        finally:
            frame.unpersist()
            context.release()

    def _keep(self, job: Job, batch: BatchId, answers: dict[str, DataFrame]) -> None:
        def of(*sorts: Sort) -> Iterable[str]:
            return [name for name in answers if job.outputs[name].sort in sorts]

        for name in of(Sort.LAKE):
            self.lake_table(job, name).commit(batch, answers[name])
            if self._cassandra is not None and job.outputs[name].cassandra:
                self._cassandra.write(answers[name])
        tables = {name: answers[name] for name in of(Sort.UPSERT, Sort.LEDGER)}
        if tables:
            self.database.commit(batch, tables, job.outputs)
        if not batch.replace:
            for name in of(Sort.TOPIC):
                self.settings.records.write(answers[name], name)


class _BatchContext:
    """What a job reads beside a micro-batch's records, kept in memory until the batch is done."""

    def __init__(self, spark: SparkSession, records: Records) -> None:
        self._spark = spark
        self._records = records
        self._kept: list[DataFrame] = []

    def table_topic(self, topic: str) -> DataFrame:
        self._kept.append(self._records.read(self._spark, [topic]).persist())
        return self._kept[-1]

    def release(self) -> None:
        for frame in self._kept:
            frame.unpersist()
