"""Reading records out of batches.

`read_records` is the comfortable form, for any bytes that hold batches; `batch_records` gives one
batch's records as plain tuples, which is as fast as the kernels can be. Control batches
(transaction markers and the Raft log's own records) are passed over unless asked for: they are not
data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from barnabas.record.batch import (
    BATCH_OVERHEAD,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    Buffer,
    iterate_batches,
    verify_crc,
)
from barnabas.record.compression import MAX_DECOMPRESSED_BYTES, Codec, decompress
from barnabas.record.kernels import RecordTuple, decode_records


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def batch_body(
    buffer: Buffer, header: BatchHeader, start: int = 0, limit: int = MAX_DECOMPRESSED_BYTES
) -> tuple[Buffer, int, int]:
    """Where the records of the batch at `start` are, decompressed: a buffer and a range in it."""
    if header.compression == Codec.NONE:
        return buffer, start + BATCH_OVERHEAD, start + header.size_in_bytes
    with memoryview(buffer) as whole:
        body = decompress(
            header.compression,
            whole[start + BATCH_OVERHEAD : start + header.size_in_bytes],
            limit,
        )
    return body, 0, len(body)


def batch_records(
    buffer: Buffer, header: BatchHeader, start: int = 0, limit: int = MAX_DECOMPRESSED_BYTES
) -> list[RecordTuple]:
    """The records of the batch at `start`: tuples `(offset, timestamp, key, value, headers)`."""
    body, body_start, body_end = batch_body(buffer, header, start, limit)
    return decode_records(
        body,
        body_start,
        body_end,
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        header.max_timestamp if header.attributes & TIMESTAMP_TYPE_MASK else -1,
    )


def read_records(
    buffer: Buffer,
    *,
    control: bool = False,
    check_crc: bool = True,
    partial_tail: bool = False,
    limit: int = MAX_DECOMPRESSED_BYTES,
) -> Iterator[Record]:
    """Every record of every batch in `buffer`; those of control batches only with `control`."""
    for header, start, _end in iterate_batches(buffer, partial_tail=partial_tail):
        if header.is_control and not control:
            continue
        if check_crc:
            verify_crc(buffer, header, start)
        for record in batch_records(buffer, header, start, limit):
            yield Record(*record)
