# mypy: disable-error-code="import-untyped"
"""Against kafka-python, which interprets Kafka's schemas when it encodes and decodes.

It knows only the APIs of a client, but it is a second opinion that shares no code with the first. It
shows authorized operations as a set under a shorter name, and takes an ApiVersions response with an
error for version 0, so those have none here.
"""

from __future__ import annotations

import uuid
from typing import Any

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
import kafka.protocol.sasl  # noqa: F401
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.protocol.api_data import ApiData
from kafka.protocol.api_message import ApiMessage

from barnabas.wire import codec
from barnabas.wire.layout import Layout
from barnabas.wire.message import Message, Struct
from barnabas.wire.messages.api_versions import ApiVersionsResponse
from tests.wire.catalogue import CLASSES, name_of, versions_of
from tests.wire.made import messages


def _pairs() -> list[tuple[type[Message], int, type[Any]]]:
    theirs = {cls.__name__: cls for base in (ApiMessage, ApiData) for cls in base.__subclasses__()}
    return [
        (cls, version, theirs[cls.__name__])
        for cls in CLASSES
        if cls.__name__ in theirs
        for version in versions_of(cls)
        if version <= theirs[cls.__name__].max_version
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
def test_kafka_python_agrees(
    cls: type[Message], version: int, theirs: type[Any], data: Any
) -> None:
    message = data.draw(messages(cls, version))
    if isinstance(message, ApiVersionsResponse):
        message.error_code = 0
    encoded = codec.encode(message, version)
    options = {"header": False} if issubclass(theirs, ApiData) else {}
    their_message = theirs.decode(encoded, version=version, **options)
    _assert_same(Layout(cls, version), message, their_message)
    if not options:
        their_message._header = None  # what its decoder forgets and its encoder asks for
    written = bytes(their_message.encode(version=version, **options))
    assert codec.decode(cls, version, written) == message


def test_enough_is_compared() -> None:
    assert len({cls for cls, _, _ in PAIRS}) > 70


def _assert_same(layout: Layout, ours: Struct, theirs: Any) -> None:
    for field in ours.FIELDS:
        if not layout.has(field):
            continue
        value, their_value = getattr(ours, field.name), _attribute(theirs, field.name)
        where = f"{type(ours).__name__}.{field.name}"
        if field.struct is None:
            assert _plain(their_value) == value, where
        elif field.kind == "struct" or value is None:
            assert (value is None) == (their_value is None), where
            if value is not None:
                _assert_same(layout, value, their_value)
        else:
            assert len(value) == len(their_value), where
            for element, their_element in zip(value, their_value, strict=True):
                _assert_same(layout, element, their_element)


def _attribute(theirs: Any, name: str) -> Any:
    if name.endswith("authorized_operations") and not hasattr(theirs, name):
        return theirs.authorized_operations
    return getattr(theirs, name)


def _plain(value: Any) -> Any:
    if isinstance(value, set):
        return sum(1 << operation for operation in value)
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if isinstance(value, uuid.UUID):
        return value.bytes
    return value
