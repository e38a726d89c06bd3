"""Times and durations as people write them."""

from __future__ import annotations

import pytest

from barnabas.cli.moments import parse_duration_ms, parse_moment_ms, show_moment


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", 500),
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("1.5s", 1_500),
        ("2d", 172_800_000),
        ("1w", 604_800_000),
        ("PT1H", 3_600_000),
        ("P1DT2H3M4S", 93_784_000),
        ("-PT30M", -1_800_000),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert parse_duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "5", "h", "1y", "1h 2m", "P", "PT"])
def test_wrong_durations(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", 7_200_000),
        ("-1h", 3_600_000),
        ("1700000000000", 1_700_000_000_000),
        ("1700000000", 1_700_000_000_000),
        ("2023-11-14", 1_699_920_000_000),
        ("2023-11-14T22:13:20.5Z", 1_700_000_000_500),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
    ],
)
def test_moments(text: str, expected: int) -> None:
    assert parse_moment_ms(text, 7_200_000) == expected


def test_shown() -> None:
    assert show_moment(1_700_000_000_001) == "2023-11-14T22:13:20.001Z"
    assert show_moment(-1) == "-"
