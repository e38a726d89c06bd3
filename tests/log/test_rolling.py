"""When a segment ends: by size, by time, by the size of its indexes, by the reach of its offsets."""

from __future__ import annotations

import random

import pytest

from barnabas.config.topic import LogConfig
from barnabas.log.log import Log
from barnabas.record.build import build_batch
from barnabas.wire.errors import ApiError, ErrorCode
from tests.log.batches import NOW_MS, batch, open_log, read_all
from tests.log.simulated_disk import SimulatedDisk

HOUR_MS = 3_600_000


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_by_size() -> None:
    size = len(batch(b"x"))
    log = open_log(SimulatedDisk(), LogConfig(internal_segment_bytes=3 * size))
    for _ in range(7):
        log.append_as_leader(batch(b"x"), 0, NOW_MS)
    assert bases(log) == [0, 3, 6]
    assert [segment.size for segment in log.segments] == [3 * size, 3 * size, size]


def test_what_no_segment_can_hold_is_refused() -> None:
    log = open_log(SimulatedDisk(), LogConfig(internal_segment_bytes=100))
    with pytest.raises(ApiError) as refusal:
        log.append_as_leader(batch(b"x" * 100), 0, NOW_MS)
    assert refusal.value.code == ErrorCode.RECORD_LIST_TOO_LARGE


def test_by_the_time_of_records() -> None:
    """From the first batch's timestamp on, whatever the clock says."""
    log = open_log(SimulatedDisk(), LogConfig(segment_ms=HOUR_MS))
    for late_ms in (0, HOUR_MS, HOUR_MS + 1, 2 * HOUR_MS):
        log.append_as_leader(batch(b"x", timestamp_ms=NOW_MS + late_ms), 0, NOW_MS + late_ms)
    assert bases(log) == [0, 2]
    old = batch(b"x", timestamp_ms=NOW_MS - 5 * HOUR_MS)
    log.append_as_leader(old, 0, NOW_MS + 9 * HOUR_MS)
    assert bases(log) == [0, 2], "a record from the past does not end a segment"


def test_by_the_clock_where_records_have_no_time() -> None:
    log = open_log(SimulatedDisk(), LogConfig(segment_ms=HOUR_MS))
    for late_ms in (0, HOUR_MS, HOUR_MS + 1):
        log.append_as_leader(batch(b"x", timestamp_ms=-1), 0, NOW_MS + late_ms)
    assert bases(log) == [0, 2]


def test_time_counts_on_after_a_restart() -> None:
    disk = SimulatedDisk()
    config = LogConfig(segment_ms=HOUR_MS)
    log = open_log(disk, config)
    log.append_as_leader(batch(b"x"), 0, NOW_MS)
    log.close()
    log = open_log(disk, config, clean=True, now_ms=NOW_MS + HOUR_MS)
    later = batch(b"x", timestamp_ms=NOW_MS + HOUR_MS + 1)
    log.append_as_leader(later, 0, NOW_MS + HOUR_MS + 1)
    assert bases(log) == [0, 1]


def test_jitter_spreads_the_ends_of_segments() -> None:
    config = LogConfig(segment_ms=HOUR_MS, segment_jitter_ms=HOUR_MS // 2)
    jitters = set()
    for seed in range(20):
        log = open_log(SimulatedDisk(), config, randomness=random.Random(seed))
        jitters.add(log.segments[-1].jitter_ms)
        ends = NOW_MS + HOUR_MS - log.segments[-1].jitter_ms
        for timestamp_ms in (NOW_MS, ends, ends + 1):
            log.append_as_leader(batch(b"x", timestamp_ms=timestamp_ms), 0, timestamp_ms)
        assert bases(log) == [0, 2]
        jitters.add(log.segments[-1].jitter_ms)
    assert len(jitters) > 20
    assert all(0 <= jitter < HOUR_MS // 2 for jitter in jitters)


def test_by_the_fullness_of_an_index() -> None:
    """An entry after every batch but the first; the time index keeps one entry free."""
    config = LogConfig(index_interval_bytes=0, segment_index_bytes=48)
    same = open_log(SimulatedDisk(), config)
    for _ in range(10):
        same.append_as_leader(batch(b"x"), 0, NOW_MS)
    assert bases(same) == [0, 7], "six entries of eight bytes"
    rising = open_log(SimulatedDisk(), config)
    for number in range(10):
        rising.append_as_leader(batch(b"x", timestamp_ms=NOW_MS + number), 0, NOW_MS)
    assert bases(rising) == [0, 4, 8], "three of twelve bytes, and one free"


def test_by_the_reach_of_offsets() -> None:
    """Indexes keep offsets as int32 from the segment's first one."""
    disk = SimulatedDisk()
    config = LogConfig(cleanup_policy=frozenset(("compact",)), index_interval_bytes=0)
    log = open_log(disk, config)
    offsets = [0, 1, 2**31 - 1, 2**31, 2**31 + 7, 2**33, 2**33 + 1]
    for offset in offsets:
        data = build_batch([(NOW_MS, b"k", b"v", ())], base_offset=offset, partition_leader_epoch=0)
        log.append_as_follower(data, NOW_MS)
    assert bases(log) == [0, 2**31, 2**33]
    assert [record.offset for record in read_all(log)] == offsets
    log.close()
    log = open_log(disk, config, clean=True)
    assert [record.offset for record in read_all(log)] == offsets
    assert log.log_end_offset == 2**33 + 2


def test_an_empty_segment_stays() -> None:
    log = open_log(SimulatedDisk())
    log.roll(NOW_MS)
    assert bases(log) == [0]
