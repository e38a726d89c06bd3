"""Control records: what the cluster writes for itself."""

from __future__ import annotations

import pytest
from kafka.record.memory_records import MemoryRecords

from barnabas.record.batch import read_header
from barnabas.record.build import build_batch
from barnabas.record.control import (
    ControlType,
    EndTransactionMarker,
    build_control_batch,
    build_end_transaction_marker,
    control_key,
    read_control_key,
    read_control_records,
    read_end_transaction_marker,
)
from barnabas.record.errors import InvalidRecords


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_markers(kind):
    batch = build_end_transaction_marker(
        EndTransactionMarker(kind, 12),
        producer_id=90,
        producer_epoch=4,
        timestamp_ms=1000,
        base_offset=33,
    )
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (90, 4, -1)
    (record,) = read_control_records(batch, header)
    assert (record.offset, record.timestamp, record.type) == (33, 1000, kind)
    assert read_end_transaction_marker(record) == EndTransactionMarker(kind, 12)

    (theirs,) = next(iter(MemoryRecords(bytes(batch))))
    assert theirs.commit == (kind is ControlType.COMMIT)
    assert theirs.abort == (kind is ControlType.ABORT)


def test_records_of_the_raft_log():
    records = [(ControlType.SNAPSHOT_HEADER, b"one"), (ControlType.KRAFT_VOTERS, b"two")]
    batch = build_control_batch(records, timestamp_ms=5, base_offset=2, partition_leader_epoch=9)
    header = read_header(batch)
    assert not header.is_transactional
    assert header.partition_leader_epoch == 9
    found = read_control_records(batch, header)
    assert [(record.type, record.value) for record in found] == records


def test_keys_of_later_versions():
    assert control_key(ControlType.COMMIT) == b"\0\0\0\1"
    assert read_control_key(b"\0\1\0\1more") is ControlType.COMMIT
    assert read_control_key(b"\0\0\0\x63") is ControlType.UNKNOWN


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_keys_that_are_none(key):
    with pytest.raises(InvalidRecords):
        read_control_key(key)


@pytest.mark.parametrize("value", [None, b"\0\0\0\0", b"\xff\xff\0\0\0\0"])
def test_markers_that_are_none(value):
    batch = build_batch([(0, control_key(ControlType.ABORT), value, ())], is_control=True)
    (record,) = read_control_records(batch, read_header(batch))
    with pytest.raises(InvalidRecords):
        read_end_transaction_marker(record)


def test_only_commit_and_abort_end_a_transaction():
    with pytest.raises(ValueError, match="does not end"):
        build_end_transaction_marker(
            EndTransactionMarker(ControlType.LEADER_CHANGE, 0),
            producer_id=1,
            producer_epoch=0,
            timestamp_ms=0,
        )
    batch = build_control_batch([(ControlType.LEADER_CHANGE, b"")], timestamp_ms=0)
    (record,) = read_control_records(batch, read_header(batch))
    with pytest.raises(InvalidRecords):
        read_end_transaction_marker(record)


def test_a_data_batch_has_no_control_records():
    batch = build_batch([(0, b"\0\0\0\1", b"", ())])
    with pytest.raises(InvalidRecords):
        read_control_records(batch, read_header(batch))
