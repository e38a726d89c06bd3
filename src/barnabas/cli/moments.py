"""Points in time and durations as people write them.

A moment is milliseconds since 1970 (13 digits), seconds (9 to 11 digits), a day `2026-01-31`, a
date-time `2026-01-31T08:00:00[.123][Z|+02:00]` (UTC if it says nothing), `now`, or `-1h`: that long
before now. A duration is a sum of numbers with a unit out of ms, s, m, h, d, w: `90s`, `1h30m`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_UNITS_MS = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+\Z")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_ISO_DURATION = re.compile(
    r"(?P<sign>[+-]?)P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?\Z"
)


def parse_duration_ms(text: str) -> int:
    """`1h30m` and the like in milliseconds; ISO 8601 (`PT1H`) is understood as well."""
    if _DURATION.match(text):
        return round(sum(float(n) * _UNITS_MS[unit] for n, unit in _PART.findall(text)))
    match = _ISO_DURATION.match(text.upper())
    if match is not None and text[-1] not in "Tt" and len(text.lstrip("+-")) > 1:
        total = sum(float(match[u] or 0) * _UNITS_MS[u] for u in "dhms")
        return -round(total) if match["sign"] == "-" else round(total)
    raise ValueError(f"{text!r} is not a duration; write 500ms, 90s, 5m, 1h30m, 2d or 1w")


def parse_moment_ms(text: str, now_ms: int) -> int:
    """The moment in milliseconds since 1970."""
    if text == "now":
        return now_ms
    if text.isdigit():
        if len(text) >= 12:
            return int(text)
        if 9 <= len(text) <= 11:
            return int(text) * 1_000
    elif text.startswith("-"):
        return now_ms - parse_duration_ms(text[1:])
    else:
        try:
            parsed = datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            if parsed.tzinfo is None:
                parsed = parsed.replace(tzinfo=UTC)
            return round(parsed.timestamp() * 1_000)
    raise ValueError(
        f"{text!r} is not a time; write milliseconds or seconds since 1970, 2026-01-31, "
        "2026-01-31T08:00:00Z, now, or -1h for an hour ago"
    )


def show_moment(ms: int) -> str:
    """Milliseconds since 1970 as a UTC date-time; `-` for none."""
    if ms < 0:
        return "-"
    try:
        whole = datetime.fromtimestamp(ms // 1_000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(ms)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{ms % 1_000:03d}Z"
