"""Control records: what the cluster writes into logs for itself, in batches no client may send.

A control batch has one record (snapshots may have several). Its key is `version:int16 type:int16`;
its value depends on the type: transaction markers have `version:int16 coordinator_epoch:int32`, the
types of the Raft log have a message of their own. A type that this code does not know is
`ControlType.UNKNOWN` and is passed over by readers, as Kafka does: newer nodes may add some.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from barnabas.record.batch import NO_PARTITION_LEADER_EPOCH, BatchHeader, Buffer
from barnabas.record.build import build_batch
from barnabas.record.errors import InvalidRecords
from barnabas.record.read import batch_records

_KEY = Struct(">hh")
_KEY_VERSION = 0
_END_TRANSACTION = Struct(">hi")
_END_TRANSACTION_VERSION = 0
_VERSION = Struct(">h")


class ControlType(IntEnum):
    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ControlRecord(NamedTuple):
    offset: int
    timestamp: int
    type: ControlType
    value: bytes


class EndTransactionMarker(NamedTuple):
    type: ControlType
    coordinator_epoch: int


def control_key(control_type: ControlType) -> bytes:
    return _KEY.pack(_KEY_VERSION, control_type)


def read_control_key(key: bytes | None) -> ControlType:
    """The type a control record's key names. A longer key or a later version is still readable."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecords("a control record without a whole key")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecords(f"invalid version {version} of a control record's key")
    try:
        return ControlType(number)
    except ValueError:
        return ControlType.UNKNOWN


def build_control_batch(
    records: Iterable[tuple[ControlType, bytes]],
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytearray:
    """A batch of the Raft log's own records, each a type and its encoded message."""
    return build_batch(
        [(timestamp_ms, control_key(kind), value, ()) for kind, value in records],
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        is_control=True,
    )


def build_end_transaction_marker(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytearray:
    """The batch that ends a producer's transaction in one partition."""
    if marker.type not in (ControlType.COMMIT, ControlType.ABORT):
        raise ValueError(f"{marker.type!r} does not end a transaction")
    value = _END_TRANSACTION.pack(_END_TRANSACTION_VERSION, marker.coordinator_epoch)
    return build_batch(
        [(timestamp_ms, control_key(marker.type), value, ())],
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def read_control_records(
    buffer: Buffer, header: BatchHeader, start: int = 0
) -> list[ControlRecord]:
    """The records of the control batch at `start`."""
    if not header.is_control:
        raise InvalidRecords("not a control batch")
    return [
        ControlRecord(offset, timestamp, read_control_key(key), value or b"")
        for offset, timestamp, key, value, _headers in batch_records(buffer, header, start)
    ]


def read_end_transaction_marker(record: ControlRecord) -> EndTransactionMarker:
    """The marker in a COMMIT or ABORT record; fields that later versions add are passed over."""
    if record.type not in (ControlType.COMMIT, ControlType.ABORT):
        raise InvalidRecords(f"a {record.type.name} record does not end a transaction")
    if len(record.value) < _END_TRANSACTION.size:
        raise InvalidRecords("an end of transaction without a coordinator epoch")
    version, coordinator_epoch = _END_TRANSACTION.unpack_from(record.value)
    if version < 0:
        raise InvalidRecords(f"invalid version {version} of an end-of-transaction marker")
    return EndTransactionMarker(record.type, coordinator_epoch)
