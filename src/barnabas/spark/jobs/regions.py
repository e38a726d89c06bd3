"""Region by phone number: the longest prefix in a reference table that is itself a compacted topic.

The reference is a changelog: a record under the key `+4930` says what that prefix means from the
record's timestamp on, until the next record under that key; a tombstone ends it. An event is enriched
with what was true at the event's own time, so a correction changes the results of later events and
leaves earlier ones as they were, and neither the order of reading nor a replay changes an answer.

For each micro-batch the topic is read to its end. It then holds whatever could be valid at the time
of an event in that batch, since those records were written before the event was sent. The join is
stateless: one broadcast lookup for each length of prefix, the longest that matches wins.

Compaction forgets what was true before. While `min.compaction.lag.ms` of the topic has not passed,
all versions are there; a backfill over older events finds only the versions that are left, and none
for an event that is older than they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.spark.events import PHONE_PREFIXES, USER_REGIONS
from barnabas.spark.jobs.job import Answer, Context, Job, Sort
from barnabas.spark.parse import events_of
from barnabas.spark.phone_prefixes import MAX_PREFIX_DIGITS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

END = "9999-12-31"


def transform(records: DataFrame) -> DataFrame:
    """The events that tell a user's phone number."""
    found = events_of(records, "signup", "verification")
    return found.select("user_id", "phone", "event_id", "event_time", "timestamp")


def versions(reference: DataFrame) -> DataFrame:
    """`prefix`, `country`, `region`, valid from `valid_from` up to and without `valid_to`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    read = F.from_json(F.col("value").cast("string"), "country STRING, region STRING")
    rows = reference.select(
        F.col("key").cast("string").alias("prefix"),
        F.col("timestamp"),
        F.col("offset"),
        F.col("value").isNull().alias("ended"),
        read.alias("entry"),
    ).where(F.col("prefix").rlike(rf"^\+[0-9]{{1,{MAX_PREFIX_DIGITS}}}$"))
    by_prefix = Window.partitionBy("prefix").orderBy("timestamp", "offset")
    ordered = rows.select(
        "prefix",
        "ended",
        "entry.country",
        "entry.region",
        F.col("timestamp").alias("valid_from"),
        F.coalesce(F.lead("timestamp").over(by_prefix), F.lit(END).cast("timestamp")).alias(
            "valid_to"
        ),
    )
    return ordered.where("NOT ended AND region IS NOT NULL").drop("ended")


def enrich(users: DataFrame, reference: DataFrame) -> DataFrame:
    """`users` (with `phone`, `event_time`, `timestamp`) with `prefix`, `country`, `region`; these
    are null where no prefix matches."""
    from pyspark.sql import functions as F

    table = versions(reference)
    found = users.withColumn("as_of", F.least("event_time", "timestamp"))
    candidates: list[Column] = []
    for digits in range(MAX_PREFIX_DIGITS, 0, -1):
        of_length = table.where(F.length("prefix") == digits + 1).select(
            F.struct("prefix", "country", "region").alias(f"match_{digits}"),
            F.col("prefix").alias("match_prefix"),
            "valid_from",
            "valid_to",
        )
        matches = (
            (F.substring("phone", 1, digits + 1) == F.col("match_prefix"))
            & (F.col("as_of") >= F.col("valid_from"))
            & (F.col("as_of") < F.col("valid_to"))
        )
        found = found.join(F.broadcast(of_length), matches, "left").drop(
            "match_prefix", "valid_from", "valid_to"
        )
        candidates.append(F.col(f"match_{digits}"))
    matched = found.withColumn("matched", F.coalesce(*candidates))
    return matched.select(*users.columns, "matched.prefix", "matched.country", "matched.region")


def newest(enriched: DataFrame) -> DataFrame:
    """One row a user: that of their latest event."""
    from pyspark.sql import functions as F

    order = F.concat(
        F.lpad(F.unix_millis("event_time").cast("string"), 15, "0"), F.lit("/"), "event_id"
    )
    row = F.struct("phone", "prefix", "country", "region")
    return (
        enriched.withColumn("version", order)
        .groupBy("user_id")
        .agg(F.max("version").alias("version"), F.max_by(row, "version").alias("row"))
        .select("user_id", "row.*", "version")
    )


def answers(users: DataFrame, context: Context) -> dict[str, DataFrame]:
    from pyspark.sql import functions as F

    reference = context.table_topic(PHONE_PREFIXES)
    enriched = enrich(users, reference)
    records = enriched.select(
        F.col("user_id").cast("binary").alias("key"),
        F.to_json(F.struct("user_id", "phone", "prefix", "country", "region"))
        .cast("binary")
        .alias("value"),
    )
    return {"user_regions": newest(enriched), USER_REGIONS: records}


JOB = Job(
    name="regions",
    documentation="the region of each user by phone prefix, as of the time of the event",
    topics=("signups", "verifications"),
    transform=transform,
    answers=answers,
    outputs={
        "user_regions": Answer(
            Sort.UPSERT,
            columns={
                "user_id": "TEXT",
                "phone": "TEXT",
                "prefix": "TEXT",
                "country": "TEXT",
                "region": "TEXT",
                "version": "TEXT",
            },
            key=("user_id",),
            newest="version",
        ),
        USER_REGIONS: Answer(Sort.TOPIC),
    },
    table_topics=(PHONE_PREFIXES,),
)
