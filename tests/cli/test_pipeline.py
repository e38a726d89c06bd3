"""`barnabas pipeline` without Spark: generate, topics, list, status, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.spark import progress
from tests.cli.conftest import Ran

Run = Callable[..., Ran]


def test_generate_into_files_is_the_same_for_the_same_seed(run: Run, tmp_path: Path) -> None:
    def make(name: str) -> dict[str, str]:
        place, truth = tmp_path / name, tmp_path / f"{name}.json"
        common = ("--count", "2000", "--seed", "7", "--start", "2026-01-01")
        ran = run("pipeline", "generate", *common, "--to", place, "--truth", truth)
        assert ran.code == 0
        found = {path.parent.name: path.read_text() for path in place.glob("*/records.json")}
        return {**found, "truth": truth.read_text()}

    first = make("one")
    assert first == make("two")
    told = json.loads(first["truth"])
    lines = {topic: text.count("\n") for topic, text in first.items() if topic != "truth"}
    assert lines == told["records"]
    assert sum(lines.values()) == 2000


def test_generate_on_standard_output_and_to_a_broker(run: Run) -> None:
    printed = run("pipeline", "generate", "--stdout", "--count", "50")
    assert len(printed.lines) == 50
    assert {"topic", "k", "t", "o"} <= set(printed.lines[0])

    sent = run("pipeline", "generate", "--count", "3000", "--format", "json")
    assert sent.code == 0
    assert sent.json["records"] == 3000
    swipes = run("consume", "swipes", "-o", "start", "-e", "--format", "json")
    assert swipes.code == 0
    assert len(swipes.lines) > 300
    prefixes = run("config", "describe", "topic", "phone-prefixes")
    assert "compact" in prefixes.out
    again = run("pipeline", "topics", "--format", "json")
    assert (again.code, again.json) == (0, [])


def test_list_has_five_jobs(run: Run) -> None:
    rows = run("pipeline", "list", "--format", "json").json
    assert [row["job"] for row in rows] == [
        "collect",
        "account-switching",
        "invite-fraud",
        "regions",
        "earnings",
    ]


def test_status_is_read_without_spark(run: Run, tmp_path: Path) -> None:
    empty = run("pipeline", "status", "--home", tmp_path)
    assert (empty.code, empty.out) == (0, "")
    assert "No job has run" in empty.err
    failed = progress.Progress("collect", state="failed", rows=12, error="collect: no room")
    progress.save(tmp_path / "status", failed, 1000)
    (row,) = run("pipeline", "status", "--home", tmp_path, "--format", "json").json
    assert (row["job"], row["state"], row["rows"]) == ("collect", "failed", 12)
    assert "collect: no room" in run("pipeline", "status", "--home", tmp_path).out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "colect"), "there are collect"),
        (("run",), "Missing argument"),
        (("backfill", "nothing"), "No job 'nothing'"),
        (("generate", "--to", "x", "--stdout"), "two places"),
        (("generate", "--start", "soon"), "--start"),
        (("generate", "--rate", "0"), "--rate"),
    ],
)
def test_wrong_usage(run: Run, arguments: tuple[str, ...], says: str) -> None:
    ran = run("pipeline", *arguments)
    assert ran.code == 2
    assert says in ran.err


def test_a_missing_java_is_told_before_anything_starts(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for verb in (
        ("run", "collect", "--home", tmp_path),
        ("backfill", "all", "--home", tmp_path),
        ("demo",),
    ):
        ran = run("pipeline", *verb)
        assert ran.code == 1
        assert "Spark needs Java 17 or later" in ran.err
