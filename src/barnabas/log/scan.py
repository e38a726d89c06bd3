"""Walking over the batches of a segment file.

Two ways: `find_batch` looks only at headers, to find where a read begins; `scan_batches` also gives
the bytes, for recovery, replaying producers, searching timestamps and compaction. Both read in
chunks and hold at most one chunk or one batch in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from barnabas.record.batch import (
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_OFFSET,
    BatchHeader,
    read_header,
)
from barnabas.record.errors import BadRecords, CorruptBatch, TruncatedBatch
from barnabas.seams import DiskFile

_FRAME = Struct(">qi11xi")  # base offset, length, last offset delta
_HEADER_CHUNK = 4096 + BATCH_OVERHEAD
_BATCH_CHUNK = 256 * 1024


class Misplaced(Exception):
    """Where a search was to begin there is no batch, or one that is beyond what is searched."""


class FoundBatch(NamedTuple):
    position: int
    base_offset: int
    last_offset: int
    size: int


def find_batch(file: DiskFile, position: int, end: int, offset: int) -> FoundBatch | None:
    """The first batch at or after `position` that reaches `offset`; None if none does.

    Whoever names a position means a batch that begins there and not after `offset`: `Misplaced` if
    that is not so, since a later batch would then be taken for the right one."""
    frame_size = _FRAME.size
    unpack = _FRAME.unpack_from
    unchecked = position > 0
    if unchecked and position + BATCH_OVERHEAD > end:
        raise Misplaced(f"position {position} of {end}")
    while position + BATCH_OVERHEAD <= end:
        chunk = file.read_at(position, min(_HEADER_CHUNK, end - position))
        if unchecked:
            _check_first(chunk, position, end, offset)
            unchecked = False
        usable = len(chunk) - frame_size
        at = 0
        while at <= usable:
            base_offset, length, delta = unpack(chunk, at)
            size = length + LOG_OVERHEAD
            if size < BATCH_OVERHEAD:
                raise CorruptBatch(f"at position {position + at} a batch claims {size} bytes")
            if base_offset + delta >= offset:
                return FoundBatch(position + at, base_offset, base_offset + delta, size)
            at += size
        if at == 0:
            return None
        position += at
    return None


def _check_first(chunk: bytes, position: int, end: int, offset: int) -> None:
    if len(chunk) < BATCH_OVERHEAD:
        return  # the file is shorter than its log, which is not the index's fault
    base_offset, length, _ = _FRAME.unpack_from(chunk)
    if (
        base_offset > offset
        or chunk[MAGIC_OFFSET] != MAGIC
        or not BATCH_OVERHEAD <= length + LOG_OVERHEAD <= end - position
    ):
        raise Misplaced(f"no batch up to offset {offset} at position {position}")


def find_last_batch(file: DiskFile, position: int, end: int) -> FoundBatch | None:
    """The last whole batch between `position`, where one begins, and `end`."""
    unpack = _FRAME.unpack_from
    last: FoundBatch | None = None
    while position + BATCH_OVERHEAD <= end:
        chunk = file.read_at(position, min(_HEADER_CHUNK, end - position))
        usable = len(chunk) - _FRAME.size
        at = 0
        while at <= usable:
            base_offset, length, delta = unpack(chunk, at)
            size = length + LOG_OVERHEAD
            if size < BATCH_OVERHEAD or position + at + size > end:
                return last
            last = FoundBatch(position + at, base_offset, base_offset + delta, size)
            at += size
        if at == 0:
            return last
        position += at
    return last


class ScannedBatch(NamedTuple):
    """A batch in a buffer: `buffer[start:start + header.size_in_bytes]`, and where it was found."""

    header: BatchHeader
    buffer: bytes
    start: int
    position: int

    @property
    def data(self) -> memoryview:
        return memoryview(self.buffer)[self.start : self.start + self.header.size_in_bytes]


def scan_batches(
    file: DiskFile, position: int = 0, end: int | None = None, *, chunk_size: int = _BATCH_CHUNK
) -> Iterator[ScannedBatch]:
    """Every batch from `position` on. Raises `BadRecords` (with the position) where the bytes are
    no batch, `TruncatedBatch` where the file ends inside one. Checksums are not computed."""
    if end is None:
        end = file.size
    while position < end:
        buffer = file.read_at(position, min(chunk_size, end - position))
        at = 0
        while True:
            try:
                header = read_header(buffer, at)
            except TruncatedBatch:
                break
            except BadRecords as error:
                raise CorruptBatch(f"at position {position + at}: {error}") from error
            if at + header.size_in_bytes > len(buffer):
                break
            yield ScannedBatch(header, buffer, at, position + at)
            at += header.size_in_bytes
        if at == 0:
            size = _size_at(buffer)
            if position + size > end or size <= len(buffer):
                raise TruncatedBatch(f"at position {position} the file ends inside a batch")
            buffer = file.read_at(position, size)
            if len(buffer) < size:
                raise TruncatedBatch(f"at position {position} the file ends inside a batch")
            header = read_header(buffer, 0)
            yield ScannedBatch(header, buffer, 0, position)
            at = size
        position += at


def _size_at(buffer: bytes) -> int:
    if len(buffer) < BATCH_OVERHEAD:
        return BATCH_OVERHEAD
    return read_header(buffer, 0).size_in_bytes
