"""Against kio: its classes are generated from Kafka's own schemas, one for each version.

Our bytes must mean to kio what they mean to us, field by field and name by name, and what kio writes
must be our bytes again. kio knows dates, durations and error codes as types of their own and drops
the unit from such names; `_plain` undoes that.
"""

from __future__ import annotations

import datetime
import enum
import io
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_entity_schema
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer

from barnabas.wire import codec
from barnabas.wire.fields import Field
from barnabas.wire.layout import Layout
from barnabas.wire.message import Message, Struct
from barnabas.wire.uuids import ZERO
from tests.wire.catalogue import CLASSES, name_of, versions_of
from tests.wire.made import messages

_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
_ZOOKEEPER_MODE = range(4, 8)
_NEWER_THAN_KIO: set[tuple[str, int]] = set()


def _theirs() -> Iterator[tuple[str, int, type[Any]]]:
    for name, by_version in schema_name_map.items():
        for version, by_type in by_version.items():
            for entity_type in by_type:
                cls = load_entity_schema(name, version, entity_type)
                yield cls.__name__, version, cls


def _pairs() -> list[tuple[type[Message], int, type[Any]]]:
    ours = {cls.__name__: cls for cls in CLASSES}
    return [
        (ours[name], version, theirs)
        for name, version, theirs in _theirs()
        if name in ours and version in versions_of(ours[name])
    ]


PAIRS = _pairs()


@pytest.mark.parametrize(("cls", "version", "theirs"), PAIRS, ids=name_of)
@settings(
    max_examples=4,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_kio_agrees(cls: type[Message], version: int, theirs: type[Any], data: Any) -> None:
    message = data.draw(messages(cls, version))
    encoded = codec.encode(message, version)
    their_message, size = entity_reader(theirs)(encoded, 0)
    assert size == len(encoded)
    _assert_same(Layout(cls, version), message, their_message)
    written = io.BytesIO()
    entity_writer(theirs)(written, their_message)
    assert codec.decode(cls, version, written.getvalue()) == message
    assert written.getvalue() == encoded


def test_kio_knows_nearly_all_of_ours() -> None:
    known = {(cls, version) for cls, version, _ in PAIRS}
    missing = {
        (cls.__name__, version)
        for cls in CLASSES
        if cls.__module__.startswith("barnabas.wire.messages")
        and getattr(cls, "API_KEY", None) not in _ZOOKEEPER_MODE
        for version in versions_of(cls)
        if (cls, version) not in known
    }
    assert missing == _NEWER_THAN_KIO


def _assert_same(layout: Layout, ours: Struct, theirs: Any) -> None:
    for field in ours.FIELDS:
        if layout.has(field):
            value, their_value = getattr(ours, field.name), _attribute(theirs, field)
            if field.struct is None:
                plain = _plain(field, their_value)
                assert plain == value, f"{type(ours).__name__}.{field.name}"
            elif field.kind == "struct" or value is None:
                assert (value is None) == (their_value is None)
                if value is not None:
                    _assert_same(layout, value, their_value)
            else:
                assert len(value) == len(their_value)
                for element, their_element in zip(value, their_value, strict=True):
                    _assert_same(layout, element, their_element)


def _attribute(theirs: Any, field: Field) -> Any:
    name = field.name
    for candidate in (name, name + "_", name.removesuffix("_ms"), name.replace("kraft", "k_raft")):
        if hasattr(theirs, candidate):
            return getattr(theirs, candidate)
    raise AssertionError(f"{type(theirs).__name__} has no {name}")


def _plain(field: Field, value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain_scalar(field.element, element) for element in value]
    if isinstance(value, list):
        return [_plain_scalar(field.element, element) for element in value]
    return _plain_scalar(field.kind, value)


def _plain_scalar(kind: str | None, value: Any) -> Any:
    if kind == "uuid":
        return ZERO if value is None else value.bytes
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // datetime.timedelta(milliseconds=1)
    if isinstance(value, enum.Enum):
        return value.value
    if kind == "int64" and value is None:
        return -1
    return value
