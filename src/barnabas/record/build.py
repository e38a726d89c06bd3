"""Writing record batches.

`build_batch` is for everyone who has records and wants one batch: the clients, the coordinators,
the metadata log, the cleaner. `seal_batch` is the step below it: it takes a body that
`RecordsBuilder` or a copy of raw records made, compresses it, and writes header and checksum
around it.
"""

from __future__ import annotations

from collections.abc import Iterable

from crc32c import crc32c

from barnabas.record.batch import (
    ATTRIBUTES_OFFSET,
    BATCH_OVERHEAD,
    CONTROL_MASK,
    CRC,
    CRC_OFFSET,
    DELETE_HORIZON_MASK,
    HEADER,
    LOG_OVERHEAD,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    Buffer,
    TimestampType,
)
from barnabas.record.compression import Codec, compress
from barnabas.record.kernels import Headers, RecordsBuilder

BuildRecord = tuple[int, Buffer | None, Buffer | None, Headers]


def attributes_of(
    *,
    codec: int = Codec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    is_transactional: bool = False,
    is_control: bool = False,
    has_delete_horizon: bool = False,
) -> int:
    return (
        codec
        | (TIMESTAMP_TYPE_MASK if timestamp_type == TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_MASK if is_transactional else 0)
        | (CONTROL_MASK if is_control else 0)
        | (DELETE_HORIZON_MASK if has_delete_horizon else 0)
    )


def build_batch(
    records: Iterable[BuildRecord],
    *,
    base_offset: int = 0,
    codec: int = Codec.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time_ms: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    is_transactional: bool = False,
    is_control: bool = False,
    delete_horizon_ms: int | None = None,
    offsets: Iterable[int] | None = None,
    last_offset: int | None = None,
) -> bytearray:
    """One batch of `records`, each `(timestamp_ms, key, value, headers)`.

    `offsets` gives each record's own offset where they have gaps, as after compaction, and
    `last_offset` keeps a batch's range when its last records are gone; a batch may then have no
    records at all. With `LOG_APPEND_TIME` the batch's largest timestamp is `log_append_time_ms`,
    which readers give to every record.
    """
    builder = RecordsBuilder(delete_horizon_ms)
    if offsets is None:
        builder.extend(records)
    else:
        for offset, (timestamp_ms, key, value, headers) in zip(offsets, records, strict=True):
            if offset < base_offset:
                raise ValueError(f"offset {offset} before the base offset {base_offset}")
            builder.append(timestamp_ms, key, value, headers, offset - base_offset)
    last_offset_delta = builder.last_offset_delta
    if last_offset is not None:
        if last_offset - base_offset < last_offset_delta:
            raise ValueError(f"last offset {last_offset} before the last record's")
        last_offset_delta = last_offset - base_offset
    max_timestamp = builder.max_timestamp
    if timestamp_type == TimestampType.LOG_APPEND_TIME:
        if log_append_time_ms is None:
            raise ValueError("LOG_APPEND_TIME needs log_append_time_ms")
        max_timestamp = log_append_time_ms
    record_count = builder.record_count
    base_timestamp = builder.base_timestamp
    return seal_batch(
        builder.finish(),
        codec=codec,
        level=level,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        attributes=attributes_of(
            codec=codec,
            timestamp_type=timestamp_type,
            is_transactional=is_transactional,
            is_control=is_control,
            has_delete_horizon=delete_horizon_ms is not None,
        ),
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=record_count,
    )


def seal_batch(
    batch: bytearray,
    *,
    base_offset: int,
    partition_leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
    codec: int = Codec.NONE,
    level: int | None = None,
) -> bytearray:
    """Compresses what follows the first 61 bytes and writes the header into them, in place."""
    if codec != Codec.NONE:
        with memoryview(batch) as whole:
            body = compress(codec, whole[BATCH_OVERHEAD:], level)
        del batch[BATCH_OVERHEAD:]
        batch += body
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        partition_leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    with memoryview(batch) as whole:
        CRC.pack_into(batch, CRC_OFFSET, crc32c(whole[ATTRIBUTES_OFFSET:]))
    return batch
