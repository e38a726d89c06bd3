"""Invite fraud: rings of accounts that one person invites to earn the reward for each.

Every invitation counts in two clusters, that of the new account's phone and that of its network
address, each within sliding windows of a day. A cluster is scored (`ring_score.py`) on its edges, and
given again whenever it changes. The verdict, its score and the evidence (numbers and accounts) are one
row for a cluster and window.

State is bounded for each cluster and window: the first `MAX_EDGES` invitations are kept, by time and
account, so which ones they are does not depend on the order in which they came. An address with more
than that (a mobile network, a university) is judged by its first ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.spark.events import FRAUD_VERDICTS
from barnabas.spark.jobs.job import Answer, Context, Job, Sort
from barnabas.spark.jobs.ring_score import MIN_INVITEES, Edge, score
from barnabas.spark.lateness import with_watermark
from barnabas.spark.parse import events_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WINDOW = "24 hours"
SLIDE = "12 hours"
MAX_EDGES = 256

SCORE_TYPE = (
    "score DOUBLE, verdict STRING, invitees INT, devices INT, addresses INT, burst INT, depth INT"
)


def transform(records: DataFrame) -> DataFrame:
    return verdicts(with_watermark(events_of(records, "invitation")))


def verdicts(invitations: DataFrame) -> DataFrame:
    """Verdicts of invitations with `user_id`, `invitee_id`, `device_id`, `address`, `event_time`."""
    from pyspark.sql import functions as F

    edge = F.struct(
        F.unix_millis("event_time").alias("at_ms"),
        F.col("user_id").alias("inviter"),
        F.col("invitee_id").alias("invitee"),
        "device_id",
        "address",
    )
    clusters = F.array(
        F.struct(F.lit("device").alias("by"), F.col("device_id").alias("id")),
        F.struct(F.lit("address").alias("by"), F.col("address").alias("id")),
    )
    spread = invitations.select("event_time", edge.alias("edge"), F.explode(clusters).alias("c"))
    grouped = spread.groupBy(
        F.window("event_time", WINDOW, SLIDE),
        F.col("c.by").alias("shared"),
        F.col("c.id").alias("id"),
    ).agg(F.min_by("edge", "edge", MAX_EDGES).alias("edges"))

    score_edges = F.udf(_score_rows, SCORE_TYPE, useArrow=False)
    crowded = grouped.withColumn("edges", F.array_distinct("edges")).where(
        F.size("edges") >= MIN_INVITEES
    )
    members = F.array_union(F.col("edges.inviter"), F.col("edges.invitee"))
    return crowded.withColumn("scored", score_edges("edges")).select(
        "shared",
        F.col("id").alias("shared_id"),
        F.unix_millis("window.start").alias("window_start_ms"),
        "scored.*",
        F.to_json(F.array_sort(F.array_distinct(members))).alias("accounts"),
    )


def _score_rows(rows: list[Any]) -> tuple[Any, ...]:
    return tuple(score(Edge(*row) for row in rows))


def answers(found: DataFrame, _context: Context) -> dict[str, DataFrame]:
    from pyspark.sql import functions as F

    records = found.where("verdict <> 'honest'").select(
        F.concat_ws(":", "shared", "shared_id").cast("binary").alias("key"),
        F.to_json(F.struct("*")).cast("binary").alias("value"),
    )
    return {"invite_verdicts": found, FRAUD_VERDICTS: records}


JOB = Job(
    name="invite-fraud",
    documentation="rings of invitations by shared phone, address, burst and depth",
    topics=("invitations",),
    transform=transform,
    answers=answers,
    outputs={
        "invite_verdicts": Answer(
            Sort.UPSERT,
            columns={
                "shared": "TEXT",
                "shared_id": "TEXT",
                "window_start_ms": "BIGINT",
                "score": "DOUBLE PRECISION",
                "verdict": "TEXT",
                "invitees": "BIGINT",
                "devices": "BIGINT",
                "addresses": "BIGINT",
                "burst": "BIGINT",
                "depth": "BIGINT",
                "accounts": "TEXT",
            },
            key=("shared", "shared_id", "window_start_ms"),
        ),
        FRAUD_VERDICTS: Answer(Sort.TOPIC),
    },
    output_mode="update",
)
