"""What is told where Spark cannot run, and how a query is getting on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.spark import progress, runner, session
from barnabas.spark.outputs.cassandra import (
    CassandraError,
    Place,
    insert_statement,
    table_statement,
    write_rows,
)


def executable(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("says", "version"),
    [('openjdk version "17.0.15" 2025', 17), ('java version "1.8.0_1"', 8), ("what", None)],
)
def test_versions_of_java(tmp_path: Path, says: str, version: int | None) -> None:
    assert session.java_version(str(executable(tmp_path / "bin" / "java", says))) == version


def test_a_missing_or_old_java_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(session.SparkMissing, match="Java 17 or later"):
        session.check_available()
    executable(tmp_path / "bin" / "java", 'openjdk version "11.0.2"')
    with pytest.raises(session.SparkMissing, match="is Java 11"):
        session.check_available()


def report(batch: int, rows: int, ended: int, latest: int) -> dict[str, Any]:
    return {
        "runId": "r",
        "batchId": batch,
        "numInputRows": rows,
        "batchDuration": 500,
        "durationMs": {"addBatch": 400},
        "stateOperators": [
            {"numRowsTotal": 7, "memoryUsedBytes": 100, "numRowsDroppedByWatermark": 1}
        ],
        "sources": [
            {"endOffset": {"t": {"0": ended, "1": 5}}, "latestOffset": {"t": {"0": latest, "1": 5}}}
        ],
        "eventTime": {"watermark": "2026-01-01T00:00:00.000Z"},
    }


def test_progress_adds_up_each_batch_once(tmp_path: Path) -> None:
    found = progress.Progress("collect")
    first = report(0, 100, 100, 300)
    assert found.update([first])
    assert not found.update([first])
    assert found.lag == 200
    assert found.update([first, report(1, 200, 300, 300)])
    assert (found.rows, found.batches, found.lag, found.dropped_late) == (300, 2, 0, 2)
    assert found.rows_per_second == 300.0
    assert "300 rows" in found.line()
    progress.save(tmp_path, found, 42)
    (saved,) = progress.load(tmp_path)
    assert (saved["job"], saved["rows"], saved["updated_ms"]) == ("collect", 300, 42)
    assert progress.load(tmp_path / "none") == []


def test_idle_triggers_are_no_batches() -> None:
    found = progress.Progress("collect")
    idle = {**report(0, 0, 0, 0), "durationMs": {"latestOffset": 1}}
    assert not found.update([idle])


def test_the_cause_is_found_in_what_spark_says() -> None:
    said = (
        "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred\n"
        "Traceback (most recent call last):\n"
        '  File "x.py", line 1, in call\n'
        "barnabas.spark.outputs.database.DatabaseError: PostgreSQL at db cannot be reached\n"
        "\tat org.apache.spark.Thing(Thing.scala:1)\n"
    )
    settings = SimpleNamespace(checkpoint=lambda job: f"/home/{job}")
    pipeline: Any = SimpleNamespace(settings=settings)
    found = str(runner.failure("earnings", pipeline, RuntimeError(said)))
    assert found.startswith("earnings: barnabas.spark.outputs.database.DatabaseError: PostgreSQL")
    broken = runner.failure("collect", pipeline, RuntimeError("bad offset log in checkpoint"))
    assert "/home/collect" in str(broken)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("cassandra://a/app", Place(("a",), 9042, "app")),
        ("cassandra://a:9999,b/app", Place(("a", "b"), 9999, "app")),
    ],
)
def test_places_of_cassandra(url: str, place: Place) -> None:
    assert Place.parse(url) == place


@pytest.mark.parametrize("url", ["cassandra://a", "cassandra:///app", "http://a/app", "x"])
def test_what_is_no_place_of_cassandra(url: str) -> None:
    with pytest.raises(CassandraError, match="expected cassandra://"):
        Place.parse(url)


def test_rows_go_to_cassandra_with_a_bounded_number_in_flight() -> None:
    class Session:
        def __init__(self) -> None:
            self.rows: list[Any] = []
            self.flying = self.most = 0

        def prepare(self, statement: str) -> str:
            return statement

        def execute_async(self, statement: str, row: Any) -> Any:
            self.rows.append((statement, row))
            self.flying += 1
            self.most = max(self.most, self.flying)
            return self

        def result(self) -> None:
            self.flying -= 1

    cassandra = Session()
    statement = insert_statement(["kind", "hour"])
    assert write_rows(cassandra, statement, [("swipe", str(n)) for n in range(500)]) == 500
    assert (cassandra.flying, cassandra.most, len(cassandra.rows)) == (0, 128, 500)
    assert "PRIMARY KEY ((kind, hour), event_time, event_id)" in table_statement(
        [("kind", "string")]
    )
