"""Earnings and tasks: what each user has, to the cent, and which tasks they have done.

Money is kept as books are: a ledger of entries, each with the id of what caused it, and balances that
are the sums of entries. An entry whose id is there already is no entry. So a copy of an event, however
late, a replayed micro-batch and a retried task all change nothing, and no state in Spark has to
remember which events were seen: the database does, in the transaction that changes the balance.

Progress in a task is counted the same way: the different items seen (`tasks.py`), each inserted once.
When an item is the one that reaches the target, the task is completed and its reward becomes a ledger
entry with the task's own id.

`entries` and `progress` are what a batch of events adds; `balances` and `completed` are the same
answers computed in one go from everything, for whoever wants to check the books.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from barnabas.spark.jobs.job import Answer, Context, Job, Sort
from barnabas.spark.parse import events_of
from barnabas.spark.tasks import EVER, HOUR_OF_EVENT, TASKS, Task

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KINDS = ("credit", *sorted({task.kind for task in TASKS}))
TOPICS = ("credits", "installs", "invitations", "logins", "swipes", "verifications")


def transform(records: DataFrame) -> DataFrame:
    return events_of(records, *KINDS)


def entries(events: DataFrame) -> DataFrame:
    """`entry_id`, `user_id`, `amount_cents`, `at_ms`, `source` of credit events, each once."""
    from pyspark.sql import functions as F

    return (
        events.where("kind = 'credit'")
        .select(
            F.concat(F.lit("credit/"), "event_id").alias("entry_id"),
            "user_id",
            "amount_cents",
            F.unix_millis("event_time").alias("at_ms"),
            "source",
        )
        .dropDuplicates(["entry_id"])
    )


def progress(events: DataFrame) -> DataFrame:
    """`user_id`, `task`, `period`, `item`, `at_ms`: what counts towards tasks, each item once and
    as of its earliest event."""
    from pyspark.sql import functions as F

    parts = [_progress_of(events, task) for task in TASKS]
    together = reduce(lambda left, right: left.unionByName(right), parts)
    return together.groupBy("user_id", "task", "period", "item").agg(F.min("at_ms").alias("at_ms"))


def _progress_of(events: DataFrame, task: Task) -> DataFrame:
    from pyspark.sql import functions as F

    item: Column = F.col(task.item) if task.item != HOUR_OF_EVENT else _in_time("yyyy-MM-dd-HH")
    return events.where(F.col("kind") == task.kind).select(
        "user_id",
        F.lit(task.name).alias("task"),
        (_in_time("yyyy-MM-dd") if task.daily else F.lit(EVER)).alias("period"),
        item.cast("string").alias("item"),
        F.unix_millis("event_time").alias("at_ms"),
    )


def _in_time(pattern: str) -> Column:
    from pyspark.sql import functions as F

    return F.date_format("event_time", pattern)


def completed(made: DataFrame) -> DataFrame:
    """`user_id`, `task`, `period`, `completed_at_ms`, `reward_cents` of all progress together."""
    from pyspark.sql import functions as F

    targets: Column = F.lit(None).cast("int")
    rewards: Column = F.lit(None).cast("bigint")
    for task in TASKS:
        targets = F.when(F.col("task") == task.name, task.target).otherwise(targets)
        rewards = F.when(F.col("task") == task.name, task.reward_cents).otherwise(rewards)
    counted = made.groupBy("user_id", "task", "period").agg(
        F.array_sort(F.collect_list("at_ms")).alias("times")
    )
    return counted.where(F.size("times") >= targets).select(
        "user_id",
        "task",
        "period",
        F.element_at("times", targets).alias("completed_at_ms"),
        rewards.alias("reward_cents"),
    )


def balances(events: DataFrame) -> DataFrame:
    """`user_id`, `balance_cents` of all events together, rewards included."""
    from pyspark.sql import functions as F

    rewards = completed(progress(events)).select("user_id", F.col("reward_cents").alias("cents"))
    earned = entries(events).select("user_id", F.col("amount_cents").alias("cents"))
    return earned.unionByName(rewards).groupBy("user_id").agg(F.sum("cents").alias("balance_cents"))


def answers(events: DataFrame, _context: Context) -> dict[str, DataFrame]:
    return {"entries": entries(events), "progress": progress(events)}


JOB = Job(
    name="earnings",
    documentation="running balances and completed tasks of each user, in a database",
    topics=TOPICS,
    transform=transform,
    answers=answers,
    outputs={"entries": Answer(Sort.LEDGER), "progress": Answer(Sort.LEDGER)},
)
