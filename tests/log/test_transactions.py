"""What read-committed consumers may see, and what they are told to drop."""

from __future__ import annotations

import pytest

from barnabas.config.topic import LogConfig
from barnabas.log.log import AppendOrigin, Log
from barnabas.log.transaction_index import AbortedTransaction
from barnabas.wire.errors import ApiError, ErrorCode
from tests.log.batches import NOW_MS, batch, marker, open_log, write
from tests.log.simulated_disk import SimulatedDisk


def begin(log: Log, producer: int, sequence: int = 0, *, epoch: int = 0) -> int:
    data = batch(b"x", producer=(producer, epoch, sequence), transactional=True)
    return write(log, data).first_offset


def end(log: Log, producer: int, *, commit: bool, epoch: int = 0, coordinator: int = 0) -> int:
    data = marker(producer, epoch, commit=commit, coordinator_epoch=coordinator)
    return write(log, data, AppendOrigin.COORDINATOR).first_offset


def aborted(log: Log, offset: int = 0) -> list[tuple[int, int]]:
    result = log.read(offset, 1 << 20, log.last_stable_offset, True, with_aborted=True)
    return [(each.producer_id, each.first_offset) for each in result.aborted_transactions]


def test_nothing_at_or_above_the_oldest_open_transaction_is_stable() -> None:
    log = open_log(SimulatedDisk())
    write(log, batch(b"x"))
    begin(log, 1)
    begin(log, 2)
    write(log, batch(b"x"))
    assert (log.last_stable_offset, log.high_watermark) == (1, 4)
    end(log, 1, commit=True)
    assert log.last_stable_offset == 2
    end(log, 2, commit=False)
    assert log.last_stable_offset == log.high_watermark == 6


def test_a_marker_counts_when_it_is_committed() -> None:
    log = open_log(SimulatedDisk())
    begin(log, 1)
    data = marker(1, 0, commit=True)
    log.append_as_leader(data, 0, NOW_MS, AppendOrigin.COORDINATOR)
    assert (log.high_watermark, log.last_stable_offset) == (1, 0)
    log.update_high_watermark(2)
    assert log.last_stable_offset == 2


def test_the_stable_offset_never_falls_below_the_start() -> None:
    """DeleteRecords may take the beginning of a transaction that is still open."""
    disk = SimulatedDisk()
    log = open_log(disk)
    begin(log, 1)
    for _ in range(4):
        write(log, batch(b"x"))
    log.increment_log_start_offset(3)
    assert log.last_stable_offset == 3
    log.close()
    log = open_log(disk, clean=True, log_start_offset=3, high_watermark=5)
    assert (log.log_start_offset, log.last_stable_offset, log.high_watermark) == (3, 3, 5)
    end(log, 1, commit=True)
    assert log.last_stable_offset == 6


@pytest.mark.parametrize("orderly", [True, False])
def test_aborted_transactions_are_found_over_segments_and_restarts(orderly: bool) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    begin(log, 1)
    begin(log, 2)
    log.roll(NOW_MS)
    end(log, 1, commit=False)
    begin(log, 3)
    end(log, 2, commit=True)
    log.roll(NOW_MS)
    end(log, 3, commit=False)
    for _ in range(2):
        assert log.aborted_transactions(0, 6) == [
            AbortedTransaction(1, 0, 2, 1),
            AbortedTransaction(3, 3, 5, 6),
        ]
        assert aborted(log) == [(1, 0)], "the read ends with its segment"
        assert aborted(log, 2) == [(1, 0), (3, 3)]
        assert aborted(log, 5) == [(3, 3)]
        assert log.aborted_transactions(0, 3) == [AbortedTransaction(1, 0, 2, 1)]
        if orderly:
            log.close()
        else:
            log.abandon()
        disk.kill()
        log = open_log(disk, clean=orderly, high_watermark=6)


def test_an_open_transaction_survives_a_crash() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    write(log, batch(b"x"))
    begin(log, 1)
    log.roll(NOW_MS)
    write(log, batch(b"x"))
    log.abandon()
    log = open_log(disk, high_watermark=3)
    assert log.last_stable_offset == 1
    assert log.active_producers()[0].current_txn_first_offset == 1
    end(log, 1, commit=False)
    assert log.last_stable_offset == 4
    assert aborted(log, 1) == [(1, 1)]


def test_truncation_takes_markers_and_their_entries_back() -> None:
    log = open_log(SimulatedDisk())
    begin(log, 1)
    end(log, 1, commit=False)
    begin(log, 1, 1)
    log.truncate_to(1)
    assert log.aborted_transactions(0, 10) == []
    assert log.active_producers()[0].current_txn_first_offset == 0


def test_fencing_of_producers_and_coordinators() -> None:
    log = open_log(SimulatedDisk())
    begin(log, 1, epoch=5)
    with pytest.raises(ApiError) as refused:
        end(log, 1, commit=True, epoch=4)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    end(log, 1, commit=True, epoch=6, coordinator=3)
    with pytest.raises(ApiError) as refused:
        begin(log, 1, 1, epoch=5)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(ApiError) as refused:
        end(log, 1, commit=True, epoch=6, coordinator=2)
    assert refused.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_plain_records_do_not_mix_into_a_transaction() -> None:
    log = open_log(SimulatedDisk())
    begin(log, 1)
    with pytest.raises(ApiError) as refused:
        write(log, batch(b"x", producer=(1, 0, 1)))
    assert refused.value.code == ErrorCode.INVALID_TXN_STATE


def test_retention_takes_the_index_with_the_segment() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, LogConfig(retention_bytes=0, file_delete_delay_ms=0))
    begin(log, 1)
    end(log, 1, commit=False)
    assert any(name.endswith(".txnindex") for name in disk.list("/data/t-0"))
    assert log.delete_old_segments(NOW_MS) == 1
    for segment in log.take_doomed(NOW_MS):
        segment.remove_files()
    assert not any(".txnindex" in name for name in disk.list("/data/t-0"))
    assert log.aborted_transactions(0, 10) == []
