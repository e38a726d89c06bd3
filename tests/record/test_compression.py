"""Every codec both ways, what other writers may send, and bombs."""

from __future__ import annotations

import gzip
import tracemalloc

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from barnabas.record.batch import BATCH_OVERHEAD, read_header
from barnabas.record.build import build_batch
from barnabas.record.compression import Codec, compress, decompress
from barnabas.record.errors import CorruptCompression, DecompressedTooLarge, InvalidRecords
from barnabas.record.validate import AppendRules, RecordsRefused, validate
from barnabas.wire.errors import ErrorCode

COMPRESSING = [codec for codec in Codec if codec != Codec.NONE]
each_codec = pytest.mark.parametrize("codec", COMPRESSING, ids=lambda codec: codec.name)
BOMB_BYTES = 64 << 20
LIMIT = 1 << 20


@each_codec
@given(data=st.binary(max_size=2000) | st.binary(max_size=200).map(lambda part: part * 500))
def test_both_ways(codec, data):
    packed = bytes(compress(codec, data))
    assert bytes(decompress(codec, packed)) == data
    assert bytes(decompress(codec, packed, limit=len(data))) == data
    if data:
        with pytest.raises(DecompressedTooLarge):
            decompress(codec, packed, limit=len(data) - 1)


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Codec.GZIP, [-1, 1, 9]), (Codec.LZ4, [1, 9, 17]), (Codec.ZSTD, [-131072, 1, 3, 22])],
    ids=str,
)
def test_every_level_a_topic_may_set(codec, levels):
    data = b"the castle " * 3000
    for level in levels:
        assert bytes(decompress(codec, compress(codec, data, level))) == data


@given(data=st.binary(max_size=3000))
def test_what_other_writers_send(data):
    middle = len(data) // 2
    members = gzip.compress(data[:middle]) + gzip.compress(data[middle:])
    assert bytes(decompress(Codec.GZIP, members)) == data
    assert bytes(decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(data)))) == data
    frames = zstandard.compress(data[:middle]) + zstandard.compress(data[middle:])
    assert bytes(decompress(Codec.ZSTD, frames)) == data
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(data)
    assert bytes(decompress(Codec.ZSTD, unsized)) == data
    for checksum in (False, True):
        for store_size in (False, True):
            frame = lz4.frame.compress(
                data, content_checksum=checksum, block_linked=False, store_size=store_size
            )
            assert bytes(decompress(Codec.LZ4, frame)) == data


def test_linked_lz4_blocks_are_refused():
    with pytest.raises(CorruptCompression, match="independent"):
        decompress(Codec.LZ4, lz4.frame.compress(bytes(200_000), block_linked=True))


def test_joined_xerial_streams():
    stream = bytes(compress(Codec.SNAPPY, b"a" * 40_000))
    assert bytes(decompress(Codec.SNAPPY, stream + stream)) == b"a" * 80_000


@each_codec
def test_every_truncation_and_every_changed_byte(codec):
    data = b"before the law " * 40
    packed = bytes(compress(codec, data))
    for position in range(len(packed)):
        damaged = bytearray(packed)
        damaged[position] ^= 0x55
        for attempt in (packed[:position], bytes(damaged)):
            try:
                found = decompress(codec, attempt, limit=1 << 16)
            except InvalidRecords:
                continue
            assert len(found) <= 1 << 16


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_numbers_that_are_no_codec(codec):
    with pytest.raises(CorruptCompression):
        decompress(codec, b"data")
    with pytest.raises(ValueError, match="no codec"):
        compress(codec, b"data")


def bombs():
    zeros = bytes(BOMB_BYTES)
    for codec in COMPRESSING:
        yield codec.name, codec, bytes(compress(codec, zeros))
    yield "gzip members", Codec.GZIP, gzip.compress(bytes(LIMIT // 2)) * 100
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(zeros)
    yield "zstd without size", Codec.ZSTD, unsized
    yield "raw snappy that claims 4 GiB", Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(10)


BOMBS = list(bombs())


@pytest.mark.parametrize(("codec", "bomb"), [bomb[1:] for bomb in BOMBS], ids=[b[0] for b in BOMBS])
def test_bombs_cost_no_more_than_the_limit(codec, bomb):
    tracemalloc.start()
    try:
        with pytest.raises(DecompressedTooLarge):
            decompress(codec, bomb, limit=LIMIT)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * LIMIT


@each_codec
def test_a_bomb_from_a_producer_is_too_large(codec):
    batch = build_batch([(0, None, bytes(4 << 20), ())], codec=codec)
    rules = AppendRules(max_decompressed_bytes=LIMIT)
    with pytest.raises(RecordsRefused) as refused:
        validate(memoryview(batch), rules, now_ms=0)
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert read_header(batch).size_in_bytes - BATCH_OVERHEAD < LIMIT
