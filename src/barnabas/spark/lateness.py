"""How late an event may be, decided so that a stream and a batch decide alike.

Spark drops a late row when it is older than the watermark, and the watermark depends on which
records happened to be in earlier micro-batches. Two runs over the same log can therefore drop
different rows, and a batch drops none. So the rule here is a property of the record itself:

    an event is in time if  record timestamp - event time <= ALLOWED_LATENESS

Jobs with windows drop what is not in time by this rule (`in_time`), in streams and in batches, and
then give Spark a watermark that is later by `READ_SKEW` (`with_watermark`). A row that is in time is
then behind Spark's watermark only if its partition is read more than `READ_SKEW` (in record time)
behind the most advanced one. Spark's Kafka source shares a trigger's records out in proportion to
what each partition has left, so that partitions stay near each other while it catches up.

The state of a window is kept for its length and these two, then it goes: that is what bounds state.

Jobs that may not lose anything (collect, earnings) have no watermark on event time at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ALLOWED_LATENESS_MS = 60 * 60 * 1000
READ_SKEW_MS = 60 * 60 * 1000


def in_time(events: DataFrame, allowed_ms: int = ALLOWED_LATENESS_MS) -> DataFrame:
    from pyspark.sql import functions as F

    late_ms = F.unix_millis("timestamp") - F.unix_millis("event_time")
    return events.where(late_ms <= allowed_ms)


def with_watermark(
    events: DataFrame, allowed_ms: int = ALLOWED_LATENESS_MS, skew_ms: int = READ_SKEW_MS
) -> DataFrame:
    """`events` that are in time, with Spark's watermark behind them."""
    delay = f"{allowed_ms + skew_ms} milliseconds"
    return in_time(events, allowed_ms).withWatermark("event_time", delay)
