"""The jobs on small frames, and on generated traffic: as streams, as a backfill, against the truth."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from barnabas.spark import progress, runner
from barnabas.spark.jobs import account_switching, earnings, invite_fraud, regions
from barnabas.spark.jobs.registry import JOBS
from barnabas.spark.judge import judge
from barnabas.spark.outputs.database import DatabaseError
from barnabas.spark.pipeline import Pipeline, Settings
from barnabas.spark.streams import RECORD_SCHEMA, Files, TopicsMissing
from barnabas.spark.truth import Truth
from tests.spark.conftest import Generated, answers

START = datetime(2026, 1, 1, tzinfo=UTC)


def after(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def test_account_switching_counts_accounts_in_any_hour(spark: Any) -> None:
    many = account_switching.MANY
    logins = [("farm", f"u{n % many}", after(50 + 2 * n)) for n in range(2 * many)]
    logins += [("family", f"u{n % 3}", after(n)) for n in range(30)]
    logins += [("shop", f"u{n}", after(15 * n)) for n in range(20)]
    frame = spark.createDataFrame(logins, "device_id STRING, user_id STRING, event_time TIMESTAMP")
    found = account_switching.switching(frame).collect()
    assert {row.device_id for row in found} == {"farm"}
    assert max(row.accounts for row in found) == many
    evidence = json.loads(found[0].evidence)
    assert set(evidence) <= {f"u{n}" for n in range(many)}
    assert evidence == sorted(evidence)
    assert len({row.window_start_ms for row in found}) == len(found) > 1


def test_invite_fraud_finds_a_ring_by_phone_and_by_address(spark: Any) -> None:
    ring = [(f"r{n}", f"r{n + 1}", f"d{n % 2}", "9.9.9.9", after(5 * n)) for n in range(8)]
    crowd = [("star", f"f{n}", f"p{n}", f"1.1.1.{n}", after(n)) for n in range(20)]
    frame = spark.createDataFrame(
        ring + crowd,
        "user_id STRING, invitee_id STRING, device_id STRING, address STRING, event_time TIMESTAMP",
    )
    found = invite_fraud.verdicts(frame).collect()
    assert {row.shared_id for row in found} == {"d0", "d1", "9.9.9.9"}
    by_address = next(row for row in found if row.shared == "address")
    assert by_address.verdict == "fraud"
    assert (by_address.invitees, by_address.devices, by_address.depth) == (8, 2, 8)
    assert json.loads(by_address.accounts) == sorted(f"r{n}" for n in range(9))


def test_regions_are_as_of_the_event_and_the_longest_prefix_wins(spark: Any) -> None:
    def entry(region: str) -> bytes:
        return json.dumps({"country": "X", "region": region}).encode()

    changes = [
        ("+49", entry("Germany"), 0),
        ("+4930", entry("Hamburg"), 0),
        ("+4930", entry("Berlin"), 10),
        ("+4989", entry("Munich"), 5),
        ("+4989", None, 15),
        ("not a prefix", entry("?"), 0),
        ("+1", b"no json", 0),
    ]
    reference = spark.createDataFrame(
        [
            (k.encode(), v, "phone-prefixes", 0, n, after(at))
            for n, (k, v, at) in enumerate(changes)
        ],
        RECORD_SCHEMA,
    )
    cases = [
        ("+49301111111", 9, "Hamburg"),
        ("+49301111111", 10, "Berlin"),
        ("+49891111111", 4, "Germany"),
        ("+49891111111", 14, "Munich"),
        ("+49891111111", 15, "Germany"),
        ("+12121111111", 20, None),
        ("+49301111111", -1, None),
    ]
    users = spark.createDataFrame(
        [(f"u{n}", phone, f"e{n}", after(at), after(at)) for n, (phone, at, _) in enumerate(cases)],
        "user_id STRING, phone STRING, event_id STRING, event_time TIMESTAMP, timestamp TIMESTAMP",
    )
    found = {row.user_id: row.region for row in regions.enrich(users, reference).collect()}
    assert [found[f"u{n}"] for n in range(len(cases))] == [region for _, _, region in cases]


@pytest.fixture(scope="module")
def streamed(spark: Any, in_files: Files, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """Every job as a stream of two files a topic, one a micro-batch where state is concerned."""
    home = tmp_path_factory.mktemp("stream")
    pipeline = Pipeline(spark, Settings(str(home), in_files))
    sliced = Pipeline(spark, Settings(str(home), in_files, max_records=1))
    for job in JOBS.values():
        by_file = len(job.topics) == 1
        runner.run(sliced if by_file else pipeline, [job], once=True)
    return pipeline


def check(pipeline: Pipeline, truth: Truth) -> None:
    wrong = [row for row in judge(pipeline, truth) if not row.right]
    assert wrong == []


def test_a_backfill_finds_the_truth(backfilled: Pipeline, generated: Generated) -> None:
    check(backfilled, generated.truth)


def test_streams_find_the_truth_and_the_same_answers_as_a_backfill(
    streamed: Pipeline, backfilled: Pipeline, generated: Generated
) -> None:
    check(streamed, generated.truth)
    for job in JOBS.values():
        assert answers(streamed, job) == answers(backfilled, job)


@pytest.mark.parametrize("name", JOBS)
def test_a_replayed_micro_batch_changes_no_answer(
    streamed: Pipeline, backfilled: Pipeline, name: str
) -> None:
    """The last batch's commit is taken away from the checkpoint, as if the driver was killed after
    the outputs had taken the batch: Spark runs it again."""
    commits = Path(streamed.settings.checkpoint(name)) / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    job = JOBS[name]
    pipeline = streamed
    if len(job.topics) == 1:
        pipeline = Pipeline(streamed.spark, replace(streamed.settings, max_records=1))
    (replayed,) = runner.run(pipeline, [job], once=True)
    assert replayed.batches > 0
    assert answers(streamed, job) == answers(backfilled, job)


def test_balances_in_one_go_are_those_of_the_ledger(backfilled: Pipeline, in_files: Files) -> None:
    records = in_files.read(backfilled.spark, earnings.TOPICS)
    whole = earnings.balances(earnings.transform(records)).collect()
    assert {row.user_id: row.balance_cents for row in whole} == dict(
        backfilled.database.query("SELECT user_id, balance_cents FROM balances")
    )


def test_what_cannot_be_used_is_told_before_a_query_starts(
    spark: Any, in_files: Files, tmp_path: Path
) -> None:
    pipeline = Pipeline(spark, Settings(str(tmp_path), in_files, database=str(tmp_path)))
    with pytest.raises(DatabaseError, match="cannot be opened"):
        runner.run(pipeline, [JOBS["earnings"]], once=True)
    nowhere = Pipeline(spark, Settings(str(tmp_path), Files(str(tmp_path / "none"))))
    with pytest.raises(TopicsMissing, match="no directory of topics"):
        runner.run(nowhere, [JOBS["earnings"]], once=True)
    assert not (tmp_path / "checkpoints").exists()


def test_a_corrupt_checkpoint_is_told_with_its_place(
    spark: Any, in_files: Files, tmp_path: Path
) -> None:
    pipeline = Pipeline(spark, Settings(str(tmp_path), in_files))
    offsets = tmp_path / "checkpoints" / "invite-fraud" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text("v1 what is this")
    with pytest.raises(runner.PipelineError, match=r"^invite-fraud: .*checkpoints/invite-fraud"):
        runner.run(pipeline, [JOBS["invite-fraud"]], once=True)
    (status,) = progress.load(tmp_path / "status")
    assert status["state"] == "failed"
    assert "invite-fraud" in status["error"]
