"""Values to bytes and back: names, callables of either form, and what errors say."""

from __future__ import annotations

import functools
import struct
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.errors import DeserializationError, OptionError, SerializationError
from barnabas.client.serialization import NAMES, deserializer, not_bytes, serializer

U = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
BYTES: list[tuple[str, Any, bytes]] = [
    ("string", "grüß", "grüß".encode()),
    ("str", "x", b"x"),
    ("string:latin-1", "ü", b"\xfc"),
    ("string:utf-16-le", "ü", b"\xfc\x00"),
    ("short", -2, b"\xff\xfe"),
    ("int", 258, b"\x00\x00\x01\x02"),
    ("integer", -1, b"\xff\xff\xff\xff"),
    ("LONG", 1 << 40, b"\x00\x00\x01\x00\x00\x00\x00\x00"),
    ("float", 1.5, b"\x3f\xc0\x00\x00"),
    ("double", -2.0, b"\xc0" + b"\x00" * 7),
    ("json", {"a": [1, None, "ü"]}, '{"a":[1,null,"ü"]}'.encode()),
    ("uuid", U, b"01234567-89ab-cdef-0123-456789abcdef"),
]


@pytest.mark.parametrize(("name", "value", "data"), BYTES, ids=lambda x: str(x)[:20])
def test_both_ways(name: str, value: Any, data: bytes) -> None:
    to_bytes = serializer(name)
    back = deserializer(name)
    assert to_bytes is not None
    assert back is not None
    assert to_bytes("t", value) == data
    assert back("t", data) == value
    assert to_bytes("t", None) is None
    assert back("t", None) is None


@pytest.mark.parametrize("given", [None, "bytes"])
def test_bytes_need_no_function(given: str | None) -> None:
    assert serializer(given) is None
    assert deserializer(given) is None


LAYOUTS = {"short": ">h", "int": ">i", "long": ">q"}


@pytest.mark.parametrize("name", LAYOUTS)
@given(number=st.integers(-(2**65), 2**65))
def test_numbers_are_javas_or_errors(name: str, number: int) -> None:
    to_bytes, back = serializer(name, "key"), deserializer(name, "key")
    assert to_bytes
    assert back
    bits = 8 * struct.calcsize(LAYOUTS[name])
    if -(1 << bits - 1) <= number < 1 << bits - 1:
        data = to_bytes("t", number)
        assert data == number.to_bytes(bits // 8, "big", signed=True)
        assert back("t", data) == number
    else:
        with pytest.raises(SerializationError):
            to_bytes("t", number)


class WithTopic:
    def __call__(self, topic: str, value: Any) -> bytes:
        return f"{topic}:{value}".encode()

    def method(self, value: Any) -> bytes:
        return f"method:{value}".encode()


def either(value: Any, scale: int = 2) -> bytes:
    return str(value * scale).encode()


def with_default(topic: str, value: Any = None) -> bytes:
    return f"{topic}:{value}".encode()


@pytest.mark.parametrize(
    ("function", "data"),
    [
        (lambda value: b"value:%d" % value, b"value:7"),
        (lambda topic, value: b"%s:%d" % (topic.encode(), value), b"t:7"),
        (WithTopic(), b"t:7"),
        (WithTopic().method, b"method:7"),
        (either, b"14"),
        (with_default, b"t:7"),
        (functools.partial(either, scale=3), b"21"),
        (functools.partial(lambda prefix, topic, value: prefix, b"p"), b"p"),
        (lambda *all_of_them: b"%d" % len(all_of_them), b"1"),
        (bytes, b"\x00" * 7),
        (bytearray, b"\x00" * 7),
        (lambda value: None, None),
    ],
)
def test_callables_of_both_forms(function: Any, data: bytes | None) -> None:
    resolved = serializer(function)
    assert resolved is not None
    assert resolved("t", 7) == data


def test_a_form_is_decided_once() -> None:
    resolved = serializer(lambda topic, value: b"")
    assert resolved is not None
    assert resolved.takes_topic
    plain = serializer("string")
    assert plain is not None
    assert (plain.function, plain.takes_topic) == (str.encode, False)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("jsn", r"value.serializer='jsn' is not known. Did you mean json\?"),
        ("int:latin-1", "is not known"),
        ("com.example.AvroSerializer", "is not known"),
        ("string:klingon", "no encoding 'klingon'"),
        (7, "is of type int"),
        (lambda: b"", r"f\(value\) or f\(topic, value\)"),
        (lambda a, b, c: b"", r"f\(value\) or f\(topic, value\)"),
        (lambda a, *, b: b"", r"f\(value\) or f\(topic, value\)"),
    ],
)
def test_what_no_serializer_is(given: Any, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        serializer(given)


def test_the_name_of_the_option_is_said() -> None:
    with pytest.raises(OptionError, match=r"key\.deserializer='x' is not known") as caught:
        deserializer("x", "key")
    assert all(name in str(caught.value) for name in NAMES)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("json", {1, 2}, ["of type set", "TypeError"]),
        ("json", float("nan"), ["of type float", "ValueError"]),
        ("string", 5, ["of type int"]),
        ("string:ascii", "ü", ["of type str", "UnicodeEncodeError"]),
        ("int", "5", ["of type str"]),
        ("int", True, ["of type bool"]),
        ("int", 1 << 31, ["of type int"]),
        ("uuid", "no", ["of type str"]),
        (lambda value: 5, 1, ["gave int", "not bytes"]),
        (lambda value: "x", 1, ["gave str", "not bytes"]),
    ],
)
def test_refused_values_name_topic_field_and_type(name: Any, value: Any, words: list[str]) -> None:
    resolved = serializer(name, "key")
    assert resolved is not None
    with pytest.raises(SerializationError) as caught:
        resolved("orders", value)
    error = caught.value
    assert (error.topic, error.field) == ("orders", "key")
    for word in ["orders", "key_serializer", *words]:
        assert word in str(error)


def test_the_cause_is_chained_and_an_error_of_ones_own_passes() -> None:
    own = SerializationError("mine")

    def fail(value: Any) -> bytes:
        raise own

    resolved = serializer(fail)
    assert resolved
    with pytest.raises(SerializationError) as caught:
        resolved("t", 1)
    assert caught.value is own
    named = serializer("string")
    assert named
    with pytest.raises(SerializationError) as caught:
        named("t", 1)
    assert isinstance(caught.value.__cause__, TypeError)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("json", b"{"),
        ("json", b"\xff"),
        ("string", b"\xff"),
        ("int", b"123"),
        ("long", b""),
        ("uuid", b"x"),
    ],
)
def test_refused_bytes_name_the_place(name: str, data: bytes) -> None:
    resolved = deserializer(name)
    assert resolved is not None
    with pytest.raises(DeserializationError) as caught:
        resolved("orders", data, 3, 77)
    error = caught.value
    assert (error.topic, error.field, error.partition, error.offset) == ("orders", "value", 3, 77)
    assert f"The value ({len(data)} bytes) of a record of orders-3 at offset 77" in str(error)
    assert error.__cause__ is not None
    with pytest.raises(DeserializationError, match="of topic orders cannot"):
        resolved("orders", data)


@pytest.mark.parametrize(
    ("value", "hint"),
    [("x", "'string'"), (5, "'long'"), ({}, "'json'"), (U, "'uuid'"), (object(), "Encode it")],
)
def test_without_a_serializer_the_error_suggests_one(value: Any, hint: str) -> None:
    error = not_bytes("orders", "value", value)
    assert hint in str(error)
    assert "value_serializer" in str(error)
