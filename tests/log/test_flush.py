"""Flushing in threads while the loop goes on: nothing is claimed that is not durable."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from barnabas.config.topic import LogConfig
from barnabas.log.log import Log
from barnabas.log.manager import LogManager
from tests.log.background import HeldBackground
from tests.log.batches import DIRECTORY, NOW_MS, batch, open_log, read_all
from tests.log.simulated_disk import SimulatedDisk
from tests.log.test_compaction import TestClock as Clock

ID = b"\1" * 16


class Node:
    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.background = HeldBackground()
        self.failed: list[str] = []
        self.logs = LogManager(
            self.disk,
            self.background,
            ["/data"],
            config_of=lambda topic: LogConfig(flush_ms=100),
            clock=Clock(),
            randomness=random.Random(3),
        )
        self.logs.load()
        self.logs.failed = lambda path, error: self.failed.append(path)
        self.log = self.logs.get_or_create("t", 0, ID)

    def append(self, value: bytes, now_ms: int = NOW_MS) -> None:
        self.log.append_as_leader(batch(value), 0, now_ms)


def test_what_is_appended_during_a_flush_waits_for_the_next() -> None:
    node = Node()
    node.append(b"1")
    node.logs.flush_dirty(NOW_MS + 100)
    node.background.run(between=lambda: node.append(b"2", NOW_MS + 110))
    assert node.log.flushed_offset == 1
    assert node.log.unflushed_since_ms is not None
    node.logs.flush_dirty(NOW_MS + 210)
    node.background.run()
    assert (node.log.flushed_offset, node.log.unflushed_since_ms) == (2, None)


@pytest.mark.parametrize("early", [True, False])
def test_a_log_that_is_deleted_during_a_flush_fails_no_directory(early: bool) -> None:
    node = Node()
    node.append(b"1")
    node.logs.flush_dirty(NOW_MS + 100)
    if early:
        node.logs.delete("t", 0)
        node.background.run()
    else:
        node.background.run(between=lambda: node.logs.delete("t", 0))
    assert node.failed == []


def test_a_log_that_is_deleted_and_made_again_is_another() -> None:
    node = Node()
    node.append(b"1")
    node.logs.flush_dirty(NOW_MS + 100)

    def again() -> None:
        node.logs.delete("t", 0)
        node.log = node.logs.get_or_create("t", 0, b"\2" * 16)

    node.background.run(between=again)
    assert node.failed == []
    assert node.log.flushed_offset == 0


def test_a_failing_flush_fails_the_directory() -> None:
    node = Node()
    node.append(b"1")
    node.disk.fails = lambda operation, path: operation == "sync"
    node.logs.flush_dirty(NOW_MS + 100)
    node.background.run()
    assert node.failed == ["/data"]
    assert node.log.flushed_offset == 0


@pytest.mark.parametrize("seed", range(10))
def test_flushes_that_overlap_do_not_rely_on_each_other(seed: int) -> None:
    """The flush after a roll has begun; a second one must make the new segment's name durable
    itself before it says that the records in it are."""
    disk = SimulatedDisk()
    disk.make_directory("/data")
    disk.sync_directory("")
    log = open_log(disk)
    log.append_as_leader(batch(b"1"), 0, NOW_MS)
    log.flush()
    log.roll(NOW_MS)
    log.append_as_leader(batch(b"2"), 1, NOW_MS)

    class PowerCut(Exception):
        pass

    def second_flush_then_power_cut(operation: str, path: str) -> bool:
        disk.fails = lambda operation, path: False
        log.flush()
        raise PowerCut

    disk.fails = second_flush_then_power_cut
    with pytest.raises(PowerCut):
        log.sync_sealed()
    assert log.flushed_offset == 2
    log.abandon()
    disk.power_cut(random.Random(seed))
    log = open_log(disk)
    assert [record.value for record in read_all(log)] == [b"1", b"2"]
    assert log.epochs.entries() == [(0, 0), (1, 1)]


def test_an_older_flush_that_ends_later_takes_nothing_back() -> None:
    log = open_log(SimulatedDisk())
    log.append_as_leader(batch(b"1"), 0, NOW_MS)
    first = log.sync()
    log.append_as_leader(batch(b"2"), 0, NOW_MS)
    log.roll(NOW_MS)
    log.flush()
    log.note_flushed(first)
    assert (log.flushed_offset, log.recovery_point) == (2, 2)


def test_a_truncation_during_a_flush_makes_it_void() -> None:
    log = open_log(SimulatedDisk())
    for value in (b"1", b"2", b"3"):
        log.append_as_leader(batch(value), 0, NOW_MS)
    point = log.sync()
    log.truncate_to(1)
    log.append_as_leader(batch(b"other"), 1, NOW_MS)
    log.note_flushed(point)
    assert log.flushed_offset <= 1
    log.flush()
    assert log.flushed_offset == 2


def test_retention_during_a_flush() -> None:
    """Segments whose files go while they are being synced need no sync."""
    disk = SimulatedDisk()
    log = open_log(disk, LogConfig(file_delete_delay_ms=0))
    for value in (b"1", b"2"):
        log.append_as_leader(batch(value), 0, NOW_MS)
        log.roll(NOW_MS)
    log.update_high_watermark(2)
    log.update_config(replace(log.config, retention_bytes=0))
    seen = 0

    def delete_at_first_sync(operation: str, path: str) -> bool:
        nonlocal seen
        if operation == "sync" and not seen:
            seen = 1
            log.delete_old_segments(NOW_MS)
            for segment in log.take_doomed(NOW_MS):
                segment.remove_files()
        return False

    disk.fails = delete_at_first_sync
    log.flush()
    assert log.log_start_offset == log.flushed_offset == 2


@pytest.mark.parametrize("seed", range(30))
def test_what_is_flushed_survives_power_cuts(seed: int) -> None:
    """Rolls, new epochs, retention and flushes in random order, then the worst."""
    rng = random.Random(seed)
    disk = SimulatedDisk()
    disk.make_directory("/data")
    disk.sync_directory("")
    config = LogConfig(internal_segment_bytes=400, index_interval_bytes=50)
    log = open_log(disk, config)
    epoch = 0
    for _ in range(6):
        for _ in range(rng.randrange(1, 15)):
            step = rng.randrange(6)
            if step == 0:
                log.flush()
            elif step == 1:
                log.flush_sealed()
            elif step == 2:
                epoch += 1
            else:
                log.append_as_leader(batch(rng.randbytes(rng.randrange(80))), epoch, NOW_MS)
        flushed = log.flushed_offset
        kept = [record for record in read_all(log) if record.offset < flushed]
        epochs = [entry for entry in log.epochs.entries() if entry[1] < flushed]
        recovery_point = rng.choice([0, log.recovery_point])
        log.abandon()
        disk.power_cut(rng)
        log = open_log(disk, config, recovery_point=recovery_point)
        assert read_all(log)[: len(kept)] == kept
        assert log.epochs.entries()[: len(epochs)] == epochs
        assert disk.exists(DIRECTORY)


def test_flush_by_count_is_before_the_answer() -> None:
    disk = SimulatedDisk()
    log: Log = open_log(disk, LogConfig(flush_messages=2))
    log.append_as_leader(batch(b"1"), 0, NOW_MS)
    assert log.flushed_offset == 0
    log.append_as_leader(batch(b"2", b"3"), 0, NOW_MS)
    assert log.flushed_offset == 3
