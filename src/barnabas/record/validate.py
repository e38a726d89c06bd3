"""What a leader does to record bytes before they become part of its log.

`validate` decides whether a client's bytes may be appended, and makes of them the bytes to write:
the same memory unless they must be rebuilt (a topic with a codec of its own, offsets that do not
count from 0). `assign_offsets` then writes offsets and leader epoch into the headers. The order of
the checks, the codes and the sentences are those of Apache Kafka:

| what | answer |
| --- | --- |
| no whole batch, more than one, message format 0 or 1 | INVALID_RECORD |
| size below the smallest, unknown magic, wrong checksum | CORRUPT_MESSAGE |
| batch above `max.message.bytes`, before or after recompression | MESSAGE_TOO_LARGE |
| zstd in a Produce below version 7, a codec number nobody knows | UNSUPPORTED_COMPRESSION_TYPE |
| base offset not 0, control batch, counts and lengths that contradict each other | INVALID_RECORD |
| no key in a compacted topic | INVALID_RECORD with record errors |
| timestamp out of range, or its type set by the producer | INVALID_TIMESTAMP with record errors |

As in Apache Kafka, bytes after the batch that are too few to be another one are cut off, and a
wrong largest timestamp in the header is corrected. Where Apache Kafka has no considered answer:
records that decompress to more than `max.decompressed.message.bytes` are MESSAGE_TOO_LARGE (Java
producers answer that by splitting the batch), and a broken compressed stream is INVALID_RECORD.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from struct import Struct

from crc32c import crc32c

from barnabas.record.batch import (
    ATTRIBUTES_OFFSET,
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL_MASK,
    CRC,
    CRC_OFFSET,
    HEADER,
    LOG_OVERHEAD,
    MAGIC,
    MAX_TIMESTAMP_OFFSET,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    Buffer,
    TimestampType,
    iterate_batches,
    read_header,
    verify_crc,
)
from barnabas.record.build import seal_batch
from barnabas.record.compression import MAX_DECOMPRESSED_BYTES, Codec, decompress
from barnabas.record.errors import (
    BadRecords,
    CorruptBatch,
    DecompressedTooLarge,
    InvalidRecords,
    RecordsRefused,
    UnsupportedMagic,
)
from barnabas.record.kernels import RecordsBuilder, decode_records, scan_records
from barnabas.wire.errors import ErrorCode

__all__ = [
    "AppendOrigin",
    "AppendRules",
    "RecordsRefused",
    "Validated",
    "assign_offsets",
    "validate",
    "validate_replicated",
]

FIRST_PRODUCE_VERSION_WITH_ZSTD = 7
_LATEST_PRODUCE_VERSION = 13
_LOWEST_INT64 = -(1 << 63)
_HIGHEST_INT64 = (1 << 63) - 1
_SHOWN_RECORD_ERRORS = 3
_OFFSET_SIZE_EPOCH = Struct(">qii")
_ATTRIBUTES = Struct(">h")
_INT64 = Struct(">q")


class AppendOrigin(Enum):
    """Who wants to append. Only a client is not trusted with control batches and base offsets."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    RAFT_LEADER = "raft leader"


# Members of enums as plain names: looking them up is slow, and done for every Produce.
_CLIENT = AppendOrigin.CLIENT
_CREATE_TIME = TimestampType.CREATE_TIME
_ZSTD = int(Codec.ZSTD)


@dataclass(frozen=True, slots=True)
class AppendRules:
    """What a topic's settings ask of records. `codec` is None for `compression.type=producer`."""

    topic_partition: str = ""
    max_message_bytes: int = 1048588
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = _HIGHEST_INT64
    timestamp_after_max_ms: int = 3_600_000
    is_compacted: bool = False
    codec: int | None = None
    compression_level: int | None = None
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
    origin: AppendOrigin = AppendOrigin.CLIENT


class Validated:
    """Batches ready to be appended.

    `buffer` holds exactly the bytes to write; `headers` describes the batches in it, in order.
    `offset_of_max_timestamp` counts from the first record until `assign_offsets` makes it absolute.
    `log_append_time_ms` is -1 unless the topic has that timestamp type.
    """

    __slots__ = (
        "buffer",
        "headers",
        "log_append_time_ms",
        "max_timestamp",
        "offset_of_max_timestamp",
        "record_count",
    )

    def __init__(
        self,
        buffer: memoryview,
        headers: list[BatchHeader],
        record_count: int,
        max_timestamp: int,
        offset_of_max_timestamp: int,
        *,
        log_append_time_ms: int = NO_TIMESTAMP,
    ) -> None:
        self.buffer = buffer
        self.headers = headers
        self.record_count = record_count
        self.max_timestamp = max_timestamp
        self.offset_of_max_timestamp = offset_of_max_timestamp
        self.log_append_time_ms = log_append_time_ms


