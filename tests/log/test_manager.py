"""Directories and logs: loading, making, deleting, failing, closing."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.config.topic import LogConfig
from barnabas.log.checkpoints import read_offsets, write_offsets
from barnabas.log.disk import InlineBackground, RealDisk
from barnabas.log.log import AppendOrigin
from barnabas.log.manager import DuplicateLog, LogManager
from barnabas.wire.uuids import ZERO, to_text
from tests.log.batches import NOW_MS, batch, marker, read_all
from tests.log.simulated_disk import SimulatedDisk
from tests.log.test_compaction import TestClock as Clock

ID = b"\1" * 16
OTHER_ID = b"\2" * 16


class Node:
    def __init__(self, *directories: str) -> None:
        self.disk = SimulatedDisk()
        self.clock = Clock()
        self.directories = directories or ("/a", "/b")
        self.config = LogConfig(file_delete_delay_ms=1000)
        self.start()

    def start(self) -> LogManager:
        self.logs = LogManager(
            self.disk,
            InlineBackground(),
            self.directories,
            config_of=lambda topic: self.config,
            clock=self.clock,
            randomness=random.Random(3),
        )
        self.logs.load()
        return self.logs

    def fail(self, directory: str) -> None:
        self.disk.fails = lambda operation, path: path.startswith(directory)


def test_logs_spread_over_the_directories() -> None:
    node = Node()
    for index in range(6):
        node.logs.get_or_create("t", index, ID)
    assert [len(each.partitions) for each in node.logs.describe()] == [3, 3]
    assert node.logs.get_or_create("t", 0, ID) is node.logs.get("t", 0)


def test_an_orderly_end_is_trusted_and_a_crash_is_not() -> None:
    node = Node("/a")
    log = node.logs.get_or_create("t", 0, ID)
    log.append_as_leader(batch(b"1", b"2"), 4, NOW_MS)
    log.update_high_watermark(1)
    node.logs.close(broker_epoch=17)
    assert "/a/.kafka_cleanshutdown" in node.disk.names
    assert node.disk.read_file("/a/t-0/partition.metadata").decode() == (
        f"version: 0\ntopic_id: {to_text(ID)}"
    )

    syncs = node.disk.syncs
    logs = node.start()
    assert node.disk.syncs - syncs <= 2, "an orderly start writes next to nothing"
    assert logs.previous_broker_epoch() == 17
    again = logs.get("t", 0)
    assert again is not None
    assert (again.topic_id, again.log_end_offset, again.high_watermark) == (ID, 2, 1)
    assert "/a/.kafka_cleanshutdown" not in node.disk.names

    node.disk.kill()
    assert not node.start().directories[0].was_clean
    assert node.logs.previous_broker_epoch() == -1


def test_closing_what_nobody_touched_costs_nothing() -> None:
    node = Node("/a")
    for index in range(20):
        node.logs.get_or_create("t", index, ID).append_as_leader(batch(b"1"), 0, NOW_MS)
    node.logs.close()
    node.start()
    syncs = node.disk.syncs
    node.logs.close()
    assert node.disk.syncs - syncs < 12, "checkpoints and the marker only"


def test_a_deleted_log_keeps_its_files_for_a_while() -> None:
    node = Node("/a")
    log = node.logs.get_or_create("t", 0, ID)
    log.append_as_leader(batch(b"1"), 0, NOW_MS)
    reader = log.read(0, 100, 1, True).records
    node.logs.delete("t", 0)
    assert node.logs.get("t", 0) is None
    (marked,) = [name for name in node.disk.list("/a") if name.endswith("-delete")]
    assert marked.startswith("t-0.")
    assert len(marked) == len("t-0.") + 32 + len("-delete")
    node.logs.remove_doomed(node.clock.ms + 999)
    assert node.disk.exists(f"/a/{marked}")
    node.logs.remove_doomed(node.clock.ms + 1000)
    assert not node.disk.exists(f"/a/{marked}")
    assert not isinstance(reader, bytes)
    assert len(reader.read()) == len(reader), "who was reading goes on"


def test_a_deletion_that_a_crash_interrupts_is_finished_later() -> None:
    node = Node("/a")
    node.logs.get_or_create("t", 0, ID)
    node.logs.delete("t", 0)
    node.disk.kill()
    node.start()
    assert node.logs.logs == {}
    node.logs.remove_doomed(node.clock.ms)
    assert not any(name.endswith("-delete") for name in node.disk.list("/a"))


def test_a_topic_made_again_does_not_inherit_offsets() -> None:
    node = Node("/a")
    log = node.logs.get_or_create("t", 0, ID)
    log.append_as_leader(batch(*[b"1"] * 10), 0, NOW_MS)
    log.update_high_watermark(10)
    log.increment_log_start_offset(5)
    log.flush()
    node.logs.checkpoint()
    node.logs.delete("t", 0)
    log = node.logs.get_or_create("t", 0, OTHER_ID)
    log.append_as_leader(batch(b"new"), 0, NOW_MS)
    node.disk.kill()
    found = node.start().get("t", 0)
    assert found is not None
    assert (found.log_start_offset, found.log_end_offset) == (0, 1)


def test_another_topic_id_sets_the_old_log_aside() -> None:
    node = Node("/a")
    node.logs.get_or_create("t", 0, ID).append_as_leader(batch(b"1"), 0, NOW_MS)
    log = node.logs.get_or_create("t", 0, OTHER_ID)
    assert (log.topic_id, log.log_end_offset) == (OTHER_ID, 0)
    (stray,) = [name for name in node.disk.list("/a") if name.endswith("-stray")]
    assert "00000000000000000000.log" in node.disk.list(f"/a/{stray}")
    node.disk.kill()
    assert list(node.start().logs) == [("t", 0)]


def test_a_log_without_an_id_gets_one() -> None:
    node = Node("/a")
    log = node.logs.get_or_create("t", 0, ZERO)
    assert log.topic_id is None
    assert node.logs.get_or_create("t", 0, ID) is log
    assert log.topic_id == ID


def test_strays() -> None:
    node = Node("/a")
    node.logs.get_or_create("t", 0, ID)
    node.logs.get_or_create("t", 1, ID)
    strays = node.logs.find_strays(lambda log: log.partition == 0)
    assert [log.name for log in strays] == ["t-1"]
    node.logs.set_aside("t", 1)
    assert list(node.logs.logs) == [("t", 0)]


class TestFailures:
    def test_a_directory_that_fails_at_the_start(self) -> None:
        node = Node()
        for index in range(4):
            node.logs.get_or_create("t", index, ID).append_as_leader(batch(b"1"), 0, NOW_MS)
        node.logs.close()
        node.fail("/a")
        logs = node.start()
        assert [each.path for each in logs.live_directories()] == ["/b"]
        assert len(logs.logs) == 2
        lost = next(index for index in range(4) if logs.get("t", index) is None)
        with pytest.raises(OSError, match="offline"):
            logs.get_or_create("t", lost, ID)
        assert logs.get_or_create("u", 0, ID, is_new=True).parent_directory == "/b"
        described = {each.path: each for each in logs.describe()}
        assert not described["/a"].is_online
        assert described["/a"].total_bytes == -1
        assert described["/b"].total_bytes > 0

    def test_a_directory_that_fails_later(self) -> None:
        node = Node()
        told: list[str] = []

        def failed(path: str, error: OSError) -> None:
            told.append(path)
            node.logs.directory_failed(path, error)

        node.logs.failed = failed
        for index in range(4):
            node.logs.get_or_create("t", index, ID).append_as_leader(batch(b"1"), 0, NOW_MS)
        node.fail("/b")
        node.config = replace(node.config, flush_ms=0)
        for log in list(node.logs.logs.values()):
            log.update_config(node.config)
        node.logs.flush_dirty(node.clock.ms)
        node.logs.checkpoint()
        assert set(told) == {"/b"}
        assert {log.parent_directory for log in node.logs.logs.values()} == {"/a"}
        node.logs.close()
        assert "/a/.kafka_cleanshutdown" in node.disk.names

    def test_a_failed_append_leaves_no_trace(self) -> None:
        node = Node("/a")
        log = node.logs.get_or_create("t", 0, ID)
        log.append_as_leader(batch(b"1", producer=(1, 0, 0)), 0, NOW_MS)
        node.disk.fails = lambda operation, path: operation == "append"
        with pytest.raises(OSError, match="simulated"):
            log.append_as_leader(batch(b"2", producer=(1, 0, 1)), 0, NOW_MS)
        node.disk.fails = lambda operation, path: False
        assert log.log_end_offset == 1
        info = log.append_as_leader(batch(b"2", producer=(1, 0, 1)), 0, NOW_MS)
        assert (info.first_offset, info.duplicate) == (1, False)

    def test_the_same_partition_twice_stops_the_start(self) -> None:
        node = Node()
        node.logs.get_or_create("t", 0, ID)
        node.disk.make_directory("/b/t-0")
        with pytest.raises(DuplicateLog, match="t-0"):
            node.start()

    def test_damaged_checkpoints_cost_only_time(self) -> None:
        node = Node("/a")
        log = node.logs.get_or_create("t", 0, ID)
        log.append_as_leader(batch(b"1"), 0, NOW_MS)
        node.logs.checkpoint()
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            node.disk.write_atomically(f"/a/{name}", b"rubbish")
        node.disk.kill()
        found = node.start().get("t", 0)
        assert found is not None
        assert found.log_end_offset == 1


def test_checkpoints_say_what_segments_cannot() -> None:
    node = Node("/a")
    log = node.logs.get_or_create("t", 0, ID)
    log.append_as_leader(batch(*[b"1"] * 3), 0, NOW_MS)
    log.append_as_leader(batch(*[b"1"] * 3), 0, NOW_MS)
    log.update_high_watermark(5)
    log.increment_log_start_offset(3)
    node.logs.checkpoint()
    assert read_offsets(node.disk, "/a/log-start-offset-checkpoint") == {("t", 0): 3}
    assert read_offsets(node.disk, "/a/replication-offset-checkpoint") == {("t", 0): 5}
    assert read_offsets(node.disk, "/a/recovery-point-offset-checkpoint") == {("t", 0): 0}
    node.disk.kill()
    found = node.start().get("t", 0)
    assert found is not None
    assert (found.log_start_offset, found.high_watermark) == (3, 5)
    assert [record.offset for record in read_all(found)] == [3, 4, 5]


def test_a_start_offset_beyond_the_end_empties_the_log() -> None:
    node = Node("/a")
    node.logs.get_or_create("t", 0, ID).append_as_leader(batch(b"1"), 0, NOW_MS)
    write_offsets(node.disk, "/a/log-start-offset-checkpoint", {("t", 0): 10})
    node.disk.kill()
    found = node.start().get("t", 0)
    assert found is not None
    assert (found.log_start_offset, found.log_end_offset) == (10, 10)


def test_a_roll_is_flushed_in_the_background() -> None:
    node = Node("/a")
    log = node.logs.get_or_create("t", 0, ID)
    log.append_as_leader(batch(b"1"), 0, NOW_MS)
    assert (log.recovery_point, log.flushed_offset) == (0, 0)
    log.roll(NOW_MS)
    assert (log.recovery_point, log.flushed_offset) == (1, 1)


def test_flush_by_time_and_by_count() -> None:
    node = Node("/a")
    log = node.logs.get_or_create("t", 0, ID)
    log.update_config(replace(node.config, flush_ms=100))
    log.append_as_leader(batch(b"1"), 0, node.clock.ms)
    node.logs.flush_dirty(node.clock.ms + 99)
    assert log.flushed_offset == 0
    node.logs.flush_dirty(node.clock.ms + 100)
    assert log.flushed_offset == 1
    log.update_config(replace(node.config, flush_messages=2))
    log.append_as_leader(batch(b"2"), 0, node.clock.ms)
    assert log.flushed_offset == 1
    log.append_as_leader(batch(b"3"), 0, node.clock.ms)
    assert log.flushed_offset == 3


def test_producers_expire() -> None:
    node = Node("/a")
    log = node.logs.get_or_create("t", 0, ID)
    log.append_as_leader(batch(b"1", producer=(1, 0, 0)), 0, NOW_MS)
    assert node.logs.expire_producers(NOW_MS + 86_399_999) == 0
    assert node.logs.expire_producers(NOW_MS + 86_400_000) == 1
    assert log.active_producers() == []


def test_two_processes_cannot_share_a_directory(tmp_path: Path) -> None:
    import subprocess
    import sys

    disk = RealDisk()
    path = str(tmp_path / ".lock")
    held = disk.lock(path)
    assert held is not None
    code = (
        "import sys; from barnabas.log.disk import RealDisk;"
        "sys.exit(0 if RealDisk().lock(sys.argv[1]) is None else 1)"
    )
    done = subprocess.run([sys.executable, "-c", code, path], check=False, timeout=30)
    assert done.returncode == 0


def test_few_files_are_open_for_many_partitions(tmp_path: Path) -> None:
    import os

    clock = Clock()

    def manager() -> LogManager:
        return LogManager(
            RealDisk(),
            InlineBackground(),
            [str(tmp_path)],
            config_of=lambda topic: LogConfig(),
            clock=clock,
            randomness=random.Random(1),
            open_files_limit=16,
        )

    before = len(os.listdir("/proc/self/fd"))
    logs = manager()
    logs.load()
    for index in range(100):
        logs.get_or_create("t", index, ID)
    for round_number in range(2):
        for index in range(100):
            log = logs.get_or_create("t", index, ID)
            assert log.append_as_leader(batch(b"1"), 0, NOW_MS).first_offset == round_number
    assert len(os.listdir("/proc/self/fd")) - before <= 20
    logs.close()
    assert len(os.listdir("/proc/self/fd")) == before
    logs = manager()
    logs.load()
    assert len(os.listdir("/proc/self/fd")) - before <= 2
    assert all(len(read_all(log)) == 2 for log in logs.logs.values())
    logs.close()


def test_looking_at_every_segment_opens_few_files(tmp_path: Path) -> None:
    """Retention and searches by time look into indexes of segments that nobody reads."""
    import os

    def manager() -> LogManager:
        return LogManager(
            RealDisk(),
            InlineBackground(),
            [str(tmp_path)],
            config_of=lambda topic: LogConfig(),
            clock=Clock(),
            randomness=random.Random(1),
            open_files_limit=4,
        )

    logs = manager()
    logs.load()
    for index in range(10):
        log = logs.get_or_create("t", index, ID)
        for _ in range(5):
            data = batch(b"1", producer=(1, 0, log.log_end_offset // 2), transactional=True)
            log.append_as_leader(data, 0, NOW_MS)
            abort = marker(1, 0, commit=False)
            log.append_as_leader(abort, 0, NOW_MS, AppendOrigin.COORDINATOR)
            log.roll(NOW_MS)
        log.update_high_watermark(log.log_end_offset)
    logs.close()
    before = len(os.listdir("/proc/self/fd"))
    logs = manager()
    logs.load()
    logs.run_retention(NOW_MS)
    for log in logs.logs.values():
        assert len(log.segments) == 6
        assert log.find_offset_by_timestamp(NOW_MS) is not None
        assert len(log.aborted_transactions(0, 10)) == 5
    assert len(os.listdir("/proc/self/fd")) - before <= 4 * 4 + 1
    logs.close()


def test_checkpoints_of_a_deleted_topic_do_not_outlive_a_restart() -> None:
    """Deleted, killed before the next checkpoint, made again, killed again."""
    node = Node("/a")
    log = node.logs.get_or_create("t", 0, ID)
    log.append_as_leader(batch(*[b"1"] * 10), 0, NOW_MS)
    log.update_high_watermark(10)
    log.increment_log_start_offset(5)
    node.logs.directories[0].cleaner_offsets["t", 0] = 7
    node.logs.directories[0].write_cleaner_offsets()
    node.logs.checkpoint()
    node.logs.delete("t", 0)
    node.disk.kill()
    node.start()
    log = node.logs.get_or_create("t", 0, OTHER_ID)
    log.append_as_leader(batch(b"new"), 0, NOW_MS)
    node.disk.kill()
    found = node.start().get("t", 0)
    assert found is not None
    assert (found.log_start_offset, found.log_end_offset) == (0, 1)
    assert node.logs.directories[0].cleaner_offsets == {}


def test_the_checkpoint_files_are_in_kafkas_format() -> None:
    node = Node("/a")
    for topic, index in (("t", 0), ("some.topic-with_signs", 12)):
        log = node.logs.get_or_create(topic, index, ID)
        log.append_as_leader(batch(b"1", b"2", b"3"), 0, NOW_MS)
        log.update_high_watermark(2)
        log.increment_log_start_offset(1)
    node.logs.close(broker_epoch=9)
    files = {
        "recovery-point-offset-checkpoint": b"0\n2\nt 0 3\nsome.topic-with_signs 12 3\n",
        "replication-offset-checkpoint": b"0\n2\nt 0 2\nsome.topic-with_signs 12 2\n",
        "log-start-offset-checkpoint": b"0\n2\nt 0 1\nsome.topic-with_signs 12 1\n",
        ".kafka_cleanshutdown": b'{"version":0,"brokerEpoch":9}',
    }
    assert {name: node.disk.read_file(f"/a/{name}") for name in files} == files
