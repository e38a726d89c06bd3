"""The codecs of record batches, with bounded decompression.

A batch's size says nothing about what it decompresses to, so the caller sets a limit and the
output buffer grows in steps toward it: a bomb costs at most the limit, and time in proportion.
Where a format tells its size in advance (a hint from the peer, never trusted beyond the limit) the
first step fits.

What is written is what Apache Kafka's Java clients can read: snappy in xerial framing, lz4 as
frames of independent blocks. What is read is what Apache Kafka reads: snappy in xerial framing or
as one raw block (librdkafka writes that), lz4 frames of independent blocks, concatenated gzip
members and zstd frames.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

import cramjam

from barnabas.record.batch import Buffer
from barnabas.record.errors import CorruptCompression, DecompressedTooLarge

MAX_DECOMPRESSED_BYTES = 100 * 1024 * 1024
"""Default of `max.decompressed.message.bytes`: a batch holds no more than a whole request may."""

_FIRST_STEP = 4096
_STEP_FACTOR = 4
_EXPECTED_RATIO = 4
_NO_ROOM = "whole buffer"  # how the codecs say that the output did not fit

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES = 32 * 1024
_XERIAL_MAGIC_AS_LENGTH = int.from_bytes(_XERIAL_MAGIC[:4], "big", signed=True)
_INT32 = Struct(">i")

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_VERSION_AND_INDEPENDENT = 0x60
_LZ4_KAFKA_DEFAULT_LEVEL = 9  # the setting's default, by which Kafka means the fast compressor
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class Codec(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: int, data: Buffer, level: int | None = None) -> Buffer:
    """`data` as one compressed piece. `level` is `compression.<codec>.level`, None its default."""
    if codec == Codec.NONE:
        return data
    if codec == Codec.SNAPPY:
        return _compress_snappy(memoryview(data))
    if codec == Codec.LZ4:
        fast = level is None or level == _LZ4_KAFKA_DEFAULT_LEVEL
        compressor = cramjam.lz4.Compressor(
            level=0 if fast else level, content_checksum=False, block_linked=False
        )
        compressor.compress(bytes(data))
        return memoryview(compressor.finish())
    if codec == Codec.GZIP:
        return memoryview(cramjam.gzip.compress(data, None if level == -1 else level))
    if codec == Codec.ZSTD:
        return memoryview(cramjam.zstd.compress(data, level))
    raise ValueError(f"no codec has the number {codec}")


def decompress(codec: int, data: Buffer, limit: int = MAX_DECOMPRESSED_BYTES) -> Buffer:
    """What `data` holds, at most `limit` bytes of it: more is a `DecompressedTooLarge`."""
    if codec == Codec.NONE:
        if len(data) > limit:
            raise DecompressedTooLarge(limit)
        return data
    view = memoryview(data)
    if codec == Codec.SNAPPY:
        return _decompress_snappy(view, limit)
    if codec == Codec.ZSTD:
        return _decompress_stream(cramjam.zstd, view, _zstd_size(view), limit)
    if codec == Codec.GZIP:
        return _decompress_stream(cramjam.gzip, view, _gzip_size(view), limit)
    if codec == Codec.LZ4:
        _check_lz4_frame(view)
        return _decompress_stream(cramjam.lz4, view, 0, limit)
    raise CorruptCompression(f"no codec has the number {codec}")


def _decompress_stream(codec: object, data: memoryview, size_hint: int, limit: int) -> memoryview:
    decompress_into = codec.decompress_into  # type: ignore[attr-defined]
    room = size_hint or max(len(data) * _EXPECTED_RATIO, _FIRST_STEP)
    while True:
        room = min(room, limit)
        output = bytearray(room)
        try:
            written: int = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if _NO_ROOM not in str(error):
                raise CorruptCompression(f"cannot decompress: {error}") from None
        else:
            return memoryview(output)[:written]
        if room >= limit:
            raise DecompressedTooLarge(limit)
        room = max(room * _STEP_FACTOR, _FIRST_STEP)


def _gzip_size(data: memoryview) -> int:
    """The last member's size, which is everything in all but the rarest case."""
    if len(data) < 18:
        return 0
    size = int.from_bytes(data[-4:], "little")
    return size if size <= len(data) * 1100 else 0


def _zstd_size(data: memoryview) -> int:
    """The content size in the first frame's header, if it is there."""
    if len(data) < 18 or data[:4] != _ZSTD_MAGIC:
        return 0
    descriptor = data[4]
    single_segment = descriptor & 0x20
    start = 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 3]
    width = (1 if single_segment else 0, 2, 4, 8)[descriptor >> 6]
    size = int.from_bytes(data[start : start + width], "little")
    return size + 256 if width == 2 else size


def _check_lz4_frame(data: memoryview) -> None:
    if len(data) < 7 or data[:4] != _LZ4_MAGIC:
        raise CorruptCompression("no lz4 frame")
    if data[4] & 0xE0 != _LZ4_VERSION_AND_INDEPENDENT:
        raise CorruptCompression("an lz4 frame must have independent blocks")


def _compress_snappy(data: memoryview) -> bytearray:
    output = bytearray(_XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES])
        output += _INT32.pack(len(block))
        output += memoryview(block)
    return output


def _decompress_snappy(data: memoryview, limit: int) -> memoryview:
    """Every raw block starts with its size, so the sum is known before a byte is decompressed."""
    blocks = _snappy_blocks(data)
    total = 0
    sizes: list[int] = []
    try:
        for block in blocks:
            size: int = cramjam.snappy.decompress_raw_len(block)
            sizes.append(size)
            total += size
        if total > limit:
            raise DecompressedTooLarge(limit)
        output = memoryview(bytearray(total))
        position = 0
        for block, size in zip(blocks, sizes, strict=True):
            cramjam.snappy.decompress_raw_into(block, output[position : position + size])
            position += size
    except cramjam.DecompressionError as error:
        raise CorruptCompression(f"cannot decompress: {error}") from None
    return output


def _snappy_blocks(data: memoryview) -> list[memoryview]:
    if len(data) < len(_XERIAL_HEADER) or data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return [data]
    blocks = []
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if len(data) - position < _INT32.size:
            raise CorruptCompression("a snappy stream ends inside a block length")
        (length,) = _INT32.unpack_from(data, position)
        if length == _XERIAL_MAGIC_AS_LENGTH:  # a stream appended to this one
            position += len(_XERIAL_HEADER)
            continue
        position += _INT32.size
        if length <= 0 or length > len(data) - position:
            raise CorruptCompression(f"a snappy block of {length} bytes in {len(data) - position}")
        blocks.append(data[position : position + length])
        position += length
    return blocks
