"""What is written can be read again, in every version, and takes the shortest form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.wire import codec
from barnabas.wire.message import Message
from tests.wire.catalogue import CLASSES, name_of, versions_of
from tests.wire.made import messages


@pytest.mark.parametrize("cls", CLASSES, ids=name_of)
def test_defaults_survive(cls: type[Message]) -> None:
    for version in versions_of(cls):
        assert codec.decode(cls, version, codec.encode(cls(), version)) == cls()


@pytest.mark.parametrize("cls", CLASSES, ids=name_of)
@settings(
    max_examples=12,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_any_message_survives(cls: type[Message], data: Any) -> None:
    version = data.draw(st.sampled_from(versions_of(cls)))
    message = data.draw(messages(cls, version))
    encoded = codec.encode(message, version)
    for buffer in (encoded, bytearray(encoded), memoryview(encoded)):
        assert codec.decode(cls, version, buffer) == message
    framed = b"front" + encoded + b"behind"
    read = codec.reader(cls, version)
    assert read(framed, 5, 5 + len(encoded)) == (message, 5 + len(encoded))
