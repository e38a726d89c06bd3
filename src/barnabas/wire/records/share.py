"""What the share coordinator keeps in `__share_group_state`: delivery state of share-partitions.

A snapshot holds the whole state; the updates after it hold only what changed.
"""

from __future__ import annotations

from barnabas.wire.fields import array, int8, int16, int32, int64, string, uuid
from barnabas.wire.message import Message, Struct
from barnabas.wire.records.coordinator import Registry, registry


class ShareSnapshotKey(Message):
    RECORD_TYPE = 0
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group_id: str = string()
    topic_id: bytes = uuid()
    partition: int = int32()


class StateBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class ShareSnapshotValue(Message):
    RECORD_TYPE = 0
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    snapshot_epoch: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0)
    create_timestamp: int = int64()
    write_timestamp: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


class ShareUpdateKey(Message):
    RECORD_TYPE = 1
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group_id: str = string()
    topic_id: bytes = uuid()
    partition: int = int32()


class ShareUpdateValue(Message):
    RECORD_TYPE = 1
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    snapshot_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0)
    state_batches: list[StateBatch] = array(StateBatch)


RECORDS: Registry = registry(
    (
        (ShareSnapshotKey, ShareSnapshotValue),
        (ShareUpdateKey, ShareUpdateValue),
    )
)
"""Key and value classes by record type."""
