"""A lake table: Parquet files and a commit log that says which of them count.

    TABLE/data/commit=QUERY-BATCH-ATTEMPT/kind=swipe/hour=2026-01-01-09/part-….parquet
    TABLE/commits/00000000000000000007.json

Spark's executors write a micro-batch's files into a directory of their own; then the driver commits
them by creating the next file of the log, which names the query, the batch and the files with their
sizes. Creating a file that is there fails, so a number is taken once. Readers read the files that the
log names and nothing else: what a killed driver left behind is in no commit, hence in no table.

A batch is committed once because the log is read first: if it has a commit of this query with this
batch or a later one, the batch is a replay and is skipped. A backfill's commit has `"replaces": true`:
the commits before it no longer count.

Copies: where `Answer.key` is given, settled rows are compared with those of the table in the same
partitions before they are written, see `copies.py`. Every `CHECKPOINT_EVERY` commits the log is summed
up in one file, so that opening a table costs the same however old it is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from barnabas.spark.outputs.batch import BatchId
from barnabas.spark.outputs.copies import without_copies
from barnabas.spark.outputs.files import Files
from barnabas.spark.outputs.parquet import DATA, is_data, write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMMITS = "commits"
CHECKPOINT_EVERY = 50
MAX_ATTEMPTS = 10


class LakeError(Exception):
    """The table's directory is not what this program writes."""


@dataclass
class State:
    """What the log says: files that count, the last batch of each query, the next number."""

    files: list[dict[str, Any]] = field(default_factory=list)
    batches: dict[str, int] = field(default_factory=dict)
    next_number: int = 0

    def apply(self, commit: dict[str, Any]) -> None:
        if commit.get("replaces"):
            self.files = []
        self.files.extend(commit["files"])
        self.batches[commit["query"]] = commit["batch"]
        self.next_number += 1


class LakeTable:
    def __init__(
        self,
        spark: SparkSession,
        root: str,
        partition_by: Sequence[str] = (),
        key: Sequence[str] = (),
        settled: str = "true",
    ) -> None:
        self._spark = spark
        self._files = Files(spark, root)
        self.root = self._files.root
        self.partition_by = list(partition_by)
        self.key = list(key)
        self.settled = settled
        self._state = State()

    def refresh(self) -> State:
        """Reads what was committed since the last time."""
        names = [file.path for file in self._files.listing(COMMITS)]
        summaries = [name for name in names if name.endswith(".checkpoint.json")]
        if summaries and _number(summaries[-1]) > self._state.next_number:
            found = self._read(summaries[-1])
            self._state = State(found["files"], found["batches"], found["next_number"])
        for name in names:
            if name.endswith(".json") and not name.endswith(".checkpoint.json"):
                number = _number(name)
                if number < self._state.next_number:
                    continue
                if number > self._state.next_number:
                    missing = f"{COMMITS}/{self._state.next_number:020}.json"
                    raise LakeError(f"{self.root}: {missing} is missing from the commit log")
                self._state.apply(self._read(name))
        return self._state

    def _read(self, name: str) -> dict[str, Any]:
        try:
            found = json.loads(self._files.read(name))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise LakeError(f"{self.root}/{name} is no commit of a lake table")
        return found

    def commit(self, batch: BatchId, frame: DataFrame) -> bool:
        """Adds a micro-batch's rows; False if they are there already."""
        state = self.refresh()
        if not batch.replace and state.batches.get(batch.query, -1) >= batch.batch:
            return False
        if self.key and state.files and not batch.replace:
            frame = without_copies(frame, self.settled, self.partition_by, self.key, self._known)
        files = write_files(self._files, batch, frame, self.partition_by)
        self._append(
            {
                "query": batch.query,
                "batch": batch.batch,
                "replaces": batch.replace,
                "files": files,
            }
        )
        return True

    def _append(self, commit: dict[str, Any]) -> None:
        text = json.dumps(commit, separators=(",", ":"))
        for _ in range(MAX_ATTEMPTS):
            number = self.refresh().next_number
            if self._files.create(f"{COMMITS}/{number:020}.json", text):
                self.refresh()
                self._sum_up()
                return
        raise LakeError(f"{self.root}: {MAX_ATTEMPTS} commits in a row were lost to other writers")

    def _sum_up(self) -> None:
        state = self._state
        if state.next_number % CHECKPOINT_EVERY:
            return
        found = {
            "files": state.files,
            "batches": state.batches,
            "next_number": state.next_number,
        }
        name = f"{COMMITS}/{state.next_number:020}.checkpoint.json"
        self._files.create(name, json.dumps(found, separators=(",", ":")))

    def _known(self, touched: list[dict[str, str]]) -> DataFrame | None:
        files = [file for file in self._state.files if file["values"] in touched]
        return self._load(files) if files else None

    def read(self) -> DataFrame | None:
        """The table's rows; None while there are none."""
        files = self.refresh().files
        return self._load(files) if files else None

    def _load(self, files: list[dict[str, Any]]) -> DataFrame:
        paths = [f"{self.root}/{file['path']}" for file in files]
        reader = self._spark.read.option("basePath", f"{self.root}/{DATA}")
        reader = reader.option("mergeSchema", "false")
        return reader.parquet(*paths).drop("commit")

    def vacuum(self, older_than_ms: int) -> int:
        """Deletes data files that no commit names, last changed before `older_than_ms` (a writer
        that has not committed yet must be younger); how many."""
        known = {file["path"] for file in self.refresh().files}
        orphans = [
            file
            for file in self._files.walk(DATA)
            if is_data(file) and file.path not in known and file.modified_ms < older_than_ms
        ]
        for file in orphans:
            self._files.delete(file.path)
        return len(orphans)


def _number(name: str) -> int:
    return int(name.rpartition("/")[2].partition(".")[0])
