"""One table a type: what a text means, and how a wrong one is refused."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.config.definition import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    DOUBLE_MAX,
    HIGH,
    INT,
    LIST,
    LONG,
    PASSWORD,
    REQUIRED,
    SHORT,
    STRING,
    ConfigDef,
    ConfigError,
    ConfigType,
    format_value,
    key,
    parse_value,
)
from barnabas.config.validators import (
    ListOf,
    NonEmpty,
    NonNull,
    OffsetReset,
    OneOfIgnoringCase,
    Range,
    RangeOr,
    ThrottledReplicas,
    at_least,
    between,
    one_of,
)


@pytest.mark.parametrize(
    ("type", "text", "value"),
    [
        (BOOLEAN, "true", True),
        (BOOLEAN, " False ", False),
        (STRING, " some text ", "some text"),
        (STRING, "", ""),
        (INT, "-2147483648", -(2**31)),
        (INT, " +7 ", 7),
        (SHORT, "32767", 32767),
        (LONG, "9223372036854775807", 2**63 - 1),
        (DOUBLE, "0.5", 0.5),
        (DOUBLE, ".5e1", 5.0),
        (DOUBLE, "1.7976931348623157E308", DOUBLE_MAX),
        (DOUBLE, "3d", 3.0),
        (LIST, "a, b ,c", ("a", "b", "c")),
        (LIST, "", ()),
        (LIST, "a,,b", ("a", "", "b")),
        (CLASS, "org.example.Thing", "org.example.Thing"),
        (PASSWORD, " hidden ", "hidden"),
    ],
)
def test_texts(type: ConfigType, text: str, value: object) -> None:
    assert parse_value("some.setting", text, type) == value


@pytest.mark.parametrize(
    ("type", "text", "reason"),
    [
        (BOOLEAN, "yes", "Expected value to be either true or false"),
        (BOOLEAN, "", "Expected value to be either true or false"),
        (INT, "2147483648", "Not a number of type INT"),
        (INT, "1.0", "Not a number of type INT"),
        (INT, "1_000", "Not a number of type INT"),
        (INT, "\u0661", "Not a number of type INT"),
        (INT, "", "Not a number of type INT"),
        (SHORT, "32768", "Not a number of type SHORT"),
        (LONG, "9223372036854775808", "Not a number of type LONG"),
        (LONG, "7 days", "Not a number of type LONG"),
        (DOUBLE, "half", "Not a number of type DOUBLE"),
        (DOUBLE, "1,5", "Not a number of type DOUBLE"),
    ],
)
def test_a_wrong_text_is_named_with_its_setting(type: ConfigType, text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_value("some.setting", text, type)
    assert str(refused.value) == f"Invalid value {text} for configuration some.setting: {reason}"
    assert (refused.value.name, refused.value.value) == ("some.setting", text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (12, "12"),
        (0.5, "0.5"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (0.0001, "1.0E-4"),
        (DOUBLE_MAX, "1.7976931348623157E308"),
        (("a", "b"), "a,b"),
        (frozenset(("b", "a")), "a,b"),
        ((), ""),
        (None, None),
        (REQUIRED, None),
    ],
)
def test_values_are_shown_as_java_shows_them(value: object, text: str | None) -> None:
    assert format_value(value) == text


@pytest.mark.parametrize(
    ("validator", "good", "bad", "reason"),
    [
        (at_least(1), [1, 2**40], [0, None], "at least 1"),
        (between(0, 1), [0, 0.5, 1], [1.1], "no more than 1"),
        (Range(None, 9), [-5, 9], [10], "no more than 9"),
        (RangeOr(1, 9, -1), [-1, 1, 9], [0, 10], "between 1 and 9 or equal to -1"),
        (one_of("a", "b"), ["a"], ["A", "c", None], "one of: a, b"),
        (OneOfIgnoringCase(("A", "B")), ["a", "B"], ["c", None], "case insensitive"),
        (ListOf(("x", "y")), [(), ("x", "y")], [("x", "z")], "one of: x, y"),
        (ListOf(), [("p",)], [("p", "p")], "must not be duplicated"),
        (ListOf(), [("p",)], [("p", "")], "must not be empty"),
        (ListOf(("x",), may_be_empty=False), [("x",)], [()], "must not be empty"),
        (NonEmpty(), [None, "x"], [""], "non-empty"),
        (NonNull(), ["", "x"], [None], "non null"),
        (ThrottledReplicas(), [(), ("*",), ("0:1", "1:2")], [("1",), ("a:b",)], "'*'"),
        (
            OffsetReset(),
            ["latest", "earliest", "by_duration:P3DT4H", "by_duration:PT0.5S"],
            ["none", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:3h"],
            "by_duration",
        ),
    ],
)
def test_validators(validator: Any, good: list[Any], bad: list[Any], reason: str) -> None:
    for value in good:
        assert validator.check("some.setting", value) is None, value
    for value in bad:
        said = validator.check("some.setting", value)
        assert said is not None, value
        if value is not None:
            assert reason in said
    assert str(validator)


def test_a_refusal_tells_what_is_allowed_and_hides_passwords() -> None:
    level = key("level", INT, 3, HIGH, between(1, 9), doc="A level.")
    with pytest.raises(ConfigError) as refused:
        level.parse("12")
    assert (
        str(refused.value)
        == "Invalid value 12 for configuration level: Value must be no more than 9"
    )
    assert level.allowed == "[1,...,9]"
    secret = key("secret", PASSWORD, None, HIGH, one_of("a"), doc="A secret.")
    with pytest.raises(ConfigError) as refused:
        secret.parse("hunter2")
    assert "hunter2" not in str(refused.value)


def test_a_table() -> None:
    table = ConfigDef.of(
        [key("a", INT, 1, HIGH, doc="A.")], [key("b", STRING, REQUIRED, HIGH, doc="B.")]
    )
    assert table.parse({"b": "x", "other": "y"}) == {"a": 1, "b": "x"}
    assert table.parse_given({"a": "5", "other": "y"}) == {"a": 5}
    assert table.unknown(["z", "a", "c"]) == ["c", "z"]
    with pytest.raises(ConfigError, match='Missing required configuration "b"'):
        table.parse({})
    with pytest.raises(AssertionError, match="defined twice"):
        ConfigDef.of(table, [key("a", INT, 1, HIGH, doc="A.")])
