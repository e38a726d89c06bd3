"""Variable-length integers and ids."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.wire import uuids
from barnabas.wire.primitives import (
    Buffer,
    DecodeError,
    EncodeError,
    read_unsigned_varint,
    read_varint,
    read_varlong,
    unsigned_varint,
    varint,
    varlong,
)

Write = Callable[[int], bytes]
Read = Callable[[Buffer, int], tuple[int, int]]


@pytest.mark.parametrize(
    ("write", "read", "low", "high"),
    [
        (unsigned_varint, read_unsigned_varint, 0, 0xFFFFFFFF),
        (varint, read_varint, -0x80000000, 0x7FFFFFFF),
        (varlong, read_varlong, -0x8000000000000000, 0x7FFFFFFFFFFFFFFF),
    ],
)
def test_varints_survive(write: Write, read: Read, low: int, high: int) -> None:
    @settings(derandomize=True, max_examples=200, database=None)
    @given(st.one_of(st.integers(low, high), st.sampled_from([low, high])))
    def check(value: int) -> None:
        encoded = write(value)
        assert read(b"x" + encoded + b"y", 1) == (value, 1 + len(encoded))
        for cut in range(len(encoded)):
            with pytest.raises(DecodeError):
                read(encoded[:cut], 0)

    check()
    for outside in (low - 1, high + 1):
        with pytest.raises(EncodeError):
            write(outside)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (0xFFFFFFFF, "ffffffff0f")],
)
def test_known_varints(value: int, encoded: str) -> None:
    assert unsigned_varint(value).hex() == encoded


def test_folding() -> None:
    assert [varint(value).hex() for value in (0, -1, 1, -2, 64)] == ["00", "01", "02", "03", "8001"]
    assert varlong(-1) == b"\x01"


@pytest.mark.parametrize("encoded", ["808080808000", "ffffffffff00", "ffffffff1f", "8080808010"])
def test_varints_of_more_than_32_bits(encoded: str) -> None:
    with pytest.raises(DecodeError):
        read_unsigned_varint(bytes.fromhex(encoded), 0)


def test_varlongs_of_more_than_64_bits() -> None:
    with pytest.raises(DecodeError):
        read_varlong(b"\xff" * 9 + b"\x02", 0)
    with pytest.raises(DecodeError):
        read_varlong(b"\x80" * 10 + b"\x00", 0)


def test_ids_as_text() -> None:
    assert uuids.to_text(uuids.ZERO) == "AAAAAAAAAAAAAAAAAAAAAA"
    raw = uuid.UUID("0f3c2a1b-4d5e-4f60-8a9b-acbdcedfe0f1").bytes
    text = uuids.to_text(raw)
    assert len(text) == 22
    assert uuids.from_text(text) == raw
    assert uuids.from_text(text + "==") == raw


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 23, "A" * 100, "!" * 22, "é" * 22])
def test_text_that_is_no_id(text: str) -> None:
    with pytest.raises(ValueError, match=r"id|is too long"):
        uuids.from_text(text)


def test_random_ids_avoid_what_is_reserved() -> None:
    draws = iter([bytes(16), b"\xf8" + bytes(15), bytes(range(100, 116))])
    made = uuids.random_uuid(lambda _: next(draws))
    assert made[6] >> 4 == 4
    assert not uuids.is_reserved(made)
    assert not uuids.to_text(made).startswith("-")
    assert uuids.is_reserved(uuids.METADATA_TOPIC_ID)
