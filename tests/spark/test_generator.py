"""Traffic is reproducible, is what its schemas say, and its truth is true."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.spark.events import (
    BY_TOPIC,
    INTEGER,
    PHONE_PREFIXES,
    TOPICS,
    Field,
    Kind,
    json_schema,
    markdown_table,
)
from barnabas.spark.generator import Record, Settings, Traffic
from barnabas.spark.phone_prefixes import longest_match
from barnabas.spark.truth import Score, Truth

SETTINGS = Settings(seed=3, count=6_000, rate=0.4, cheaters=2)


def made(chosen: Settings) -> tuple[list[Record], Truth]:
    traffic = Traffic(chosen)
    return list(traffic.records()), traffic.truth


def fits(field: Field, value: Any) -> bool:
    if field.type == INTEGER:
        if not isinstance(value, int):
            return False
        low = field.minimum if field.minimum is not None else value
        high = field.maximum if field.maximum is not None else value
        return low <= value <= high
    if not isinstance(value, str):
        return False
    if field.choices:
        return value in field.choices
    return field.pattern is None or re.search(field.pattern, value) is not None


def read(kind: Kind, value: bytes) -> dict[str, Any] | None:
    """The event, if it is one by the table of kinds."""
    try:
        event = json.loads(value.decode())
    except ValueError:
        return None
    good = all(field.name in event and fits(field, event[field.name]) for field in kind.all_fields)
    return event if good else None


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert made(SETTINGS) == made(SETTINGS)
    assert made(SETTINGS)[0] != made(Settings(seed=4, count=6_000, rate=0.4, cheaters=2))[0]


@given(
    st.integers(0, 1000),
    st.integers(1, 400),
    st.floats(0.01, 1000),
    st.floats(0, 3),
    st.integers(0, 3),
)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_settings_give_as_many_records_as_asked_in_the_order_of_time(
    seed: int, count: int, rate: float, skew: float, cheaters: int
) -> None:
    records, truth = made(Settings(seed, count, rate, skew, cheaters))
    assert len(records) == count == sum(truth.records.values())
    times = [record.timestamp_ms for record in records]
    assert times == sorted(times)


def test_events_are_what_the_table_of_kinds_says_and_the_truth_counts_them() -> None:
    records, truth = made(SETTINGS)
    seen: dict[str, set[str]] = defaultdict(set)
    malformed = copies = 0
    balances: Counter[str] = Counter()
    for record in records:
        if record.topic == PHONE_PREFIXES:
            continue
        kind = BY_TOPIC[record.topic]
        assert record.value is not None
        event = read(kind, record.value)
        if event is None:
            malformed += 1
        elif event["event_id"] in seen[kind.name]:
            copies += 1
        else:
            assert event["user_id"].encode() == record.key
            assert event["event_time_ms"] <= record.timestamp_ms
            seen[kind.name].add(event["event_id"])
            balances[event["user_id"]] += event.get("amount_cents", 0)
    assert {name: len(ids) for name, ids in seen.items()} == dict(truth.events)
    assert (malformed, copies) == (truth.malformed, truth.copies)
    assert malformed > 0
    assert copies > 0
    assert truth.late > 0
    # What is left are the rewards of completed tasks, which no event tells.
    rewards = {u: truth.balance(u) - balances[u] for u in truth.balances}
    assert all(cents >= 0 for cents in rewards.values())
    assert sum(rewards.values()) > 0


def test_there_are_as_many_cheaters_as_asked_and_none_if_none() -> None:
    _, truth = made(SETTINGS)
    assert len(truth.switching_devices) == len(truth.rings) == 2
    _, honest = made(Settings(seed=3, count=6_000, rate=0.4, cheaters=0))
    assert honest.switching_devices == set()
    assert honest.rings == []


def test_skew_gives_most_events_to_few() -> None:
    def share_of_the_busiest(skew: float) -> float:
        records, _ = made(Settings(seed=1, count=5_000, rate=0.4, skew=skew, cheaters=0))
        counts = sorted(Counter(record.key for record in records).values(), reverse=True)
        return sum(counts[: len(counts) // 10]) / sum(counts)

    assert share_of_the_busiest(0) < share_of_the_busiest(1) < share_of_the_busiest(4)


def test_a_correction_of_the_reference_changes_later_events_only() -> None:
    truth = Truth()
    truth.observe_reference("+49", "Germany", 0)
    truth.observe_reference("+4930", "Hamburg", 0)
    truth.observe_reference("+4930", "Berlin", 100)
    truth.observe_reference("+4930", None, 200)
    for user, at_ms in (("a", 99), ("b", 100), ("c", 200)):
        event = {"user_id": user, "event_id": user, "event_time_ms": at_ms, "phone": "+49301"}
        truth.observe("verification", event, False)
    assert truth.regions() == {"a": "Hamburg", "b": "Berlin", "c": "Germany"}


@pytest.mark.parametrize(
    ("phone", "expected"), [("+49301234567", "b"), ("+49891234567", "a"), ("+1", None)]
)
def test_the_longest_prefix_wins(phone: str, expected: str | None) -> None:
    table = {"+49": ("DE", "a"), "+4930": ("DE", "b")}
    found = longest_match(phone, table)
    assert (found[1] if found else None) == expected


@pytest.mark.parametrize(
    ("found", "there", "precision", "recall"),
    [("ab", "ab", 1.0, 1.0), ("ab", "a", 0.5, 1.0), ("", "a", 1.0, 0.0), ("a", "", 0.0, 1.0)],
)
def test_scores(found: str, there: str, precision: float, recall: float) -> None:
    score = Score.of(found, there)
    assert (score.precision, score.recall) == (precision, recall)


def test_schemas_are_of_all_topics_and_ask_for_all_fields() -> None:
    assert len(set(TOPICS)) == len(BY_TOPIC)
    for kind in BY_TOPIC.values():
        schema = json_schema(kind)
        assert set(schema["required"]) == set(schema["properties"])


def test_the_manual_has_the_table_of_kinds() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text()
    _, _, rest = manual.partition("<!-- kinds: start -->\n")
    table, _, _ = rest.partition("\n<!-- kinds: end -->")
    assert table == markdown_table()


@pytest.mark.parametrize("wrong", [{"count": 0}, {"rate": 0}, {"skew": -1}, {"cheaters": -1}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="count and rate"):
        Traffic(Settings(**wrong))
