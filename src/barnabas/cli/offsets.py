"""The offset language of `consume -o`: where to begin, and optionally where to stop.

    start | end              the oldest record held, or only what comes
    N                        from offset N
    +N  -N                   N after the start, N before the end
    A:B                      from A up to but not including B; each is one of the above
    :B  A:                   from the start up to B; from A on
    A:+N                     N offsets from A on
    @T                       from the first record at or after the moment T
    @T1:T2                   from T1 up to T2; T2 may be `end` or a duration after T1
    @:T2                     from the start up to T2

A range is about what is there: a stop beyond the last record means the last record, except after
`end`, where `end:+3` waits for three more. Moments are those of `barnabas.cli.moments`, so `@-1h:end`
is the last hour. A colon inside a date-time does not separate. `resolve` needs the offsets the
partitions have; this file does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from barnabas.cli.moments import parse_duration_ms, parse_moment_ms

START, END, ABSOLUTE, AFTER_START, BEFORE_END, AT_TIME, AFTER_FIRST = range(7)
_WORDS = {
    "start": START,
    "oldest": START,
    "earliest": START,
    "beginning": START,
    "end": END,
    "newest": END,
    "latest": END,
}
MAX_OFFSET = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Point:
    kind: int
    value: int = 0

    @property
    def is_time(self) -> bool:
        return self.kind == AT_TIME


@dataclass(frozen=True, slots=True)
class Range:
    """`stop` is None when reading goes on for ever."""

    start: Point
    stop: Point | None = None


def parse(text: str, now_ms: int) -> Range:
    """Read the language; ValueError says what is wrong and what is allowed."""
    text = text.strip()
    if text.startswith("@"):
        return _parse_times(text[1:], now_ms)
    first, separator, second = text.partition(":")
    start = _point(first, text) if first else Point(START)
    if start.kind == AFTER_FIRST:
        start = Point(AFTER_START, start.value)
    if not separator or not second:
        if not first:
            raise _wrong(text)
        return Range(start)
    stop = _point(second, text)
    if start.kind == ABSOLUTE and stop.kind == ABSOLUTE and stop.value < start.value:
        raise ValueError(f"{text!r} ends before it begins")
    return Range(start, stop)


def _point(text: str, whole: str) -> Point:
    if text.lower() in _WORDS:
        return Point(_WORDS[text.lower()])
    sign = text[:1]
    digits = text[1:] if sign in "+-" else text
    if not digits.isascii() or not digits.isdigit() or int(digits) > MAX_OFFSET:
        raise _wrong(whole)
    if sign == "+":
        return Point(AFTER_FIRST, int(digits))
    if sign == "-":
        return Point(BEFORE_END, int(digits))
    return Point(ABSOLUTE, int(digits))


def _wrong(text: str) -> ValueError:
    return ValueError(
        f"{text!r} is not an offset; write start, end, 42, +10, -10, 10:20, :end, "
        "@2026-01-31, @-1h or @-1h:end"
    )


def _parse_times(text: str, now_ms: int) -> Range:
    """The colon that separates is the one that leaves a moment on both sides."""
    if not text:
        raise _wrong("@")
    problem: ValueError | None = None
    if "T" not in text or ":" not in text:
        splits = [text.find(":")] if ":" in text else []
    else:
        splits = [i for i, c in enumerate(text) if c == ":"]
    for at in splits:
        try:
            return _time_range(text[:at], text[at + 1 :], now_ms)
        except ValueError as error:
            problem = problem or error
    try:
        return Range(Point(AT_TIME, parse_moment_ms(text, now_ms)))
    except ValueError as error:
        raise (problem or error) from None


def _time_range(first: str, second: str, now_ms: int) -> Range:
    if not first and not second:
        raise _wrong("@:")
    t1 = parse_moment_ms(first, now_ms) if first else None
    start = Point(START) if t1 is None else Point(AT_TIME, t1)
    if not second:
        return Range(start)
    if second.lower() in ("end", "latest", "newest"):
        return Range(start, Point(END))
    try:
        t2 = (now_ms if t1 is None else t1) + parse_duration_ms(second.removeprefix("+"))
    except ValueError:
        t2 = parse_moment_ms(second, now_ms)
    if t1 is not None and t2 < t1:
        raise ValueError(f"@{first}:{second} ends before it begins")
    return Range(start, Point(AT_TIME, t2))


@dataclass(frozen=True, slots=True)
class Held:
    """The offsets a partition has: the first it holds, and the one after its last."""

    start: int
    end: int


def resolve(
    wanted: Range, held: Held, at_time: Callable[[int], int | None]
) -> tuple[int, int | None]:
    """First offset to read and the one to stop before. `at_time` gives None past the last record."""
    first = _resolve(wanted.start, held, at_time, held.start)
    stop = None if wanted.stop is None else _resolve(wanted.stop, held, at_time, first)
    if stop is not None:
        if wanted.start.kind != END:
            stop = min(stop, held.end)
        stop = max(stop, first)
    return first, stop


def _resolve(point: Point, held: Held, at_time: Callable[[int], int | None], first: int) -> int:
    if point.kind == START:
        return held.start
    if point.kind == END:
        return held.end
    if point.kind == ABSOLUTE:
        return point.value
    if point.kind == AFTER_START:
        return min(held.start + point.value, held.end)
    if point.kind == BEFORE_END:
        return max(held.start, held.end - point.value)
    if point.kind == AFTER_FIRST:
        return first + point.value
    found = at_time(point.value)
    return held.end if found is None else found
