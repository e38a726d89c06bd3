"""The jobs' answers beside the generator's truth."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.spark.truth import Score

if TYPE_CHECKING:
    from barnabas.spark.pipeline import Pipeline
    from barnabas.spark.truth import Truth


@dataclass(frozen=True)
class Judgement:
    """One row: what was asked, what was found, whether it is as it should be."""

    job: str
    question: str
    found: str
    expected: str
    right: bool


DETECTOR_FLOOR = 0.8
"""Precision and recall of a detector below it are a defect; balances and events must be exact."""


def judge(pipeline: Pipeline, truth: Truth) -> list[Judgement]:
    from barnabas.spark.jobs.registry import JOBS

    database = pipeline.database
    collect = JOBS["collect"]
    events = pipeline.lake_table(collect, "events").read()
    letters = pipeline.lake_table(collect, "dead_letters").read()
    collected = 0 if events is None else events.count()
    unique = 0 if events is None else events.select("kind", "event_id").distinct().count()
    dead = 0 if letters is None else letters.count()
    happened = sum(truth.events.values())

    devices = {row[0] for row in database.query("SELECT device_id FROM switching_alerts")}
    accounts = {
        account
        for row in database.query("SELECT accounts FROM invite_verdicts WHERE verdict = 'fraud'")
        for account in json.loads(row[0])
    }
    regions = dict(database.query("SELECT user_id, region FROM user_regions"))
    true_regions = truth.regions()
    balances = dict(database.query("SELECT user_id, balance_cents FROM balances"))
    true_balances = dict(truth.balances)
    wrong = {
        user
        for user in balances.keys() | true_balances.keys()
        if balances.get(user, 0) != true_balances.get(user, 0)
    }
    tasks = database.query("SELECT COUNT(*) FROM completed_tasks")[0][0]

    return [
        _exact("collect", "events, each once", collected, happened),
        _exact("collect", "different events", unique, happened),
        _exact("collect", "dead letters", dead, truth.malformed),
        _detector("account-switching", "phones", Score.of(devices, truth.switching_devices)),
        _detector("invite-fraud", "accounts", Score.of(accounts, truth.cheating_accounts())),
        _exact(
            "regions",
            "users with the right region",
            sum(regions.get(user) == region for user, region in true_regions.items()),
            len(true_regions),
        ),
        _exact("earnings", "users with a wrong balance", len(wrong), 0),
        _exact(
            "earnings",
            "sum of all balances in cents",
            sum(balances.values()),
            sum(true_balances.values()),
        ),
        _exact("earnings", "completed tasks", tasks, truth.completed_tasks()),
    ]


def _exact(job: str, question: str, found: int, expected: int) -> Judgement:
    return Judgement(job, question, f"{found:,}", f"{expected:,}", found == expected)


def _detector(job: str, what: str, score: Score) -> Judgement:
    right = score.precision >= DETECTOR_FLOOR and score.recall >= DETECTOR_FLOOR
    found = f"precision {score.precision:.3f}, recall {score.recall:.3f}"
    said = f"{score.there:,} there, {score.found:,} found, {score.right:,} right"
    return Judgement(job, what, found, said, right)