def validate(
    records: Buffer,
    rules: AppendRules,
    now_ms: int,
    *,
    produce_version: int = _LATEST_PRODUCE_VERSION,
) -> Validated:
    """The records as they may be appended, or `RecordsRefused`."""
    try:
        header = BatchHeader(*HEADER.unpack_from(records))
        header.size_in_bytes += LOG_OVERHEAD
        whole = header.magic == MAGIC and header.size_in_bytes == len(records) >= BATCH_OVERHEAD
    except Exception:
        whole = False
    if not whole:
        return _validate_several(memoryview(records), rules, now_ms, produce_version)
    view = records if isinstance(records, memoryview) else memoryview(records)
    return _validate_batch(view, header, rules, now_ms, produce_version)


def _validate_several(
    records: memoryview, rules: AppendRules, now_ms: int, produce_version: int
) -> Validated:
    """Anything but one whole batch: an answer for a client, a list for the node itself."""
    ranges: list[tuple[BatchHeader, int, int]] = []
    try:
        for item in iterate_batches(records, partial_tail=True):
            ranges.append(item)
            if len(ranges) > 1 and rules.origin is AppendOrigin.CLIENT:
                raise RecordsRefused(
                    ErrorCode.INVALID_RECORD,
                    "Produce requests are only allowed to contain exactly one record batch",
                )
    except UnsupportedMagic:
        raise RecordsRefused(
            ErrorCode.INVALID_RECORD,
            "Produce requests are only allowed to contain record batches with magic version 2",
        ) from None
    except CorruptBatch as error:
        raise RecordsRefused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if not ranges:
        raise RecordsRefused(
            ErrorCode.INVALID_RECORD, "Produce requests must have at least one record batch"
        )
    parts = [
        _validate_batch(records[start:end], header, rules, now_ms, produce_version)
        for header, start, end in ranges
    ]
    if len(parts) == 1:
        return parts[0]
    return _joined(parts)


def _joined(parts: list[Validated]) -> Validated:
    headers: list[BatchHeader] = []
    buffer = bytearray()
    record_count = 0
    max_timestamp = offset_of_max_timestamp = -1
    for part in parts:
        headers += part.headers
        buffer += part.buffer
        if part.max_timestamp > max_timestamp:
            max_timestamp = part.max_timestamp
            offset_of_max_timestamp = record_count + part.offset_of_max_timestamp
        record_count += part.record_count
    return Validated(
        memoryview(buffer),
        headers,
        record_count,
        max_timestamp,
        offset_of_max_timestamp,
        log_append_time_ms=parts[0].log_append_time_ms,
    )


def _validate_batch(
    view: memoryview, header: BatchHeader, rules: AppendRules, now_ms: int, produce_version: int
) -> Validated:
    codec = header.attributes & CODEC_MASK
    from_client = rules.origin is _CLIENT
    if codec == _ZSTD and produce_version < FIRST_PRODUCE_VERSION_WITH_ZSTD:
        raise RecordsRefused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {produce_version} are not allowed to use "
            "ZStandard compression",
        )
    if from_client and header.base_offset != 0:
        raise RecordsRefused(
            ErrorCode.INVALID_RECORD,
            "The baseOffset of the record batch in the append to "
            f"{rules.topic_partition} should be 0, but it is {header.base_offset}",
        )
    if header.size_in_bytes > rules.max_message_bytes:
        raise RecordsRefused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {rules.topic_partition} is "
            f"{header.size_in_bytes} bytes which exceeds the maximum configured value of "
            f"{rules.max_message_bytes}.",
        )
    if crc32c(view[ATTRIBUTES_OFFSET:]) != header.crc:
        raise RecordsRefused(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record is corrupt (stored crc = {header.crc}) in topic partition "
            f"{rules.topic_partition}.",
        )
    if codec > _ZSTD:
        raise RecordsRefused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type id: {codec}"
        )
    if from_client and not (
        header.last_offset_delta + 1 == header.record_count > 0
        and not header.attributes & CONTROL_MASK
        and (header.producer_id < 0 or header.base_sequence >= 0)
    ):
        raise _refusal_of_header(header, rules)
    return _validate_records(view, header, codec, rules, now_ms)


