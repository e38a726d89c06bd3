"""Collect: every event into the lake, typed, by kind and hour; what is malformed beside it.

A collector must lose nothing, so no watermark on event time is used here: Spark would drop whatever
is older. Copies are found twice over instead.

- Within the watermark, by state: ids are remembered for `REMEMBERED` of the *query's* time (the time
  of its micro-batches, `current_timestamp`), in which no row can be late. The state is as large as
  what arrives in that time, and it is in RocksDB.
- Beyond it, by the table: an id that was forgotten is of an event that happened long before. A copy
  has the same event time and so the same hour, and rows that are `SETTLED`, older than half of
  what is remembered, are compared with the ids that the lake has in their hours
  (`outputs/copies.py`).

Which of several copies is kept is not specified; they differ only in where they were in the log.
A replayed micro-batch is the commit log's matter, see `outputs/lake.py`. Dead letters go to a topic
with the reason in a header, and to a table with where each came from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.spark.events import DEAD_LETTERS, TOPICS
from barnabas.spark.jobs.job import Answer, Context, Job, Sort
from barnabas.spark.parse import parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REMEMBERED = "1 hour"
SETTLED = "event_time < current_timestamp() - INTERVAL 30 MINUTES"


def transform(records: DataFrame) -> DataFrame:
    """Parsed events, each id once; malformed ones with their reason, each as it came."""
    from pyspark.sql import functions as F

    parsed = parse(records)
    identity = F.when(F.col("reason").isNull(), F.concat_ws("/", "kind", "event_id")).otherwise(
        F.concat_ws("/", "topic", "partition", "offset")
    )
    identified = parsed.withColumn("identity", identity)
    if not records.isStreaming:
        return identified.dropDuplicates(["identity"]).drop("identity")
    return (
        identified.withColumn("collected_at", F.current_timestamp())
        .withWatermark("collected_at", REMEMBERED)
        .dropDuplicatesWithinWatermark(["identity"])
        .drop("identity", "collected_at")
    )


def events(collected: DataFrame) -> DataFrame:
    """The lake's rows: typed columns, partitioned by `kind` and `hour`."""
    from pyspark.sql import functions as F

    good = collected.where("reason IS NULL")
    return good.drop("reason", "key", "value", "event_time_ms").withColumn(
        "hour", F.date_format("event_time", "yyyy-MM-dd-HH")
    )


def dead_letters(collected: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    bad = collected.where("reason IS NOT NULL")
    return bad.select(
        "reason", "topic", "partition", "offset", "timestamp", "key", "value"
    ).withColumn("day", F.date_format("timestamp", "yyyy-MM-dd"))


def dead_letter_records(letters: DataFrame) -> DataFrame:
    """The records of the dead-letter topic: as they came, with why and whence in headers."""
    from pyspark.sql import functions as F

    def header(name: str, column: str) -> str:
        return f"named_struct('key', '{name}', 'value', cast(cast({column} as string) as binary))"

    named = ("reason", "topic", "partition", "offset")
    headers = ", ".join(header(name, f"`{name}`") for name in named)
    return letters.select("key", "value", F.expr(f"array({headers})").alias("headers"))


def answers(collected: DataFrame, _context: Context) -> dict[str, DataFrame]:
    letters = dead_letters(collected)
    return {
        "events": events(collected),
        "dead_letters": letters,
        DEAD_LETTERS: dead_letter_records(letters),
    }


JOB = Job(
    name="collect",
    documentation="every event, typed, into the lake by kind and hour; malformed ones apart",
    topics=TOPICS,
    transform=transform,
    answers=answers,
    outputs={
        "events": Answer(
            Sort.LAKE,
            key=("event_id",),
            partition_by=("kind", "hour"),
            settled=SETTLED,
            cassandra=True,
        ),
        "dead_letters": Answer(Sort.LAKE, partition_by=("day",)),
        DEAD_LETTERS: Answer(Sort.TOPIC),
    },
)
