"""Rows that a table has already, left out of what is written to it.

A copy of a row is in the same partition as the row, so only the partitions that a micro-batch would
write to are read, and of them only the key columns. Rows for which `settled` does not hold are not
compared: whoever made the micro-batch answers for those (see `jobs/collect.py`), so that the partition
that grows at the moment is not read again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KnownRows = Callable[[list[dict[str, str]]], "DataFrame | None"]
"""The table's rows in partitions with these values; None if there are none."""


def without_copies(
    frame: DataFrame,
    settled: str,
    partition_by: Sequence[str],
    key: Sequence[str],
    known_rows: KnownRows,
) -> DataFrame:
    from pyspark.sql import functions as F

    touched = frame.where(settled).select(*partition_by).distinct().collect()
    values = [{name: str(row[name]) for name in partition_by} for row in touched]
    known = known_rows(values) if values else None
    if known is None:
        return frame
    columns = [*partition_by, *key]
    marked = frame.withColumn("compared", F.expr(settled))
    ids = known.select(*columns).withColumn("compared", F.lit(True))
    return marked.join(ids, [*columns, "compared"], "left_anti").drop("compared")
