"""A Delta Lake table through `deltalake`: the same files, Delta's own commit log.

Spark's executors write the Parquet files, then the driver commits them with `deltalake`, so no jar is
needed. Delta's log has a place for what makes a commit idempotent: the `txn` action, the last version
that an application wrote. The application is the query, its version the batch.

Copies are compared with the table as in `lake.py`. A backfill's commit overwrites the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.spark.outputs.batch import BatchId
from barnabas.spark.outputs.copies import without_copies
from barnabas.spark.outputs.files import Files
from barnabas.spark.outputs.lake import LakeError
from barnabas.spark.outputs.parquet import write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def deltalake_module() -> Any:
    try:
        import deltalake
    except ImportError:
        raise LakeError("a Delta Lake table needs deltalake: pip install deltalake") from None
    return deltalake


class DeltaLakeTable:
    """The face of `LakeTable` over a Delta Lake table."""

    def __init__(
        self,
        spark: SparkSession,
        root: str,
        partition_by: Sequence[str] = (),
        key: Sequence[str] = (),
        settled: str = "true",
    ) -> None:
        self._delta = deltalake_module()
        self._spark = spark
        self._files = Files(spark, root)
        self.root = self._files.root
        self.partition_by = list(partition_by)
        self.key = list(key)
        self.settled = settled

    def _open(self) -> Any | None:
        if not self._delta.DeltaTable.is_deltatable(self.root):
            return None
        return self._delta.DeltaTable(self.root)

    def commit(self, batch: BatchId, frame: DataFrame) -> bool:
        """Adds a micro-batch's rows; False if they are there already."""
        from pyspark.sql.pandas.types import to_arrow_schema

        table = self._open()
        if table is None:
            schema = to_arrow_schema(frame.schema)
            table = self._delta.DeltaTable.create(
                self.root, schema=schema, partition_by=self.partition_by
            )
        last = table.transaction_version(batch.query)
        if not batch.replace and last is not None and last >= batch.batch:
            return False
        if self.key and not batch.replace:
            known = partial(self._known, table)
            frame = without_copies(frame, self.settled, self.partition_by, self.key, known)
        actions = [
            self._delta.transaction.AddAction(
                path=entry["path"],
                size=entry["bytes"],
                partition_values=entry["values"],
                modification_time=entry["modified_ms"],
                data_change=True,
                stats="{}",
            )
            for entry in write_files(self._files, batch, frame, self.partition_by)
        ]
        table.create_write_transaction(
            actions,
            mode="overwrite" if batch.replace else "append",
            schema=table.schema(),
            partition_by=self.partition_by,
            commit_properties=self._delta.CommitProperties(
                app_transactions=[self._delta.Transaction(batch.query, batch.batch)]
            ),
        )
        return True

    def _entries(self, table: Any) -> list[tuple[str, dict[str, str]]]:
        """The path of each file that counts, with its partition's values."""
        import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

        rows = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        names = self.partition_by
        return [(row["path"], {name: row[f"partition.{name}"] for name in names}) for row in rows]

    def _known(self, table: Any, touched: list[dict[str, str]]) -> DataFrame | None:
        paths = [path for path, values in self._entries(table) if values in touched]
        return self._load(paths) if paths else None

    def read(self) -> DataFrame | None:
        """The table's rows; None while there are none."""
        table = self._open()
        paths = [path for path, _ in self._entries(table)] if table is not None else []
        return self._load(paths) if paths else None

    def _load(self, paths: list[str]) -> DataFrame:
        reader = self._spark.read.option("basePath", f"{self.root}/data")
        return reader.parquet(*[f"{self.root}/{path}" for path in paths]).drop("commit")
