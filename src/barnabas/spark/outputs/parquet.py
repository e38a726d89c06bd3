"""Parquet files of a micro-batch, written by the executors into a directory of their own.

The directory's name has the query, the batch and a random part, so that an attempt never meets the
files of another; which files count is the business of the log that names them.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from barnabas.spark.outputs.batch import BatchId
from barnabas.spark.outputs.files import Files, Listed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DATA = "data"


def write_files(
    files: Files, batch: BatchId, frame: DataFrame, partition_by: Sequence[str]
) -> list[dict[str, Any]]:
    """What was written: path from the table's root, bytes, time, partition values of each file."""
    directory = f"{DATA}/commit={batch.query}-{batch.batch}-{uuid.uuid4().hex[:8]}"
    if partition_by:
        # One file a partition, but for those that adaptive execution finds too large for one.
        frame = frame.hint("rebalance", *partition_by)
    writer = frame.write.mode("overwrite").partitionBy(*partition_by)
    writer.parquet(f"{files.root}/{directory}")
    found = [_entry(file) for file in files.walk(directory) if is_data(file)]
    if not found:
        files.delete(directory)
    return found


def _entry(file: Listed) -> dict[str, Any]:
    values = {}
    for part in file.path.split("/")[2:-1]:
        name, _, value = part.partition("=")
        values[name] = unquote(value)
    return {
        "path": file.path,
        "bytes": file.size,
        "modified_ms": file.modified_ms,
        "values": values,
    }


def is_data(file: Listed) -> bool:
    name = file.path.rpartition("/")[2]
    return name.endswith(".parquet") and not name.startswith(("_", "."))
