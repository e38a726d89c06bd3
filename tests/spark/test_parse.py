"""Records to events: each malformed one with its reason."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from barnabas.spark.parse import good, malformed, parse
from barnabas.spark.streams import RECORD_SCHEMA

AT_MS = 1_767_225_600_000
SWIPE = {
    "event_id": "e1",
    "user_id": "u1",
    "event_time_ms": AT_MS,
    "device_id": "d1",
    "ad_id": "a1",
    "direction": "left",
}
CREDIT = {
    "event_id": "e2",
    "user_id": "u1",
    "event_time_ms": AT_MS,
    "amount_cents": -5,
    "source": "payout",
}


def less(event: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key != name}


CASES: list[tuple[str, Any, str | None]] = [
    ("swipes", SWIPE, None),
    ("swipes", {**SWIPE, "more": {"is": "ignored"}}, None),
    ("credits", CREDIT, None),
    ("credits", {**CREDIT, "amount_cents": "12"}, None),
    ("swipes", None, "no value"),
    ("swipes", b"\xff\xfe{}", "not UTF-8"),
    ("swipes", b"", "not a JSON object"),
    ("swipes", b'{"event_id": "e1", ', "not a JSON object"),
    ("swipes", b"[1, 2]", "not a JSON object"),
    ("swipes", b"7", "not a JSON object"),
    ("swipes", less(SWIPE, "user_id"), "user_id is missing"),
    ("swipes", {**SWIPE, "event_id": None}, "event_id is missing"),
    ("swipes", {**SWIPE, "event_id": "a b"}, "event_id has a form that is not allowed"),
    ("swipes", {**SWIPE, "event_time_ms": "soon"}, "event_time_ms is not an integer"),
    ("swipes", {**SWIPE, "event_time_ms": 5}, "event_time_ms is below 1577836800000"),
    (
        "swipes",
        {**SWIPE, "event_time_ms": AT_MS + 3_600_000},
        "event_time_ms is after the record was sent",
    ),
    ("swipes", {**SWIPE, "direction": "up"}, "direction is not one of left, right"),
    ("credits", less(CREDIT, "amount_cents"), "amount_cents is missing"),
    ("credits", {**CREDIT, "amount_cents": 1.5}, "amount_cents is not an integer"),
    ("credits", {**CREDIT, "amount_cents": 10**9}, "amount_cents is above 100000000"),
    ("unheard-of", SWIPE, "unknown topic unheard-of"),
]


def test_every_case(spark: Any) -> None:
    at = datetime.fromtimestamp(AT_MS / 1000, UTC)
    rows = []
    for offset, (topic, value, _) in enumerate(CASES):
        data = json.dumps(value).encode() if isinstance(value, dict) else value
        rows.append((b"k", data, topic, 0, offset, at))
    parsed = parse(spark.createDataFrame(rows, RECORD_SCHEMA)).persist()
    reasons = {row.offset: row.reason for row in parsed.select("offset", "reason").collect()}
    assert [reasons[n] for n in range(len(CASES))] == [reason for _, _, reason in CASES]

    swipe = good(parsed).where("offset = 0").collect()[0].asDict()
    assert (swipe["kind"], swipe["direction"], swipe["amount_cents"]) == ("swipe", "left", None)
    assert good(parsed).where("offset = 3").collect()[0].amount_cents == 12
    assert malformed(parsed).count() == sum(reason is not None for _, _, reason in CASES)
    parsed.unpersist()
