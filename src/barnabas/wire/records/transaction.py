"""What the transaction coordinator keeps in `__transaction_state`, and the markers it writes.

A marker is a control record in the partitions of a transaction: `ControlRecordTypeSchema` is its
key and `EndTxnMarker` its value, each with an int16 version in front.
"""

from __future__ import annotations

from barnabas.wire.fields import array, int8, int16, int32, int64, string
from barnabas.wire.message import Message, Struct
from barnabas.wire.records.coordinator import Registry, registry


class TransactionLogKey(Message):
    RECORD_TYPE = 0
    VERSIONS = (0, 0)
    FLEXIBLE = None

    transactional_id: str = string()


class PartitionsSchema(Struct):
    topic: str = string()
    partition_ids: list[int] = array(int32)


class TransactionLogValue(Message):
    RECORD_TYPE = 0
    VERSIONS = (0, 1)
    FLEXIBLE = (1, 1)

    producer_id: int = int64()
    previous_producer_id: int = int64("1+", default=-1, tag=0)
    next_producer_id: int = int64("1+", default=-1, tag=1)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16("1+", default=-1, tag=3)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable=True)
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16("1+", tag=2)


class EndTxnMarker(Message):
    VERSIONS = (0, 0)
    FLEXIBLE = None

    coordinator_epoch: int = int32()


class ControlRecordTypeSchema(Message):
    VERSIONS = (0, 0)
    FLEXIBLE = None

    type: int = int16()


RECORDS: Registry = registry(((TransactionLogKey, TransactionLogValue),))
"""Key and value classes by record type."""
