"""Values to bytes and back.

A serializer is given by name ("json", "string", "int", …), or as anything callable: `f(value)` or
`f(topic, value)`. Which of the two it is gets decided once, when the client is made, so that the
call for a record has no overhead; a callable that could be either is called with the value alone.

`None` is no value but the absence of one (a tombstone, in a compacted topic): it never reaches a
serializer and stays `None` on both sides.

Numbers have the bytes of Java's serializers: "int" is its Integer (4 bytes), "long" its Long (8),
"short" its Short (2), "float" and "double" are IEEE 754; all big-endian. A number that does not fit
is an error, never cut off.

What goes wrong is raised as `SerializationError` or `DeserializationError`, naming topic, field and
type, and partition and offset where they are known; the cause is chained.
"""

from __future__ import annotations

import codecs
import inspect
import json
import struct
from collections.abc import Callable
from typing import Any, Literal
from uuid import UUID

from barnabas.client.errors import DeserializationError, OptionError, SerializationError

Bytes = bytes | bytearray | memoryview
Field = Literal["key", "value"]
Given = str | Callable[..., Any] | None
Encode = Callable[[Any], Any]
Decode = Callable[[bytes], Any]


class Serializer:
    """A serializer whose form is known. A hot path calls `function` itself, as `takes_topic` says,
    and turns what it raises into `refusal(…)`; everybody else calls this object."""

    __slots__ = ("field", "function", "takes_topic")

    def __init__(self, field: Field, function: Callable[..., Any], takes_topic: bool) -> None:
        self.field = field
        self.function = function
        self.takes_topic = takes_topic

    def __call__(self, topic: str, value: Any) -> Bytes | None:
        """The bytes of a record's key or value, or SerializationError."""
        if value is None:
            return None
        try:
            data = self.function(topic, value) if self.takes_topic else self.function(value)
        except Exception as error:
            raise self.refusal(topic, value, error) from error
        if data is None or isinstance(data, (bytes, bytearray, memoryview)):
            return data
        raise self.no_bytes(topic, data)

    def refusal(self, topic: str, value: Any, error: Exception) -> SerializationError:
        """What to raise (`from error`) when the function raised."""
        if isinstance(error, SerializationError):
            return error
        return SerializationError(
            f"The {self.field} of a record for topic {topic} is of type {type(value).__name__}, "
            f"and its serializer refused it: {_reason(error)}.",
            topic=topic,
            field=self.field,
            next_step=f"Send a {self.field} that fits, or set another {self.field}_serializer.",
        )

    def no_bytes(self, topic: str, data: Any) -> SerializationError:
        """What to raise when the function gave something else than bytes or None."""
        return SerializationError(
            f"The {self.field}_serializer gave {type(data).__name__} for a record of topic "
            f"{topic}, not bytes.",
            topic=topic,
            field=self.field,
            next_step="It must return bytes, or None for a tombstone.",
        )


class Deserializer:
    """A deserializer whose form is known; `function` and `takes_topic` as in `Serializer`."""

    __slots__ = ("field", "function", "takes_topic")

    def __init__(self, field: Field, function: Callable[..., Any], takes_topic: bool) -> None:
        self.field = field
        self.function = function
        self.takes_topic = takes_topic

    def __call__(
        self,
        topic: str,
        data: bytes | None,
        partition: int | None = None,
        offset: int | None = None,
    ) -> Any:
        """A record's key or value, or DeserializationError."""
        if data is None:
            return None
        try:
            return self.function(topic, data) if self.takes_topic else self.function(data)
        except Exception as error:
            raise self.refusal(topic, data, error, partition, offset) from error

    def refusal(
        self,
        topic: str,
        data: bytes,
        error: Exception,
        partition: int | None = None,
        offset: int | None = None,
    ) -> DeserializationError:
        """What to raise (`from error`) when the function raised."""
        if isinstance(error, DeserializationError):
            return error
        where = f"topic {topic}" if partition is None else f"{topic}-{partition}"
        if offset is not None:
            where = f"{where} at offset {offset}"
        return DeserializationError(
            f"The {self.field} ({len(data)} bytes) of a record of {where} cannot be deserialized: "
            f"{_reason(error)}.",
            topic=topic,
            field=self.field,
            partition=partition,
            offset=offset,
        )


def serializer(given: Given, field: Field = "value") -> Serializer | None:
    """What the option `value.serializer` (or `key.serializer`) says; None: values are bytes."""
    option = f"{field}.serializer"
    function = _function(given, option, 0)
    return function and Serializer(field, function, _takes_topic(function, option))


