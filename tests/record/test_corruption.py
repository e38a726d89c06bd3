"""Every truncation and every damaged byte of a batch gives a refusal, never another exception."""

from __future__ import annotations

from struct import pack_into

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from barnabas.record.arrow import read_arrow
from barnabas.record.build import build_batch
from barnabas.record.compression import Codec
from barnabas.record.errors import BadRecords, TruncatedBatch
from barnabas.record.read import read_records
from barnabas.record.validate import AppendRules, RecordsRefused, validate, validate_replicated
from barnabas.wire.errors import ErrorCode

RECORDS = [
    (1000, b"key", b"value" * 10, (("name", b"content"), ("empty", None))),
    (2000, None, None, ()),
    (900, b"", b"", ()),
]
RULES = AppendRules(is_compacted=False, max_decompressed_bytes=1 << 16)
ANSWERS = {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
}
OUTSIDE_THE_CHECKSUM = set(range(8)) | set(range(12, 16))
each_codec = pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)


def answer(records: bytes) -> ErrorCode | None:
    try:
        validate(memoryview(records), RULES, 1000)
    except RecordsRefused as refused:
        return refused.code
    return None


@each_codec
def test_every_truncation(codec):
    batch = bytes(build_batch(RECORDS, codec=codec))
    for length in range(len(batch)):
        assert answer(batch[:length]) == ErrorCode.INVALID_RECORD
        if length:
            with pytest.raises(TruncatedBatch):
                list(read_records(batch[:length]))
        assert list(read_records(batch[:length], partial_tail=True)) == []
        assert validate_replicated(memoryview(batch[:length])).headers == []


@each_codec
def test_every_damaged_byte(codec):
    batch = build_batch(RECORDS, codec=codec)
    for position in range(len(batch)):
        for flip in (0x01, 0x80, 0xFF):
            batch[position] ^= flip
            code = answer(bytes(batch))
            if position in range(8):
                assert code == ErrorCode.INVALID_RECORD
            elif position in OUTSIDE_THE_CHECKSUM:
                assert code is None
            elif position in range(8, 12) or position == 16:
                assert code in {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}
            elif codec == Codec.NONE or position > 22:
                assert code == ErrorCode.CORRUPT_MESSAGE
            else:
                assert code in ANSWERS
            batch[position] ^= flip


@each_codec
def test_every_damaged_byte_under_a_right_checksum(codec):
    batch = build_batch(RECORDS, codec=codec)
    for position in range(21, len(batch)):
        for value in (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF):
            kept = batch[position]
            batch[position] = value
            data = bytearray(batch)
            pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
            assert answer(bytes(data)) in ANSWERS | {None}
            for read in (read_records, read_arrow):
                try:
                    found = read(bytes(data), limit=1 << 16)
                    if read is read_records:
                        list(found)
                except BadRecords:
                    pass
            batch[position] = kept


@given(st.binary(max_size=200))
def test_any_bytes(data):
    assert answer(data) in ANSWERS
    code = None
    try:
        validate_replicated(memoryview(data))
    except RecordsRefused as refused:
        code = refused.code
    assert code in {None, ErrorCode.CORRUPT_MESSAGE}


@given(st.binary(max_size=100), st.integers(0, 7), st.integers(-1, 20))
def test_any_body_in_a_right_frame(body, attributes, count):
    batch = build_batch([]) + body
    pack_into(">i", batch, 8, len(batch) - 12)
    pack_into(">h", batch, 21, attributes)
    pack_into(">i", batch, 23, count - 1)
    pack_into(">i", batch, 57, count)
    pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    assert answer(bytes(batch)) in ANSWERS | {None}
