"""How a table of options becomes settings: conversion, ranges, names, suggestions.

A table is a frozen dataclass whose fields are made with `option(default, meaning, …)`. The field's
name with dots for underscores is the option's name; its annotation is how a value is read: text
from a properties file or a Python value. Every refusal names the option, the value and what is
allowed.

`load` takes options under either spelling. A name nobody knows is an error that suggests the
nearest. A name that only means something to another client (a class name for Java's, JMX, an option
of a consumer given to a producer) is passed over with a warning, because code that sets it believes
in it; a caller that reads files written for any client collects these names in `ignored` instead.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, field, fields
from typing import Any, ClassVar, Protocol, TypeVar

from barnabas.client.errors import OptionError

logger = logging.getLogger(__name__)

Value = TypeVar("Value")

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class Table(Protocol):
    """A dataclass of options. `check` sees them all, and which of them were given."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def check(self, given: frozenset[str]) -> None: ...


Settings = TypeVar("Settings", bound=Table)


def option(
    default: Value,
    meaning: str,
    *,
    least: int | float | None = None,
    most: int | float | None = INT_MAX,
    choices: Mapping[str, str] | Iterable[str] = (),
    secret: bool = False,
) -> Value:
    """One row. `choices` are canonical values, or ways to write them; `secret` stays out of repr."""
    if not isinstance(choices, Mapping):
        choices = {choice: choice for choice in choices}
    facts = {"meaning": meaning, "least": least, "most": most, "choices": choices}
    made: Value = field(default=default, repr=not secret, metadata={**facts, "secret": secret})
    return made


def dotted(name: str) -> str:
    """An option's name as Kafka writes it."""
    return name.replace("_", ".").replace("-", ".")


def together(options: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """What `Producer({...}, linger_ms=5)` was given; the same option twice must say the same."""
    merged = dict(options or {})
    spelled = {dotted(name): name for name in merged}
    for name, value in keywords.items():
        other = spelled.get(dotted(name))
        if other is not None and merged[other] != value:
            raise OptionError(
                f"{dotted(name)} is given twice: {merged[other]!r} and {value!r}.",
                next_step="Keep one of them.",
            )
        if other is None:
            merged[name] = value
    return merged


def load(
    cls: type[Settings],
    options: Mapping[str, Any],
    *,
    ignored: list[str] | None = None,
    elsewhere: Mapping[str, str],
    java_classes: Iterable[str] = (),
) -> Settings:
    """Settings from options.

    `elsewhere` says of names this table does not have why they have no effect. The options named in
    `java_classes` have none when they hold the name of a Java class.
    """
    known: dict[str, Field[Any]] = {row.name: row for row in fields(cls)}
    values: dict[str, Any] = {}
    for given, value in options.items():
        if not isinstance(given, str):
            raise OptionError(f"An option's name is text, not {given!r}.")
        name = dotted(given)
        key = name.replace(".", "_")
        reason = elsewhere.get(name)
        if key in java_classes and _is_class_name(value):
            reason = "it names a Java class"
        elif key in known:
            values[key] = convert(known[key], value)
            continue
        if reason is None:
            raise _unknown(name, [*map(dotted, known), *elsewhere])
        if ignored is not None:
            ignored.append(name)
        else:
            logger.warning("option %s has no effect: %s", name, reason)
    settings = cls(**values)
    settings.check(frozenset(values))
    return settings


def change(settings: object, **values: Any) -> None:
    """For `check` alone: what follows from other options. Afterwards settings never change."""
    for name, value in values.items():
        object.__setattr__(settings, name, value)


def kind_of(row: Field[Any]) -> str:
    """The annotation without `| None`."""
    return str(row.type).removesuffix(" | None")


def default_of(row: Field[Any]) -> Any:
    assert row.default is not MISSING
    return row.default


def convert(row: Field[Any], value: Any) -> Any:
    """A value as its option holds it, or OptionError."""
    name, kind, facts = dotted(row.name), kind_of(row), row.metadata
    if value is None:
        if str(row.type).endswith("| None") or kind == "Any":
            return None
        raise OptionError(f"{name} is None.", next_step=f"Leave it out for {row.default!r}.")
    if kind == "Any":
        return value
    if kind == "bool":
        return _boolean(name, value)
    if kind in ("int", "float"):
        return _number(name, kind, value, facts["least"], facts["most"])
    if kind.startswith("tuple"):
        return _several(value)
    text = _text(name, value, facts["secret"])
    choices = facts["choices"]
    if not choices:
        return text
    for written, canonical in choices.items():
        if text.lower() == written.lower():
            return canonical
    raise OptionError(f"{name}={text!r} is not one of {', '.join(choices)}.")


def allowed(row: Field[Any]) -> str:
    """The allowed values in words, for the manual."""
    kind, facts = kind_of(row), row.metadata
    if facts["choices"]:
        return ", ".join(dict.fromkeys(facts["choices"].values()))
    if kind == "bool":
        return "true, false"
    if kind in ("int", "float"):
        return (
            f"{facts['least']} or more"
            if facts["most"] in (INT_MAX, LONG_MAX)
            else (f"{facts['least']} to {facts['most']}")
        )
    return ""


def _boolean(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise OptionError(f"{name}={value!r} is neither true nor false.")
    return text == "true"


def _number(
    name: str, kind: str, value: Any, least: int | float | None, most: int | float | None
) -> int | float:
    number: int | float
    try:
        if isinstance(value, bool):
            raise ValueError
        number = int(value) if kind == "int" else float(value)
        if isinstance(value, float) and number != value:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        what = "a whole number" if kind == "int" else "a number"
        raise OptionError(f"{name}={value!r} is not {what}.") from None
    if least is not None and not number >= least:
        raise OptionError(f"{name}={value} is too small: the least is {least}.")
    if most is not None and number > most:
        raise OptionError(f"{name}={value} is too large: the most is {most}.")
    return number


def _several(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        return tuple(item.strip() for item in value.split(",") if item.strip())
    if isinstance(value, Iterable):
        return tuple(value)
    return (value,)


def _text(name: str, value: Any, secret: bool) -> str:
    if isinstance(value, (list, tuple)):
        value = ",".join(str(item) for item in value)
    if isinstance(value, (bytes, Mapping)) or callable(value):
        raise OptionError(f"{name} is of type {type(value).__name__}, and text is needed.")
    return str(value) if secret else str(value).strip()


def _is_class_name(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"\w+(\.\w+)+", value.strip()) is not None


def _unknown(name: str, known: list[str]) -> OptionError:
    import difflib

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"Did you mean {near[0]}?" if near else "See the list of client options in the manual."
    return OptionError(f"There is no client option {name!r}.", next_step=hint)
