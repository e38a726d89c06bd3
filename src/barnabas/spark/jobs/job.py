"""What a job is: which topics it reads, how it turns them into answers, where the answers go.

A job has two halves, and both run in streams and in batches.

- `transform` makes one DataFrame of the records of the topics. In a stream it may hold state
  (deduplication, windows) and ends in Spark's `output_mode`.
- `answers` runs on one batch of that DataFrame, a plain DataFrame, and splits it into named answers.
  It may read what `Context` offers, such as the reference topic as it is now.

A stream calls `answers` for each micro-batch, a backfill once for everything; the outputs make the
two equal, since they merge by key what comes in pieces. That is why answers are only of these sorts:

| sort | what a micro-batch adds | when replayed | a backfill |
| --- | --- | --- | --- |
| `LAKE` | rows | skipped, by the commit log | replaces it |
| `UPSERT` | rows, replacing those with the same key | skipped, by the commit table | replaces it |
| `LEDGER` | entries; one with a known id is no entry | skipped, by the commit table | replaces them |
| `TOPIC` | records | written again unless the sink knows the batch | writes nothing |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Sort(Enum):
    LAKE = "lake"
    UPSERT = "upsert"
    LEDGER = "ledger"
    TOPIC = "topic"


@dataclass(frozen=True)
class Answer:
    """One named answer of a job.

    `columns` are names with SQL types, for tables in a database; `newest` is the column by which an
    older row never replaces a newer one. `settled` is which rows of the lake may have copies in it.
    """

    sort: Sort
    columns: dict[str, str] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    newest: str | None = None
    partition_by: tuple[str, ...] = ()
    settled: str = "true"
    cassandra: bool = False


class Context(Protocol):
    """What a job may read beside its own records."""

    def table_topic(self, topic: str) -> DataFrame:
        """All records that a compacted topic has now; kept until the batch is done."""
        ...


@dataclass(frozen=True)
class Job:
    name: str
    documentation: str
    topics: tuple[str, ...]
    transform: Callable[[DataFrame], DataFrame]
    answers: Callable[[DataFrame, Context], dict[str, DataFrame]]
    outputs: dict[str, Answer]
    output_mode: str = "append"
    table_topics: tuple[str, ...] = ()

    def all_topics(self) -> list[str]:
        """What is read and what is written to."""
        written = [name for name, answer in self.outputs.items() if answer.sort is Sort.TOPIC]
        return [*self.topics, *self.table_topics, *written]
