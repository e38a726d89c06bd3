"""What a setting's value may be.

A validator is a small frozen object with `check(name, value)`, which gives None or the reason for
a refusal, and a text, shown wherever a user is told what is allowed. The reasons and the texts are
those that Kafka's tools and users know, so a script that looks for them keeps working.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Protocol


class Validator(Protocol):
    """Judges a parsed value; `str()` of it is what documentation shows."""

    def check(self, name: str, value: Any) -> str | None:
        """None if the value is fine, else the reason for refusing it."""


@dataclass(frozen=True, slots=True)
class Range:
    """A number between two bounds, either of which may be missing."""

    lowest: float | None
    highest: float | None

    def check(self, name: str, value: Any) -> str | None:
        if value is None:
            return "Value must be non-null"
        if self.lowest is not None and value < self.lowest:
            return f"Value must be at least {self.lowest}"
        if self.highest is not None and value > self.highest:
            return f"Value must be no more than {self.highest}"
        return None

    def __str__(self) -> str:
        if self.highest is None:
            return f"[{self.lowest},...]"
        if self.lowest is None:
            return f"[...,{self.highest}]"
        return f"[{self.lowest},...,{self.highest}]"


@dataclass(frozen=True, slots=True)
class RangeOr:
    """A number between two bounds, or one special number outside of them."""

    lowest: int
    highest: int
    special: int

    def check(self, name: str, value: Any) -> str | None:
        if value == self.special or (value is not None and self.lowest <= value <= self.highest):
            return None
        return f"Value must be between {self.lowest} and {self.highest} or equal to {self.special}"

    def __str__(self) -> str:
        return f"[{self.lowest},...,{self.highest}] or {self.special}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of a few words."""

    words: tuple[str, ...]

    def check(self, name: str, value: Any) -> str | None:
        if value in self.words:
            return None
        return f"String must be one of: {', '.join(self.words)}"

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}]"


@dataclass(frozen=True, slots=True)
class OneOfIgnoringCase:
    """One of a few words, in whatever case."""

    words: tuple[str, ...]

    def check(self, name: str, value: Any) -> str | None:
        if value is not None and value.upper() in self.words:
            return None
        return f"String must be one of (case insensitive): {', '.join(self.words)}"

    def __str__(self) -> str:
        return f"(case insensitive) [{', '.join(self.words)}]"


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of distinct words, from a few if any are named."""

    words: tuple[str, ...] = ()
    may_be_empty: bool = True

    def check(self, name: str, value: Any) -> str | None:
        if value is None:
            return None
        if not value and not self.may_be_empty:
            allowed = str(self) if self.words else "any non-empty value"
            return f"Configuration '{name}' must not be empty. Valid values include: {allowed}"
        if len(set(value)) != len(value):
            return f"Configuration '{name}' values must not be duplicated."
        for word in value:
            if not word:
                return f"Configuration '{name}' values must not be empty."
            if self.words and word not in self.words:
                return f"String must be one of: {', '.join(self.words)}"
        return None

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}]" if self.words else "non-empty list"


@dataclass(frozen=True, slots=True)
class NonEmpty:
    """A string that is null or has at least one character."""

    def check(self, name: str, value: Any) -> str | None:
        return "String must be non-empty" if value == "" else None

    def __str__(self) -> str:
        return "non-empty string"


@dataclass(frozen=True, slots=True)
class NonNull:
    """Anything but null."""

    def check(self, name: str, value: Any) -> str | None:
        return "entry must be non null" if value is None else None

    def __str__(self) -> str:
        return "non-null string"


_THROTTLED = re.compile(r"\s*[0-9]+:[0-9]+\s*")


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """`*`, or partition:broker pairs."""

    def check(self, name: str, value: Any) -> str | None:
        if list(value) == ["*"] or all(_THROTTLED.fullmatch(pair) for pair in value):
            return None
        return (
            f"{name} must be the literal '*' or a list of replicas in the following format: {self}"
        )

    def __str__(self) -> str:
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


_DURATION = re.compile(
    r"P(?!$)([0-9]+D)?(T(?=[0-9])([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]+)?S)?)?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """latest, earliest, or a duration to look back."""

    def check(self, name: str, value: Any) -> str | None:
        if value in ("latest", "earliest"):
            return None
        kind, _, duration = str(value).partition(":")
        if kind == "by_duration" and _DURATION.fullmatch(duration):
            return None
        return (
            f"Invalid value `{value}` for configuration {name}. The value must be either "
            "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
        )

    def __str__(self) -> str:
        return "[latest, earliest, by_duration:PnDTnHnMn.nS]"


def at_least(lowest: float) -> Range:
    return Range(lowest, None)


def between(lowest: float, highest: float) -> Range:
    return Range(lowest, highest)


def one_of(*words: str) -> OneOf:
    return OneOf(words)