def _refusal_of_header(header: BatchHeader, rules: AppendRules) -> RecordsRefused:
    """Why no client may send a batch with this header."""
    count = header.record_count
    if header.last_offset_delta < 0:
        message = f"Batch has an invalid offset range: [{header.base_offset}, {header.last_offset}]"
    elif count <= 0:
        message = f"Invalid reported count for record batch: {count}"
    elif header.last_offset_delta + 1 != count:
        message = (
            f"Inconsistent batch offset range [{header.base_offset}, {header.last_offset}] "
            f"and count of records {count}"
        )
    elif header.attributes & CONTROL_MASK:
        message = "Clients are not allowed to write control records"
    else:
        message = (
            f"Invalid sequence number {header.base_sequence} in record batch with producerId "
            f"{header.producer_id}"
        )
    return RecordsRefused(
        ErrorCode.INVALID_RECORD, f"{message} in topic partition {rules.topic_partition}"
    )


def _validate_records(
    view: memoryview, header: BatchHeader, codec: int, rules: AppendRules, now_ms: int
) -> Validated:
    create_time = rules.timestamp_type is _CREATE_TIME
    if create_time:
        lowest = now_ms - rules.timestamp_before_max_ms
        highest = now_ms + rules.timestamp_after_max_ms
        if lowest < _LOWEST_INT64:  # noqa: PLR1730 - faster
            lowest = _LOWEST_INT64
        if highest > _HIGHEST_INT64:  # noqa: PLR1730
            highest = _HIGHEST_INT64
    else:
        lowest = _LOWEST_INT64
        highest = _HIGHEST_INT64
    typed_by_producer = header.attributes & TIMESTAMP_TYPE_MASK
    if typed_by_producer:
        _check_producer_timestamp_type(header, create_time, lowest, highest, rules)

    body: Buffer = view
    start = BATCH_OVERHEAD
    try:
        if codec:
            body = decompress(codec, view[BATCH_OVERHEAD:], rules.max_decompressed_bytes)
            start = 0
        max_timestamp, offset_of_max_timestamp, contiguous, refused_count, refused = scan_records(
            body,
            start,
            len(body),
            header.record_count,
            header.base_timestamp,
            lowest,
            highest,
            rules.is_compacted,
        )
    except DecompressedTooLarge as error:
        raise RecordsRefused(ErrorCode.MESSAGE_TOO_LARGE, _in(error, rules)) from None
    except InvalidRecords as error:
        raise RecordsRefused(ErrorCode.INVALID_RECORD, _in(error, rules)) from None
    if refused is not None:
        raise _refusal_of_records(refused_count, refused, lowest, highest, rules)

    target = codec if rules.codec is None else rules.codec
    is_control = header.attributes & CONTROL_MASK
    if (target != codec and not (is_control and not codec)) or not (contiguous or is_control):
        view, header = _rebuilt(
            body, start, header, target=target, contiguous=contiguous, rules=rules
        )
    log_append_time_ms = NO_TIMESTAMP
    if not create_time:
        max_timestamp = log_append_time_ms = now_ms
        offset_of_max_timestamp = 0
    if typed_by_producer or not create_time or header.max_timestamp != max_timestamp:
        view = _set_max_timestamp(view, header, rules.timestamp_type, max_timestamp)
    return Validated(
        view,
        [header],
        header.record_count,
        max_timestamp,
        offset_of_max_timestamp,
        log_append_time_ms=log_append_time_ms,
    )


def _in(error: BadRecords, rules: AppendRules) -> str:
    return f"{error} in topic partition {rules.topic_partition}"


def _check_producer_timestamp_type(
    header: BatchHeader, create_time: bool, lowest: int, highest: int, rules: AppendRules
) -> None:
    """A producer that claims log append time: its records then all have the header's timestamp."""
    if create_time and header.max_timestamp != NO_TIMESTAMP:
        if lowest <= header.max_timestamp <= highest:
            return
        raise _refusal_of_records(1, [(0, False, header.max_timestamp)], lowest, highest, rules)
    raise RecordsRefused(
        ErrorCode.INVALID_TIMESTAMP,
        "One or more records have been rejected due to invalid timestamp",
        [
            (
                0,
                "Invalid timestamp type in message. Producer should not set timestamp type to "
                "LogAppendTime.",
            )
        ],
    )


