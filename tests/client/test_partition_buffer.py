"""What a reader of one partition is given of what was fetched."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.core.partition_buffer import PartitionBuffer
from barnabas.client.errors import CorruptRecordsError, PoisonRecordError
from barnabas.client.kernels_consumer import ConsumerRecord, FetchedRecords
from barnabas.client.serialization import deserializer
from barnabas.record.build import build_batch
from barnabas.record.compression import Codec
from barnabas.record.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
)
from barnabas.record.kernels import ColumnsBuilder


def batch(first: int, count: int, **more: Any) -> bytearray:
    return build_batch(
        [(0, None, b"%d" % (first + i), ()) for i in range(count)], base_offset=first, **more
    )


def buffer(*batches: bytes | bytearray, position: int = 0, **more: Any) -> PartitionBuffer:
    found = PartitionBuffer("t", 0, **{"read_committed": False, "check_crcs": True, **more})
    found.position = position
    add(found, *batches)
    return found


def add(found: PartitionBuffer, *batches: bytes | bytearray, aborted: Any = ()) -> None:
    if batches:
        found.add(FetchedRecords("t", 0, b"".join(batches)), aborted)


def offsets(found: PartitionBuffer, limit: int = 100) -> list[int]:
    records: list[ConsumerRecord] = []
    found.take(records, limit)
    return [record.offset for record in records]


def test_records_below_the_position_are_passed_over() -> None:
    found = buffer(batch(0, 5), batch(5, 2), position=2)
    assert offsets(found) == [2, 3, 4, 5, 6]
    assert found.position == 7
    assert found.bytes == 0
    assert found.is_empty


def test_a_limit_cuts_a_batch_and_nothing_is_lost() -> None:
    found = buffer(batch(0, 5), batch(5, 2))
    assert offsets(found, 2) == [0, 1]
    assert found.position == 2
    assert offsets(found, 2) == [2, 3]
    assert offsets(found) == [4, 5, 6]


def test_the_position_moves_past_what_was_compacted_away() -> None:
    gone = build_batch([], base_offset=3, last_offset=9)
    last = build_batch([(0, None, b"x", ())], base_offset=10, offsets=[12], last_offset=14)
    found = buffer(batch(0, 3), gone, last)
    assert offsets(found) == [0, 1, 2, 12]
    assert found.position == 15


def test_the_epoch_is_that_of_what_was_read_last() -> None:
    found = buffer(batch(0, 2, partition_leader_epoch=4), batch(2, 2, partition_leader_epoch=5))
    assert offsets(found, 1) == [0]
    assert found.epoch == 4
    assert offsets(found) == [1, 2, 3]
    assert found.epoch == 5


def test_bytes_are_counted_until_they_are_opened() -> None:
    first, second = batch(0, 2), batch(2, 2)
    found = buffer(first, second)
    assert found.bytes == len(first) + len(second)
    offsets(found, 1)
    assert found.bytes == len(second)
    found.clear()
    assert found.bytes == 0
    assert found.is_empty


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec(codec: Codec) -> None:
    found = buffer(batch(0, 50, codec=codec), batch(50, 50, codec=codec), position=20)
    assert offsets(found) == list(range(20, 100))


def in_transaction(first: int, producer: int) -> bytearray:
    return batch(
        first, 2, producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True
    )


def marker(offset: int, producer: int, kind: ControlType) -> bytearray:
    return build_end_transaction_marker(
        EndTransactionMarker(kind, 0),
        producer_id=producer,
        producer_epoch=0,
        timestamp_ms=0,
        base_offset=offset,
    )


LOG = [
    in_transaction(0, 7),
    in_transaction(2, 8),
    marker(4, 7, ControlType.ABORT),
    marker(5, 8, ControlType.COMMIT),
    in_transaction(6, 7),
    marker(8, 7, ControlType.COMMIT),
    batch(9, 1),
]


def test_read_committed_passes_over_aborted_transactions_only() -> None:
    found = buffer(read_committed=True)
    add(found, *LOG, aborted=[(0, 7)])
    assert offsets(found) == [2, 3, 6, 7, 9]
    assert offsets(buffer(*LOG)) == [0, 1, 2, 3, 6, 7, 9]


def test_an_aborted_transaction_over_two_answers() -> None:
    found = buffer(read_committed=True)
    add(found, *LOG[:1], aborted=[(0, 7)])
    add(found, *LOG[1:], aborted=[(0, 7)])
    assert offsets(found) == [2, 3, 6, 7, 9]


def test_a_producer_that_aborts_twice() -> None:
    log = [
        in_transaction(0, 7),
        marker(2, 7, ControlType.ABORT),
        in_transaction(3, 7),
        marker(5, 7, ControlType.COMMIT),
        in_transaction(6, 7),
        marker(8, 7, ControlType.ABORT),
    ]
    found = buffer(read_committed=True)
    add(found, *log, aborted=[(6, 7), (0, 7)])
    assert offsets(found) == [3, 4]
    assert found.position == 9


def test_a_damaged_batch_is_told_after_what_is_before_it() -> None:
    bad = batch(3, 2)
    bad[-1] ^= 1
    found = buffer(batch(0, 3), bad, batch(5, 1))
    assert offsets(found) == [0, 1, 2]
    with pytest.raises(CorruptRecordsError) as caught:
        offsets(found)
    assert (caught.value.offset, caught.value.next_offset) == (3, 5)
    assert caught.value.raw == bytes(bad)
    assert "crc" in str(caught.value)
    assert found.position == 3
    assert found.is_empty


def test_a_broken_frame_is_told_as_well() -> None:
    bad = batch(3, 2)
    bad[16] = 1
    found = buffer(batch(0, 3), bad)
    assert offsets(found) == [0, 1, 2]
    with pytest.raises(CorruptRecordsError, match="message format 1"):
        offsets(found)
    assert found.position == 3


def test_checksums_may_be_left_out() -> None:
    bad = batch(0, 1)
    bad[-2] ^= 1
    assert offsets(buffer(bad, check_crcs=False)) == [0]


def test_a_poison_record_is_passed_over_when_asked() -> None:
    number = deserializer(int, "value")
    wrong = build_batch([(0, None, v, ()) for v in (b"1", b"two", b"3")])
    found = buffer(wrong)
    records: list[ConsumerRecord] = []
    assert found.take(records, 9, None, number) == 1
    for _ in range(2):
        with pytest.raises(PoisonRecordError) as caught:
            found.take(records, 9, None, number)
        assert caught.value.offset == found.position == 1
        assert caught.value.field == "value"
        assert caught.value.record is not None
        assert caught.value.record.value == b"two"
        assert isinstance(caught.value.__cause__, ValueError)
    assert found.skip_record().value == b"two"
    found.take(records, 9, None, number)
    assert [r.value for r in records] == [1, 3]
    assert found.position == 3


@pytest.mark.parametrize("limit", [2, 100])
def test_columns_meet_damage_where_records_do(limit: int) -> None:
    bad = batch(3, 3)
    bad[61 + 2] = 0x7F  # the first record's offset, which then is no number
    bad[61] = 0x7E
    found = buffer(batch(0, 3), bad, check_crcs=False)
    columns, runs = ColumnsBuilder(), []
    while columns.record_count < 3:
        found.take_columns(columns, limit, runs, 1 << 20)
    with pytest.raises(CorruptRecordsError) as caught:
        found.take_columns(columns, limit, runs, 1 << 20)
    assert columns.record_count == 3
    assert sum(run[3] for run in runs) == 3
    assert (caught.value.offset, caught.value.next_offset) == (3, 6)
    assert caught.value.raw == bytes(bad)
    assert found.is_empty


def test_columns_of_one_partition_are_one_run() -> None:
    found = buffer(batch(0, 3), batch(3, 3), batch(6, 3))
    columns, runs = ColumnsBuilder(), []
    assert found.take_columns(columns, 7, runs, 1 << 20) == 7
    assert runs == [("t", 0, 0, 7)]
    assert found.position == 7
    assert offsets(found) == [7, 8]


def test_columns_end_at_their_bound() -> None:
    found = buffer(batch(0, 3), batch(3, 3), batch(6, 3))
    columns, runs = ColumnsBuilder(), []
    assert found.take_columns(columns, 100, runs, 4) == 6
    assert found.position == 6
