"""The header of a record batch (magic 2), and walking over batches that lie one after another.

    offset  field
    0       base_offset             int64    the log overhead: these 12 bytes frame the batch
    8       batch_length            int32    bytes after this field
    12      partition_leader_epoch  int32
    16      magic                   int8     2
    17      crc                     uint32   CRC-32C of everything from `attributes` to the end
    21      attributes              int16    bits 0-2 codec, 3 log append time, 4 transactional,
                                             5 control, 6 delete horizon in base_timestamp
    23      last_offset_delta       int32
    27      base_timestamp          int64
    35      max_timestamp           int64
    43      producer_id             int64
    51      producer_epoch          int16
    53      base_sequence           int32
    57      record_count            int32
    61      records, compressed as one piece

Base offset and leader epoch stand before the checksum's range, so a leader sets them without
computing it anew. Formats 0 and 1 keep their magic byte at the same place, which is how they are
recognised.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import TypeAlias

from crc32c import crc32c

from barnabas.record.errors import CorruptBatch, TruncatedBatch, UnsupportedMagic

Buffer: TypeAlias = bytes | bytearray | memoryview

LOG_OVERHEAD = 12
BATCH_OVERHEAD = 61
SIZE_OFFSET = 8
PARTITION_LEADER_EPOCH_OFFSET = 12
MAGIC_OFFSET = 16
CRC_OFFSET = 17
ATTRIBUTES_OFFSET = 21
LAST_OFFSET_DELTA_OFFSET = 23
BASE_TIMESTAMP_OFFSET = 27
MAX_TIMESTAMP_OFFSET = 35
RECORD_COUNT_OFFSET = 57

MAGIC = 2
_SMALLEST_MESSAGE_SIZE = 14  # of formats 0 and 1, after the log overhead

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_PARTITION_LEADER_EPOCH = -1

CODEC_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
DELETE_HORIZON_MASK = 0x40

HEADER = Struct(">qiibIhiqqqhii")
CRC = Struct(">I")
_FRAME = Struct(">qiib")


class TimestampType(IntEnum):
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader:
    """The fields of one header. `size_in_bytes` is the whole batch, its frame included."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "crc",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size_in_bytes",
    )

    def __init__(
        self,
        base_offset: int,
        size_in_bytes: int,
        partition_leader_epoch: int,
        magic: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        record_count: int,
    ) -> None:
        self.base_offset = base_offset
        self.size_in_bytes = size_in_bytes
        self.partition_leader_epoch = partition_leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.record_count = record_count

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence numbers run to the largest int32 and start again at 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def compression(self) -> int:
        """The codec's number; `compression.Codec` names it."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        if self.attributes & TIMESTAMP_TYPE_MASK:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_MASK != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_MASK != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        if self.attributes & DELETE_HORIZON_MASK:
            return self.base_timestamp
        return None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BatchHeader):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)}" for name in self.__slots__)
        return f"BatchHeader({fields})"


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`. Only the header must be there, not the records after it.

    Raises `TruncatedBatch` if the buffer ends before the header does, `UnsupportedMagic` for
    formats 0 and 1, `CorruptBatch` for a size or a magic that no batch has. The checksum is not
    computed.
    """
    try:
        header = BatchHeader(*HEADER.unpack_from(buffer, position))
    except Exception:
        _refuse_short_header(buffer, position)
        raise
    header.size_in_bytes += LOG_OVERHEAD
    if header.magic != MAGIC or header.size_in_bytes < BATCH_OVERHEAD:
        _check_frame(header.size_in_bytes, header.magic)
    return header


def _refuse_short_header(buffer: Buffer, position: int) -> None:
    available = len(buffer) - position
    if position >= 0 and _FRAME.size <= available < BATCH_OVERHEAD:
        _base_offset, length, _epoch, magic = _FRAME.unpack_from(buffer, position)
        _check_frame(length + LOG_OVERHEAD, magic)
    if 0 <= available < BATCH_OVERHEAD:
        raise TruncatedBatch(f"{available} bytes are left for a batch header of {BATCH_OVERHEAD}")


def _check_frame(size_in_bytes: int, magic: int) -> None:
    if size_in_bytes < LOG_OVERHEAD + _SMALLEST_MESSAGE_SIZE:
        raise CorruptBatch(f"a batch cannot have a size of {size_in_bytes} bytes")
    if magic in (0, 1):
        raise UnsupportedMagic(magic)
    if magic != MAGIC:
        raise CorruptBatch(f"unknown magic {magic}")
    if size_in_bytes < BATCH_OVERHEAD:
        raise CorruptBatch(f"a batch cannot have a size of {size_in_bytes} bytes")


def iterate_batches(
    buffer: Buffer, position: int = 0, *, partial_tail: bool = False
) -> Iterator[tuple[BatchHeader, int, int]]:
    """Each batch's header, and where the batch starts and ends in the buffer.

    A buffer that ends inside a batch raises `TruncatedBatch`, or simply ends with `partial_tail`,
    as what Fetch answers with may. Checksums are not computed.
    """
    length = len(buffer)
    while position < length:
        try:
            header = read_header(buffer, position)
        except TruncatedBatch:
            if partial_tail:
                return
            raise
        end = position + header.size_in_bytes
        if end > length:
            if partial_tail:
                return
            raise TruncatedBatch(
                f"a batch of {header.size_in_bytes} bytes, but only {length - position} are left"
            )
        yield header, position, end
        position = end


def compute_crc(buffer: Buffer, start: int, end: int) -> int:
    """The checksum that the batch in `[start, end)` should carry."""
    return crc32c(memoryview(buffer)[start + ATTRIBUTES_OFFSET : end])


def verify_crc(buffer: Buffer, header: BatchHeader, start: int) -> None:
    """Raises `CorruptBatch` unless the batch at `start` has the checksum its header says."""
    computed = crc32c(memoryview(buffer)[start + ATTRIBUTES_OFFSET : start + header.size_in_bytes])
    if computed != header.crc:
        raise CorruptBatch(f"stored crc = {header.crc}, computed crc = {computed}")