def _refusal_of_records(
    count: int,
    refused: list[tuple[int, bool, int]],
    lowest: int,
    highest: int,
    rules: AppendRules,
) -> RecordsRefused:
    record_errors = [
        (
            index,
            "Compacted topic cannot accept message without key in topic partition "
            f"{rules.topic_partition}"
            if key_is_missing
            else f"Timestamp {timestamp} of message with offset {index} is out of range. "
            f"The timestamp should be within [{lowest}, {highest}]",
        )
        for index, key_is_missing, timestamp in refused
    ]
    if not all(key_is_missing for _index, key_is_missing, _timestamp in refused):
        return RecordsRefused(
            ErrorCode.INVALID_TIMESTAMP,
            "One or more records have been rejected due to invalid timestamp",
            record_errors,
        )
    shown = ", ".join(
        f"RecordError(batchIndex={index}, message='{message}')"
        for index, message in record_errors[:_SHOWN_RECORD_ERRORS]
    )
    return RecordsRefused(
        ErrorCode.INVALID_RECORD,
        f"One or more records have been rejected due to {count} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]",
        record_errors,
    )


def _rebuilt(
    body: Buffer,
    start: int,
    header: BatchHeader,
    *,
    target: int,
    contiguous: bool,
    rules: AppendRules,
) -> tuple[memoryview, BatchHeader]:
    """The same records in a new batch, in the topic's codec and with offsets that count from 0."""
    if contiguous:
        batch = bytearray(BATCH_OVERHEAD)
        batch += memoryview(body)[start:]
    else:
        builder = RecordsBuilder(header.base_timestamp)
        for _offset, timestamp, key, value, headers in decode_records(
            body, start, len(body), header.record_count, 0, header.base_timestamp
        ):
            builder.append(timestamp, key, value, headers)
        batch = builder.finish()
    seal_batch(
        batch,
        codec=target,
        level=rules.compression_level,
        base_offset=header.base_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        attributes=header.attributes & ~CODEC_MASK | target,
        last_offset_delta=header.record_count - 1,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        record_count=header.record_count,
    )
    if len(batch) > rules.max_message_bytes:
        raise RecordsRefused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"Message batch size is {len(batch)} bytes in append to partition "
            f"{rules.topic_partition}, which exceeds the maximum configured size of "
            f"{rules.max_message_bytes}.",
        )
    return memoryview(batch), read_header(batch)


def _writable(view: memoryview) -> memoryview:
    return memoryview(bytearray(view)) if view.readonly else view


def _set_max_timestamp(
    view: memoryview, header: BatchHeader, timestamp_type: TimestampType, max_timestamp: int
) -> memoryview:
    view = _writable(view)
    header.max_timestamp = max_timestamp
    if timestamp_type == TimestampType.LOG_APPEND_TIME:
        header.attributes |= TIMESTAMP_TYPE_MASK
    else:
        header.attributes &= ~TIMESTAMP_TYPE_MASK
    _ATTRIBUTES.pack_into(view, ATTRIBUTES_OFFSET, header.attributes)
    _INT64.pack_into(view, MAX_TIMESTAMP_OFFSET, max_timestamp)
    header.crc = crc32c(view[ATTRIBUTES_OFFSET:])
    CRC.pack_into(view, CRC_OFFSET, header.crc)
    return view


def assign_offsets(validated: Validated, first_offset: int, leader_epoch: int) -> int:
    """Writes offsets from `first_offset` on, and the leader epoch, into every batch and header.
    Gives the offset after the last one. Read-only memory is copied once."""
    view = validated.buffer
    if view.readonly:
        view = validated.buffer = memoryview(bytearray(view))
    position = 0
    next_offset = first_offset
    for header in validated.headers:
        header.base_offset = next_offset
        header.partition_leader_epoch = leader_epoch
        size = header.size_in_bytes
        _OFFSET_SIZE_EPOCH.pack_into(view, position, next_offset, size - LOG_OVERHEAD, leader_epoch)
        position += size
        next_offset += header.last_offset_delta + 1
    if validated.offset_of_max_timestamp >= 0:
        validated.offset_of_max_timestamp += first_offset
    return next_offset


def validate_replicated(records: Buffer) -> Validated:
    """Batches that another replica, or this one before a crash, has already validated: frames and
    checksums only. A batch that the buffer cuts off at its end is left out."""
    view = memoryview(records)
    headers: list[BatchHeader] = []
    size = record_count = 0
    max_timestamp = offset_of_max_timestamp = -1
    try:
        for header, start, end in iterate_batches(view, partial_tail=True):
            verify_crc(view, header, start)
            size = end
            headers.append(header)
            record_count += header.record_count
            if header.max_timestamp > max_timestamp:
                max_timestamp = header.max_timestamp
                offset_of_max_timestamp = header.last_offset
    except (CorruptBatch, UnsupportedMagic) as error:
        raise RecordsRefused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    return Validated(view[:size], headers, record_count, max_timestamp, offset_of_max_timestamp)
