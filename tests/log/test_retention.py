"""What is removed when: by age, by size, by the log start offset."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.config.topic import LogConfig
from barnabas.log.log import Log
from barnabas.wire.errors import ApiError, ErrorCode
from tests.log.batches import DIRECTORY, NOW_MS, batch, open_log, read_all, write
from tests.log.simulated_disk import SimulatedDisk

HOUR_MS = 3_600_000
KEEP = LogConfig(retention_ms=-1, message_timestamp_after_max_ms=1000 * HOUR_MS)


def make(config: LogConfig, *ages_ms: int, disk: SimulatedDisk | None = None) -> Log:
    """A log with one segment a record, each of that age."""
    log = open_log(disk or SimulatedDisk(), KEEP)
    for number, age_ms in enumerate(ages_ms):
        if number:
            log.roll(NOW_MS)
        write(log, batch(b"%d" % number, timestamp_ms=NOW_MS - age_ms))
    log.update_config(config)
    return log


def test_by_time_from_the_front_only() -> None:
    log = make(LogConfig(retention_ms=HOUR_MS), 5 * HOUR_MS, HOUR_MS + 1, HOUR_MS, 3 * HOUR_MS, 0)
    assert log.delete_old_segments(NOW_MS) == 2
    assert log.log_start_offset == 2
    assert [record.offset for record in read_all(log)] == [2, 3, 4]
    assert log.delete_old_segments(NOW_MS) == 0


def test_timestamps_in_the_future_wait_until_they_are_old() -> None:
    log = make(LogConfig(retention_ms=HOUR_MS), -50 * HOUR_MS, 9 * HOUR_MS, 0)
    assert log.delete_old_segments(NOW_MS) == 0
    assert log.delete_old_segments(NOW_MS + 51 * HOUR_MS) == 0
    assert log.delete_old_segments(NOW_MS + 51 * HOUR_MS + 1) == 3


def test_records_without_time_are_as_old_as_their_file() -> None:
    disk = SimulatedDisk()
    disk.now_ms = NOW_MS - 2 * HOUR_MS
    log = open_log(disk, LogConfig(retention_ms=HOUR_MS))
    write(log, batch(b"1", timestamp_ms=-1))
    log.roll(NOW_MS)
    disk.now_ms = NOW_MS
    write(log, batch(b"2", timestamp_ms=-1))
    assert log.delete_old_segments(NOW_MS) == 1
    assert log.log_start_offset == 1


def test_when_all_is_old_the_active_segment_goes_too() -> None:
    disk = SimulatedDisk()
    log = make(LogConfig(retention_ms=HOUR_MS), 3 * HOUR_MS, 2 * HOUR_MS, disk=disk)
    assert log.delete_old_segments(NOW_MS) == 2
    assert (log.log_start_offset, log.log_end_offset) == (2, 2)
    assert [segment.base_offset for segment in log.segments] == [2]
    assert log.delete_old_segments(NOW_MS + 9 * HOUR_MS) == 0, "the empty segment stays"
    assert write(log, batch(b"x")).first_offset == 2
    log.close()
    log = open_log(disk, clean=True)
    assert (log.log_start_offset, log.log_end_offset) == (2, 3)


def test_by_size_whole_segments_only() -> None:
    size = len(batch(b"0"))
    log = make(replace(KEEP, retention_bytes=2 * size), 0, 0, 0, 0)
    log.update_config(replace(KEEP, retention_bytes=4 * size))
    assert log.delete_old_segments(NOW_MS) == 0
    log.update_config(replace(KEEP, retention_bytes=2 * size + 1))
    assert log.delete_old_segments(NOW_MS) == 1
    log.update_config(replace(KEEP, retention_bytes=2 * size - 1))
    assert log.delete_old_segments(NOW_MS) == 1
    assert log.log_start_offset == 2
    log.update_config(replace(KEEP, retention_bytes=0))
    assert log.delete_old_segments(NOW_MS) == 2
    assert log.log_start_offset == 4


def test_nothing_uncommitted_goes() -> None:
    log = open_log(SimulatedDisk(), LogConfig(retention_ms=0, retention_bytes=0))
    for _ in range(3):
        log.append_as_leader(batch(b"x"), 0, NOW_MS)
        log.roll(NOW_MS)
    log.update_high_watermark(2)
    assert log.delete_old_segments(NOW_MS + 1) == 2
    assert log.log_start_offset == 2


def test_compacted_logs_lose_only_what_is_below_their_start() -> None:
    log = make(LogConfig(cleanup_policy=frozenset(("compact",)), retention_ms=0), 9, 9, 9)
    assert log.delete_old_segments(NOW_MS) == 0
    log.increment_log_start_offset(2)
    assert log.delete_old_segments(NOW_MS) == 2


def test_files_are_renamed_then_removed_after_the_delay() -> None:
    disk = SimulatedDisk()
    config = LogConfig(retention_ms=HOUR_MS, file_delete_delay_ms=1000)
    log = make(config, 2 * HOUR_MS, 0, disk=disk)
    reader = log.read(0, 1000, 1, True).records
    log.delete_old_segments(NOW_MS)
    names = disk.list(DIRECTORY)
    assert f"{0:020d}.log.deleted" in names
    assert f"{0:020d}.log" not in names
    assert log.take_doomed(NOW_MS + 999) == []
    (doomed,) = log.take_doomed(NOW_MS + 1000)
    doomed.remove_files()
    assert not any(name.endswith(".deleted") for name in disk.list(DIRECTORY))
    assert not isinstance(reader, bytes)
    assert len(reader.read()) == len(reader), "who was reading goes on"


@pytest.mark.parametrize("cut_after", range(8))
def test_a_crash_while_segments_are_removed(cut_after: int) -> None:
    disk = SimulatedDisk()
    log = make(LogConfig(retention_ms=HOUR_MS), 2 * HOUR_MS, 2 * HOUR_MS, 0, disk=disk)
    left = cut_after

    def fails(operation: str, path: str) -> bool:
        nonlocal left
        if operation in ("rename", "remove"):
            left -= 1
        return left < 0

    disk.fails = fails
    try:
        log.delete_old_segments(NOW_MS)
    except OSError:
        log.abandon()
    disk.fails = lambda operation, path: False
    log = open_log(disk)
    offsets = [record.offset for record in read_all(log)]
    assert offsets in ([0, 1, 2], [1, 2], [2])
    assert offsets[0] == log.log_start_offset
    assert not any(name.endswith(".deleted") for name in disk.list(DIRECTORY))


class TestDeleteRecords:
    def test_records_go_at_once_and_their_segments_later(self) -> None:
        log = make(KEEP, 0, 0, 0)
        assert log.increment_log_start_offset(2)
        assert len(log.segments) == 3
        with pytest.raises(ApiError) as refused:
            log.read(1, 100, 3, True)
        assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert log.delete_old_segments(NOW_MS) == 2
        assert [record.offset for record in read_all(log)] == [2]

    def test_inside_a_batch(self) -> None:
        log = open_log(SimulatedDisk())
        write(log, batch(b"1", b"2", b"3"))
        log.increment_log_start_offset(1)
        assert [record.offset for record in read_all(log)] == [1, 2]
        found = log.find_offset_by_timestamp(0)
        assert found is not None
        assert found.offset == 1

    def test_not_beyond_the_high_watermark_and_never_back(self) -> None:
        log = make(KEEP, 0, 0)
        log.append_as_leader(batch(b"x"), 0, NOW_MS)
        with pytest.raises(ApiError) as refused:
            log.increment_log_start_offset(3)
        assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert log.increment_log_start_offset(2)
        assert not log.increment_log_start_offset(1)
        assert log.log_start_offset == 2

    def test_the_epochs_begin_where_the_log_does(self) -> None:
        log = open_log(SimulatedDisk())
        for epoch in (3, 3, 5, 5):
            log.append_as_leader(batch(b"x"), epoch, NOW_MS)
        log.update_high_watermark(4)
        log.increment_log_start_offset(1)
        assert log.epochs.entries() == [(3, 1), (5, 2)]
        log.increment_log_start_offset(3)
        assert log.epochs.entries() == [(5, 3)]


class TestMaxTimestamp:
    def test_the_first_of_the_latest(self) -> None:
        log = make(KEEP, 5, 3, 4, 3)
        found = log.find_max_timestamp()
        assert found is not None
        assert (found.offset, found.timestamp_ms) == (1, NOW_MS - 3)

    def test_of_an_empty_log_there_is_none(self) -> None:
        log = open_log(SimulatedDisk())
        assert log.find_max_timestamp() is None
        assert log.find_offset_by_timestamp(0) is None
