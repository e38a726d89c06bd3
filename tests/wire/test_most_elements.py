"""A request cannot become more objects than a node can afford."""

from __future__ import annotations

import struct

import pytest

from barnabas.wire import codec
from barnabas.wire.compile_reader import MOST_ELEMENTS
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest
from barnabas.wire.messages.produce import ProduceRequest


def topics(count: int) -> bytes:
    return struct.pack(">i", count) + bytes(2) * count


def test_as_many_as_allowed() -> None:
    message = codec.decode(MetadataRequest, 1, topics(MOST_ELEMENTS))
    assert message.topics is not None
    assert len(message.topics) == MOST_ELEMENTS


def test_one_more() -> None:
    with pytest.raises(codec.DecodeError, match="topics goes beyond 250000 elements"):
        codec.decode(MetadataRequest, 1, topics(MOST_ELEMENTS + 1))


def test_nested_arrays_are_counted_together() -> None:
    partitions = 1000
    partition = struct.pack(">ii", 0, 0)
    topic = struct.pack(">hi", 0, partitions) + partition * partitions
    head = struct.pack(">hhi", -1, 1, 100)
    enough = MOST_ELEMENTS // (partitions + 1)
    codec.decode(ProduceRequest, 3, head + struct.pack(">i", enough) + topic * enough)
    with pytest.raises(codec.DecodeError, match="partition_data goes beyond"):
        codec.decode(ProduceRequest, 3, head + struct.pack(">i", enough + 1) + topic * (enough + 1))


def test_tags_are_counted() -> None:
    count = MOST_ELEMENTS + 1
    number = bytes([count & 127 | 128, count >> 7 & 127 | 128, count >> 14])
    with pytest.raises(codec.DecodeError, match="tags goes beyond"):
        codec.decode(OffsetFetchRequest, 8, b"\x01\x00" + number + bytes(2 * count))
