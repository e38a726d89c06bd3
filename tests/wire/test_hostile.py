"""Bytes that are not what they claim to be: always a DecodeError, never more than they could pay for."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.wire import codec
from barnabas.wire.codec import DecodeError
from barnabas.wire.message import Message
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.wire.catalogue import CLASSES, VERSIONED, name_of, versions_of
from tests.wire.made import messages

QUICK = settings(
    max_examples=3,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
_MOST_CUTS = 300


@pytest.mark.parametrize("cls", CLASSES, ids=name_of)
@QUICK
@given(data=st.data())
def test_a_cut_anywhere_is_noticed(cls: type[Message], data: Any) -> None:
    version = data.draw(st.sampled_from(versions_of(cls)))
    encoded = codec.encode(data.draw(messages(cls, version)), version)
    read = codec.reader(cls, version)
    view = memoryview(encoded)
    for cut in range(max(0, len(encoded) - _MOST_CUTS), len(encoded)):
        with pytest.raises(DecodeError):
            read(view[:cut], 0, cut)
        with pytest.raises(DecodeError):
            read(view, 0, cut)


@pytest.mark.parametrize(("cls", "version"), VERSIONED, ids=name_of)
def test_garbage_is_refused_or_read(cls: type[Message], version: int) -> None:
    source = random.Random(f"{cls.__name__} {version}")
    for size in (0, 1, 7, 40, 40, 200):
        _refused_or_read(cls, version, source.randbytes(size))
        _refused_or_read(cls, version, bytes(source.choice((0, 0, 1, 2, 255)) for _ in range(size)))


@pytest.mark.parametrize("cls", CLASSES, ids=name_of)
@QUICK
@given(data=st.data())
def test_a_changed_byte_is_refused_or_read(cls: type[Message], data: Any) -> None:
    version = data.draw(st.sampled_from(versions_of(cls)))
    encoded = bytearray(codec.encode(data.draw(messages(cls, version)), version))
    source = random.Random(0)
    for _ in range(40 if encoded else 0):
        changed = bytearray(encoded)
        changed[source.randrange(len(changed))] = source.choice((0, 1, 0x7F, 0x80, 0xFF))
        _refused_or_read(cls, version, bytes(changed))


def _refused_or_read(cls: type[Message], version: int, data: bytes) -> None:
    try:
        message, position = codec.reader(cls, version)(data, 0, len(data))
    except DecodeError:
        return
    assert position <= len(data)
    assert isinstance(message, cls)


BAD = [
    pytest.param(HeartbeatRequest, 0, "fffe", "group_id has a length of -2", id="negative length"),
    pytest.param(HeartbeatRequest, 0, "ffff", "group_id may not be null", id="null where none may be"),
    pytest.param(HeartbeatRequest, 4, "00", "group_id may not be null", id="compact null"),
    pytest.param(HeartbeatRequest, 4, "818002", "group_id has a length of", id="string over 32767"),
    pytest.param(HeartbeatRequest, 4, "ffffffffff", "varint", id="varint over 32 bits"),
    pytest.param(HeartbeatRequest, 4, "80808080808000", "varint has more than 5", id="overlong varint"),
    pytest.param(HeartbeatRequest, 0, "0002c328", "not UTF-8", id="not UTF-8"),
    pytest.param(HeartbeatRequest, 0, "0003eda080", "not UTF-8", id="a lone surrogate"),
    pytest.param(MetadataRequest, 0, "7fffffff", "topics has a count of 2147483647", id="huge count"),
    pytest.param(MetadataRequest, 0, "fffffffe", "topics has a count of -2", id="negative count"),
    pytest.param(MetadataRequest, 0, "ffffffff", "topics may not be null", id="null array"),
    pytest.param(MetadataRequest, 9, "ffffffff0f0100", "count of 4294967294", id="huge compact count"),
    pytest.param(ListGroupsRequest, 3, "ffff7f", "tags has a count of", id="huge tag count"),
    pytest.param(ListGroupsRequest, 3, "02050001050001", "5 has 1|follow", id="bytes behind"),
    pytest.param(ListGroupsRequest, 3, "0205000500", "tag 5 follows tag 5", id="a tag twice"),
    pytest.param(ListGroupsRequest, 3, "0205000400", "tag 4 follows tag 5", id="tags that fall"),
    pytest.param(ListGroupsRequest, 3, "010510aa", "tag 5 has a length of 16", id="tag over the end"),
    pytest.param(
        ApiVersionsResponse, 3, "0000010000000001010900000000000000ff00",
        "finalized_features_epoch takes 8 bytes of its 9", id="a tagged field with room left",
    ),
    pytest.param(
        ApiVersionsResponse, 3, "000001000000000101040000000000000000",
        "finalized_features_epoch takes 8 bytes of its 4", id="a tagged field over its room",
    ),
    pytest.param(SaslAuthenticateRequest, 0, "7fffffff00", "length of 2147483647", id="huge bytes"),
    pytest.param(SaslAuthenticateRequest, 0, "80000000", "length of -2147483648", id="lowest length"),
]  # fmt: skip


@pytest.mark.parametrize(("cls", "version", "data", "reason"), BAD)
def test_bad_bytes_have_a_reason(cls: type[Message], version: int, data: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason) as raised:
        codec.decode(cls, version, bytes.fromhex(data))
    assert cls.__name__ in str(raised.value) or "varint" in str(raised.value)


def test_unknown_tags_are_passed_over() -> None:
    known = codec.encode(ApiVersionsRequest(client_software_name="x"), 3)
    assert known[-1] == 0
    more = known[:-1] + bytes.fromhex("03 0102abcd 8201 00 ff7f 01ff".replace(" ", ""))
    assert codec.decode(ApiVersionsRequest, 3, more) == ApiVersionsRequest(client_software_name="x")


def test_padded_varints_are_read_as_kafka_reads_them() -> None:
    assert codec.decode(ListGroupsRequest, 3, bytes.fromhex("8000")) == ListGroupsRequest()


def test_a_version_that_does_not_exist() -> None:
    for version in (-1, 2, 99):
        with pytest.raises(DecodeError, match="ProduceRequest has no version"):
            codec.decode(ProduceRequest, version, b"")


@pytest.mark.parametrize(
    ("cls", "version", "front"),
    [
        (FetchRequest, 4, bytes(17) + b"\x7f\xff\xff\xff"),
        (FetchRequest, 4, bytes(17) + b"\x00\x0f\x00\x00"),
        (FetchRequest, 12, bytes(21) + b"\xff\xff\xff\xff\x0f"),
        (CreateTopicsRequest, 2, b"\x00\x01\x00\x00"),
        (MetadataRequest, 12, b"\xff\xff\x3f"),
    ],
)
def test_a_count_is_paid_for_before_anything_is_built(
    cls: type[Message], version: int, front: bytes
) -> None:
    data = front + bytes(100)
    with pytest.raises(DecodeError):
        codec.decode(cls, version, data)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            codec.decode(cls, version, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024
