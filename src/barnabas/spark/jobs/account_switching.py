"""Account switching: phones that log into too many accounts within a sliding window.

One row for a phone and window, with how many accounts logged in, once they are `MANY` or more. In a
stream the row is given again whenever it changes, also when a late event changes a window that is
over (Spark's update mode); whoever stores it replaces the row with the same phone and window.

State is bounded for each phone and window, however many accounts there are: the accounts are counted
in a theta sketch, which is exact up to 4096 and an estimate beyond, and as evidence one account is
kept of each of `EVIDENCE` classes of their hashes. Both depend only on which logins there were, not
on their order, and copies change neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.spark.events import SWITCHING_ALERTS
from barnabas.spark.jobs.job import Answer, Context, Job, Sort
from barnabas.spark.lateness import with_watermark
from barnabas.spark.parse import events_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WINDOW = "1 hour"
SLIDE = "10 minutes"
MANY = 6
EVIDENCE = 16


def transform(records: DataFrame) -> DataFrame:
    return switching(with_watermark(events_of(records, "login")))


def switching(logins: DataFrame) -> DataFrame:
    """Alerts of logins with `device_id`, `user_id` and `event_time`."""
    from pyspark.sql import functions as F

    hashed = F.pmod(F.xxhash64("user_id"), F.lit(EVIDENCE))
    samples = [F.min(F.when(hashed == n, F.col("user_id"))) for n in range(EVIDENCE)]
    counted = logins.groupBy(F.window("event_time", WINDOW, SLIDE), "device_id").agg(
        F.expr("theta_sketch_estimate(theta_sketch_agg(user_id, 12))").alias("accounts"),
        F.min("event_time").alias("first_login"),
        F.max("event_time").alias("last_login"),
        F.array(*samples).alias("samples"),
    )
    return counted.where(F.col("accounts") >= MANY).select(
        "device_id",
        F.unix_millis("window.start").alias("window_start_ms"),
        F.unix_millis("window.end").alias("window_end_ms"),
        "accounts",
        F.unix_millis("first_login").alias("first_login_ms"),
        F.unix_millis("last_login").alias("last_login_ms"),
        F.to_json(F.array_sort(F.array_compact("samples"))).alias("evidence"),
    )


def answers(alerts: DataFrame, _context: Context) -> dict[str, DataFrame]:
    from pyspark.sql import functions as F

    records = alerts.select(
        F.col("device_id").cast("binary").alias("key"),
        F.to_json(F.struct("*")).cast("binary").alias("value"),
    )
    return {"switching_alerts": alerts, SWITCHING_ALERTS: records}


JOB = Job(
    name="account-switching",
    documentation=f"phones that log into {MANY} or more accounts within {WINDOW}",
    topics=("logins",),
    transform=transform,
    answers=answers,
    outputs={
        "switching_alerts": Answer(
            Sort.UPSERT,
            columns={
                "device_id": "TEXT",
                "window_start_ms": "BIGINT",
                "window_end_ms": "BIGINT",
                "accounts": "BIGINT",
                "first_login_ms": "BIGINT",
                "last_login_ms": "BIGINT",
                "evidence": "TEXT",
            },
            key=("device_id", "window_start_ms"),
        ),
        SWITCHING_ALERTS: Answer(Sort.TOPIC),
    },
    output_mode="update",
)