def deserializer(given: Given, field: Field = "value") -> Deserializer | None:
    """What the option `value.deserializer` (or `key.…`) says; None: the bytes are wanted."""
    option = f"{field}.deserializer"
    function = _function(given, option, 1)
    return function and Deserializer(field, function, _takes_topic(function, option))


def _number(layout: str) -> tuple[Encode, Decode]:
    packing = struct.Struct(layout)

    def encode(value: Any) -> bytes:
        if isinstance(value, bool):
            raise TypeError("a number is needed")
        return packing.pack(value)

    def decode(data: bytes) -> Any:
        if len(data) != packing.size:
            raise ValueError(f"{packing.size} bytes are needed")
        return packing.unpack(data)[0]

    return encode, decode


def _text(encoding: str) -> tuple[Encode, Decode]:
    if codecs.lookup(encoding).name == "utf-8":
        return str.encode, bytes.decode
    return (lambda value: str.encode(value, encoding)), (lambda data: data.decode(encoding))


_encode_json_text = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False
).encode


def _encode_json(value: Any) -> bytes:
    return _encode_json_text(value).encode()


def _decode_json(data: bytes) -> Any:
    return json.loads(data.decode())


def _encode_uuid(value: Any) -> bytes:
    return str(value if isinstance(value, UUID) else UUID(value)).encode()


def _decode_uuid(data: bytes) -> UUID:
    return UUID(data.decode())


_FORMS: dict[str, tuple[Encode, Decode] | None] = {
    "bytes": None,
    "string": _text("utf-8"),
    "short": _number(">h"),
    "int": _number(">i"),
    "long": _number(">q"),
    "float": _number(">f"),
    "double": _number(">d"),
    "json": (_encode_json, _decode_json),
    "uuid": (_encode_uuid, _decode_uuid),
}
NAMES = tuple(_FORMS)
_SYNONYMS = {"str": "string", "integer": "int"}


def not_bytes(topic: str, field: str, value: Any) -> SerializationError:
    """For a client without a serializer that was given something else than bytes."""
    near = {str: "string", int: "long", float: "double", dict: "json", list: "json"}
    near |= {tuple: "json", bool: "json", UUID: "uuid"}
    name = near.get(type(value))
    hint = f" (for example {field}_serializer={name!r})" if name else ""
    return SerializationError(
        f"The {field} of a record for topic {topic} is of type {type(value).__name__}, not bytes.",
        topic=topic,
        field=field,
        next_step=f"Encode it, or give the producer a {field}_serializer{hint}.",
    )


def _function(given: Given, option: str, side: int) -> Callable[..., Any] | None:
    if given is None or callable(given):
        return given
    if not isinstance(given, str):
        raise OptionError(
            f"{option} is of type {type(given).__name__}.",
            next_step=f"Give a callable, or one of {', '.join(NAMES)}.",
        )
    name, _, encoding = given.strip().lower().partition(":")
    name = _SYNONYMS.get(name, name)
    if name not in _FORMS or (encoding and name != "string"):
        raise _unknown(given, name, option)
    try:
        form = _text(encoding) if encoding else _FORMS[name]
    except LookupError:
        raise OptionError(f"{option}={given!r}: there is no encoding {encoding!r}.") from None
    return None if form is None else form[side]


def _unknown(given: str, name: str, option: str) -> OptionError:
    import difflib

    near = difflib.get_close_matches(name, NAMES, n=1)
    hint = f"Did you mean {near[0]}? " if near else ""
    return OptionError(
        f"{option}={given!r} is not known.",
        next_step=f"{hint}Give a callable, or one of {', '.join(NAMES)} (string:latin-1 for "
        "another encoding).",
    )


def _takes_topic(function: Callable[..., Any], option: str) -> bool:
    """Whether it must be called as f(topic, value). Without a readable signature it is f(value)."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    placed = [
        each
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    needed = sum(each.default is each.empty for each in placed)
    named = any(
        each.kind is each.KEYWORD_ONLY and each.default is each.empty for each in parameters
    )
    many = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    if needed > 2 or named or not (placed or many):
        raise OptionError(
            f"{option} cannot be called with a value, or with a topic and a value.",
            next_step="Its form is f(value) or f(topic, value).",
        )
    return needed == 2 or (len(placed) >= 2 and placed[0].name == "topic")


def _reason(error: Exception) -> str:
    text = str(error).rstrip(".")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
