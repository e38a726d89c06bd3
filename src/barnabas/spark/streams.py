"""Records in and out of Spark: the one place that knows which connector is used.

`Log` is where topics are. `format` names a data source with the options and columns of Spark's own
Kafka connector, which is the default (its jars have to be on the session). `Files` is the same face
over JSON lines, one directory for a topic, as `barnabas pipeline generate --to DIRECTORY` writes
them: jobs run over it without a broker.

A compacted topic is read as a table of versions: every record that is still in the log, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORD_SCHEMA = (
    "key BINARY, value BINARY, topic STRING, `partition` INT, `offset` BIGINT, timestamp TIMESTAMP"
)
FILE_SCHEMA = "k STRING, v STRING, b STRING, p INT, o BIGINT, t BIGINT"


class TopicsMissing(Exception):
    """Topics that a job needs are not there."""


class Records(Protocol):
    """Where records come from and go to."""

    def check(self, topics: Sequence[str]) -> None:
        """Raises TopicsMissing, or what keeps the brokers from being reached."""
        ...

    def read(self, spark: SparkSession, topics: Sequence[str]) -> DataFrame:
        """All records of the topics, up to now."""
        ...

    def stream(
        self, spark: SparkSession, topics: Sequence[str], max_records: int | None = None
    ) -> DataFrame:
        """The records from the start on, at most `max_records` in a micro-batch."""
        ...

    def write(self, frame: DataFrame, topic: str) -> None:
        """Appends the rows (`key`, `value`, optionally `headers`) to a topic."""
        ...


@dataclass(frozen=True)
class Log:
    """Topics of a cluster."""

    bootstrap: str
    format: str = "kafka"
    options: dict[str, str] = field(default_factory=dict)

    def check(self, topics: Sequence[str]) -> None:
        from barnabas.client.admin import Admin

        with Admin({**self.options, "bootstrap.servers": self.bootstrap}) as admin:
            there = {topic.name for topic in admin.list_topics()}
        missing = [topic for topic in topics if topic not in there]
        if missing:
            raise TopicsMissing(
                f"{self.bootstrap} has no topic {', '.join(missing)}; make the pipeline's topics "
                f"with: barnabas pipeline topics -b {self.bootstrap}"
            )

    def _options(self) -> dict[str, str]:
        found = {"kafka.bootstrap.servers": self.bootstrap}
        found.update({f"kafka.{name}": value for name, value in self.options.items()})
        return found

    def read(self, spark: SparkSession, topics: Sequence[str]) -> DataFrame:
        reader = spark.read.format(self.format).options(**self._options())
        reader = reader.option("subscribe", ",".join(topics)).option("startingOffsets", "earliest")
        return reader.load()

    def stream(
        self, spark: SparkSession, topics: Sequence[str], max_records: int | None = None
    ) -> DataFrame:
        reader = spark.readStream.format(self.format).options(**self._options())
        reader = reader.option("subscribe", ",".join(topics)).option("startingOffsets", "earliest")
        if max_records is not None:
            reader = reader.option("maxOffsetsPerTrigger", str(max_records))
        return reader.load()

    def write(self, frame: DataFrame, topic: str) -> None:
        writer = frame.write.format(self.format).options(**self._options())
        if "headers" in frame.columns:
            writer = writer.option("includeHeaders", "true")
        writer.option("topic", topic).mode("append").save()


@dataclass(frozen=True)
class Files:
    """Topics as directories of JSON lines, for work without a broker."""

    directory: str

    def check(self, topics: Sequence[str]) -> None:
        if not Path(self.directory).is_dir():
            raise TopicsMissing(f"{self.directory} is no directory of topics")

    def _paths(self, topics: Sequence[str]) -> list[str]:
        for topic in topics:
            Path(self.directory, topic).mkdir(parents=True, exist_ok=True)
        return [str(Path(self.directory, topic)) for topic in topics]

    def read(self, spark: SparkSession, topics: Sequence[str]) -> DataFrame:
        return _as_records(spark.read.schema(FILE_SCHEMA).json(self._paths(topics)))

    def stream(
        self, spark: SparkSession, topics: Sequence[str], max_records: int | None = None
    ) -> DataFrame:
        self._paths(topics)
        reader = spark.readStream.schema(FILE_SCHEMA)
        if max_records is not None:
            reader = reader.option("maxFilesPerTrigger", "1")
        pattern = "{" + ",".join(topics) + "}"
        return _as_records(reader.json(str(Path(self.directory, pattern))))

    def write(self, frame: DataFrame, topic: str) -> None:
        columns = [name for name in ("key", "value") if name in frame.columns]
        rows = frame.selectExpr(*[f"cast({c} as string) as {c[0]}" for c in columns])
        rows.write.mode("append").json(str(Path(self.directory, topic)))


def _as_records(lines: DataFrame) -> DataFrame:
    """`t` is the timestamp, `k` the key, `v` the value as text or `b` as base64 if it is none."""
    from pyspark.sql import functions as F

    in_path = F.regexp_extract(F.input_file_name(), r"/([^/]+)/[^/]+$", 1)
    return lines.select(
        F.col("k").cast("binary").alias("key"),
        F.coalesce(F.col("v").cast("binary"), F.unbase64("b")).alias("value"),
        in_path.alias("topic"),
        F.coalesce("p", F.lit(0)).alias("partition"),
        F.coalesce("o", F.lit(0)).cast("bigint").alias("offset"),
        F.timestamp_millis("t").alias("timestamp"),
    )
