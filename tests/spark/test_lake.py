"""The lake table: commits once, skips replays, ignores what is in no commit, finds copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barnabas.spark.outputs import lake
from barnabas.spark.outputs.batch import BatchId
from barnabas.spark.outputs.lake import LakeError, LakeTable


def ids(table: Any) -> list[tuple[str, str]]:
    frame = table.read()
    assert frame is not None
    return sorted((row.kind, row.id) for row in frame.select("kind", "id").collect())


def frame(spark: Any, *rows: tuple[str, str]) -> Any:
    return spark.createDataFrame(list(rows), "kind STRING, id STRING")


def make(kind: str, spark: Any, root: Path) -> Any:
    if kind == "delta":
        pytest.importorskip("deltalake")
        from barnabas.spark.outputs.delta import DeltaLakeTable

        return DeltaLakeTable(spark, str(root), ["kind"], ["id"])
    return LakeTable(spark, str(root), ["kind"], ["id"])


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_batches_replays_copies_and_a_backfill(spark: Any, tmp_path: Path, kind: str) -> None:
    table = make(kind, spark, tmp_path)
    assert table.read() is None
    first = frame(spark, ("a", "1"), ("b", "1"))
    assert table.commit(BatchId("q", 0), first)
    assert not table.commit(BatchId("q", 0), first)
    assert table.commit(BatchId("q", 1), frame(spark, ("a", "1"), ("a", "2"), ("c", "1")))
    assert not table.commit(BatchId("q", 0), frame(spark, ("z", "9")))
    expected = [("a", "1"), ("a", "2"), ("b", "1"), ("c", "1")]
    assert ids(table) == expected
    assert ids(make(kind, spark, tmp_path)) == expected
    assert table.commit(BatchId("other", 0), frame(spark, ("b", "1"), ("b", "3")))
    assert ids(table) == sorted([*expected, ("b", "3")])
    for _ in range(2):
        assert table.commit(BatchId("backfill", 0, True), frame(spark, ("d", "4")))
    assert ids(table) == [("d", "4")]


def test_what_a_killed_writer_left_is_in_no_table_and_can_be_removed(
    spark: Any, tmp_path: Path
) -> None:
    table = LakeTable(spark, str(tmp_path), ["kind"])
    table.commit(BatchId("q", 0), frame(spark, ("a", "1")))
    orphan = tmp_path / "data" / "commit=q-1-dead" / "kind=a" / "part-0.parquet"
    orphan.parent.mkdir(parents=True)
    orphan.write_bytes(next((tmp_path / "data").rglob("part-*.parquet")).read_bytes())
    assert ids(LakeTable(spark, str(tmp_path), ["kind"])) == [("a", "1")]
    assert table.vacuum(0) == 0
    assert table.vacuum(2**62) == 1
    assert not orphan.exists()
    assert ids(table) == [("a", "1")]


def test_the_log_is_summed_up_and_a_hole_in_it_is_told(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake, "CHECKPOINT_EVERY", 2)
    table = LakeTable(spark, str(tmp_path))
    for batch in range(3):
        table.commit(BatchId("q", batch), frame(spark, ("a", str(batch))))
    commits = tmp_path / "commits"
    assert len(list(commits.glob("*.checkpoint.json"))) == 1
    # What is summed up is not read again.
    (commits / f"{0:020}.json").unlink()
    again = LakeTable(spark, str(tmp_path))
    assert len(ids(again)) == 3
    assert not again.commit(BatchId("q", 2), frame(spark, ("a", "9")))
    for crc in commits.glob(".*.crc"):
        crc.unlink()  # Hadoop's checksums, which would find out what is done here
    last = commits / f"{2:020}.json"
    last.rename(commits / f"{3:020}.json")
    with pytest.raises(LakeError, match="is missing from the commit log"):
        LakeTable(spark, str(tmp_path)).read()
    last.write_text("{")
    with pytest.raises(LakeError, match="is no commit"):
        LakeTable(spark, str(tmp_path)).read()


def test_two_writers_take_different_numbers(spark: Any, tmp_path: Path) -> None:
    one, two = LakeTable(spark, str(tmp_path)), LakeTable(spark, str(tmp_path))
    one.commit(BatchId("one", 0), frame(spark, ("a", "1")))
    two.commit(BatchId("two", 0), frame(spark, ("a", "2")))
    one.commit(BatchId("one", 1), frame(spark, ("a", "3")))
    assert len(ids(two)) == 3
    files = one._files
    assert not files.create(f"commits/{0:020}.json", "{}")
    assert files.create("commits/new.txt", "text")
    assert files.read("commits/new.txt") == "text"
