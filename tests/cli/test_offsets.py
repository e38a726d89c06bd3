"""The offset language: what each text means, and what it resolves to."""

from __future__ import annotations

import pytest

from barnabas.cli.offsets import Held, parse, resolve

NOW = 1_800_000_000_000
HOUR = 3_600_000
HELD = Held(10, 100)


def at_time(moment: int) -> int | None:
    """Record at offset o has the time NOW - (100 - o) minutes."""
    offset = 100 - (NOW - moment) // 60_000
    return None if offset >= 100 else max(int(offset), 10)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", (10, None)),
        ("oldest", (10, None)),
        ("earliest", (10, None)),
        ("end", (100, None)),
        ("newest", (100, None)),
        ("42", (42, None)),
        ("+5", (15, None)),
        ("+500", (100, None)),
        ("-5", (95, None)),
        ("-500", (10, None)),
        ("20:30", (20, 30)),
        ("20:", (20, None)),
        (":30", (10, 30)),
        (":end", (10, 100)),
        ("start:end", (10, 100)),
        ("20:+5", (20, 25)),
        ("start:+5", (10, 15)),
        ("-10:-5", (90, 95)),
        ("-5:end", (95, 100)),
        ("end:+3", (100, 103)),
        ("90:200", (90, 100)),
        ("200:300", (200, 200)),
        ("@-1h", (40, None)),
        ("@-1h:end", (40, 100)),
        ("@-1h:30m", (40, 70)),
        ("@-1h:+30m", (40, 70)),
        ("@-1h:-30m", (40, 70)),
        ("@:-30m", (10, 70)),
        ("@now", (100, None)),
        (f"@{NOW - HOUR}", (40, None)),
        (f"@{NOW - HOUR}:{NOW - HOUR // 2}", (40, 70)),
        (f"@{(NOW - HOUR) // 1000}", (40, None)),
        ("@2027-01-15T07:00:00Z", (40, None)),
        ("@2027-01-15T07:00:00Z:2027-01-15T07:30:00Z", (40, 70)),
        ("@2027-01-15T08:00:00+01:00", (40, None)),
        ("@2027-01-15T07:00:00Z:end", (40, 100)),
        ("@2027-01-15T07:00:00", (40, None)),
        ("@2027-01-15:end", (10, 100)),
    ],
)
def test_meaning(text: str, expected: tuple[int, int | None]) -> None:
    assert resolve(parse(text, NOW), HELD, at_time) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "foo",
        "1:2:3",
        "--3",
        "+",
        "-",
        "@",
        "@:",
        "@foo",
        "@-1x",
        "1.5",
        "30:20",
        "²",
        "9" * 20,
    ],
)
def test_refusals_say_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|ends before|not a"):
        parse(text, NOW)


def test_stop_before_start_reads_nothing() -> None:
    assert resolve(parse("end:20", NOW), HELD, at_time) == (100, 100)
