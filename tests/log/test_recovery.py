"""Starts after a crash: what is torn is cut, what is missing is built anew, the rest is trusted."""

from __future__ import annotations

import random
import zlib
from struct import pack

import pytest

from barnabas.config.topic import LogConfig
from barnabas.log.log import AppendOrigin, Log
from barnabas.log.recovery import UnreadableLog
from barnabas.record.batch import read_header
from tests.log.batches import DIRECTORY, NOW_MS, batch, marker, open_log, read_all, write
from tests.log.simulated_disk import SimulatedDisk

CONFIG = LogConfig(index_interval_bytes=0)
FIRST = f"{DIRECTORY}/{0:020d}"


def make(disk: SimulatedDisk, count: int = 6, *, roll_at: int = -1, epochs: bool = False) -> Log:
    log = open_log(disk, CONFIG)
    for number in range(count):
        if number == roll_at:
            log.roll(NOW_MS)
        data = batch(b"%d" % number, timestamp_ms=NOW_MS + number)
        log.append_as_leader(data, number // 2 if epochs else 0, NOW_MS)
    log.update_high_watermark(count)
    return log


def change(disk: SimulatedDisk, path: str, position: int, data: bytes) -> None:
    inode = disk.names[path]
    assert inode is not None
    inode.data[position : position + len(data)] = data


def offsets(log: Log) -> list[int]:
    return [record.offset for record in read_all(log)]


def indexes(disk: SimulatedDisk) -> dict[str, bytes]:
    return {
        name: disk.read_file(f"{DIRECTORY}/{name}")
        for name in disk.list(DIRECTORY)
        if name.endswith(("index", ".snapshot"))
    }


SIZE = len(batch(b"0"))


@pytest.mark.parametrize(
    "tail",
    [
        bytes(1),
        bytes(4096),
        b"\xff" * 100,
        bytes(batch(b"torn"))[:-1],
        bytes(batch(b"torn"))[:40],
        bytes(batch(b"torn"))[:5],
        bytes(batch(b"torn"))[:61] + bytes(SIZE),
        random.Random(1).randbytes(300),
    ],
    ids=["one zero", "zeros", "ones", "all but a byte", "half a header", "half an offset",
         "a header and zeros", "garbage"],
)  # fmt: skip
def test_what_is_no_batch_at_the_end_is_cut(tail: bytes) -> None:
    disk = SimulatedDisk()
    make(disk).abandon()
    inode = disk.names[f"{FIRST}.log"]
    assert inode is not None
    inode.data += tail
    log = open_log(disk, CONFIG)
    assert (log.log_end_offset, offsets(log)) == (6, [0, 1, 2, 3, 4, 5])
    assert disk.size_of(f"{FIRST}.log") == 6 * SIZE
    assert write(log, batch(b"next")).first_offset == 6
    assert offsets(log) == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("field", ["checksum", "value", "length", "offset", "magic"])
def test_a_damaged_batch_ends_the_log(field: str) -> None:
    disk = SimulatedDisk()
    make(disk, roll_at=4).abandon()
    position = 2 * SIZE
    at, data = {
        "checksum": (17, b"\xde\xad"),
        "value": (SIZE - 2, b"\xee"),
        "length": (8, pack(">i", 1 << 30)),
        "offset": (0, pack(">q", 1)),
        "magic": (16, b"\x63"),
    }[field]
    change(disk, f"{FIRST}.log", position + at, data)
    log = open_log(disk, CONFIG)
    assert offsets(log) == [0, 1]
    assert log.log_end_offset == 2
    assert len(log.segments) == 1, "what came after is not a log any more"
    assert not disk.exists(f"{DIRECTORY}/{4:020d}.log")
    assert not any(name.startswith(f"{4:020d}") for name in disk.list(DIRECTORY))


def test_what_lies_below_the_recovery_point_is_trusted() -> None:
    disk = SimulatedDisk()
    make(disk, roll_at=4).abandon()
    change(disk, f"{FIRST}.log", 2 * SIZE + 17, b"\xde\xad")
    log = open_log(disk, CONFIG, recovery_point=4)
    assert log.log_end_offset == 6


def test_an_orderly_stop_is_trusted_without_a_look() -> None:
    disk = SimulatedDisk()
    make(disk, roll_at=4).close()
    change(disk, f"{FIRST}.log", 2 * SIZE + 17, b"\xde\xad")
    syncs = disk.syncs
    log = open_log(disk, CONFIG, clean=True)
    assert log.log_end_offset == 6
    assert disk.syncs == syncs


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kind", [".index", ".timeindex"])
def test_a_missing_index_is_built_anew(kind: str, clean: bool) -> None:
    disk = SimulatedDisk()
    make(disk, roll_at=4).close()
    expected = indexes(disk)
    assert len(expected[f"{0:020d}.index"]) == 3 * 8
    disk.remove(FIRST + kind)
    log = open_log(disk, CONFIG, clean=clean, recovery_point=6)
    assert offsets(log) == [0, 1, 2, 3, 4, 5]
    log.close()
    assert indexes(disk) == expected


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "damage",
    [b"\1", bytes(24)[:20], b"\x7f" * 24, b"\x80" * 24],
    ids=["byte", "odd", "high", "low"],
)
@pytest.mark.parametrize("kind", [".index", ".timeindex"])
def test_an_index_that_cannot_be_right_is_built_anew(kind: str, damage: bytes, clean: bool) -> None:
    disk = SimulatedDisk()
    make(disk).close()
    expected = indexes(disk)
    disk.write_atomically(FIRST + kind, damage)
    log = open_log(disk, CONFIG, clean=clean, recovery_point=6 if clean else 0)
    assert offsets(log) == [0, 1, 2, 3, 4, 5]
    found = log.find_offset_by_timestamp(NOW_MS + 3)
    assert found is not None
    assert found.offset == 3
    log.close()
    assert indexes(disk) == expected


ENTRIES = [0, 1, 2, 3, 1 << 20, 0x7FFFFFFF, -1]


@pytest.mark.parametrize("slot", [0, 3])
@pytest.mark.parametrize("relative", ENTRIES)
@pytest.mark.parametrize("position", [0, 1, SIZE, 3 * SIZE + 7, 5 * SIZE, 1 << 20, -1])
def test_no_entry_of_an_old_offset_index_makes_a_read_wrong(
    slot: int, relative: int, position: int
) -> None:
    disk = SimulatedDisk()
    make(disk, 8, roll_at=6).close()
    change(disk, f"{FIRST}.index", 8 * slot, pack(">ii", relative, position))
    log = open_log(disk, CONFIG, clean=True)
    for offset in range(6):
        records = log.read(offset, 1, 8, True).records
        assert not isinstance(records, bytes)
        assert read_header(records.read()).base_offset == offset
    log.close()
    assert offsets(open_log(disk, CONFIG, clean=True)) == list(range(8))


@pytest.mark.parametrize("slot", [0, 3])
@pytest.mark.parametrize("relative", ENTRIES)
@pytest.mark.parametrize("timestamp", [NOW_MS, NOW_MS + 4, NOW_MS - 1, -1, 1 << 60])
def test_no_entry_of_an_old_time_index_hides_a_timestamp(
    slot: int, relative: int, timestamp: int
) -> None:
    disk = SimulatedDisk()
    make(disk, 8, roll_at=6).close()
    change(disk, f"{FIRST}.timeindex", 12 * slot, pack(">qi", timestamp, relative))
    log = open_log(disk, CONFIG, clean=True)
    for number in range(8):
        found = log.find_offset_by_timestamp(NOW_MS + number)
        assert found is not None
        assert found.offset == number


@pytest.mark.parametrize("damage", [b"", b"\0" * 33, b"\1" * 34])
def test_a_damaged_transaction_index_is_built_anew(damage: bytes) -> None:
    disk = SimulatedDisk()
    log = open_log(disk, CONFIG)
    write(log, batch(b"x", producer=(1, 0, 0), transactional=True))
    write(log, marker(1, 0, commit=False), AppendOrigin.COORDINATOR)
    log.roll(NOW_MS)
    write(log, batch(b"y"))
    expected = log.aborted_transactions(0, 3)
    assert len(expected) == 1
    log.close()
    disk.write_atomically(f"{FIRST}.txnindex", damage)
    log = open_log(disk, CONFIG, clean=bool(damage), high_watermark=3)
    assert log.aborted_transactions(0, 3) == expected


def test_a_preallocated_index_ends_in_zeros() -> None:
    """What Apache Kafka leaves behind when it is killed."""
    disk = SimulatedDisk()
    make(disk).close()
    for kind in (".index", ".timeindex"):
        inode = disk.names[FIRST + kind]
        assert inode is not None
        inode.data += bytes(960)
    log = open_log(disk, CONFIG, clean=True)
    assert log.log_end_offset == 6
    for number in range(6, 9):
        write(log, batch(b"%d" % number, timestamp_ms=NOW_MS + number))
    log.close()
    assert disk.size_of(f"{FIRST}.index") == 7 * 8
    assert offsets(open_log(disk, CONFIG, clean=True)) == list(range(9))


def test_a_preallocated_segment_is_trimmed_after_a_kill() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, LogConfig(preallocate=True, internal_segment_bytes=10_000))
    write(log, batch(b"1"))
    log.roll(NOW_MS)
    write(log, batch(b"2"))
    assert disk.size_of(f"{DIRECTORY}/{1:020d}.log") == 10_000
    assert disk.size_of(f"{FIRST}.log") == SIZE
    log.abandon()
    log = open_log(disk)
    assert offsets(log) == [0, 1]
    assert disk.size_of(f"{DIRECTORY}/{1:020d}.log") == SIZE


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", [None, b"", b"rubbish", b"0\n2\n0 0\n"])
def test_the_epochs_are_found_again_in_the_batches(damage: bytes | None, clean: bool) -> None:
    disk = SimulatedDisk()
    log = make(disk, epochs=True, roll_at=4)
    expected = [(0, 0), (1, 2), (2, 4)]
    assert log.epochs.entries() == expected
    path = f"{DIRECTORY}/leader-epoch-checkpoint"
    log.close()
    assert disk.read_file(path) == b"0\n3\n0 0\n1 2\n2 4\n"
    if damage is None:
        disk.remove(path)
    else:
        disk.write_atomically(path, damage)
    log = open_log(disk, CONFIG, clean=clean)
    assert log.epochs.entries() == expected
    assert [log.epoch_end_offset(epoch) for epoch in range(4)] == [(0, 2), (1, 4), (2, 6), (-1, -1)]


def test_epochs_above_the_end_are_forgotten() -> None:
    disk = SimulatedDisk()
    log = make(disk)
    log.start_leader_epoch(7)
    log.abandon()
    change(disk, f"{FIRST}.log", 5 * SIZE + 17, b"\0\0\0\0")
    log = open_log(disk, CONFIG)
    assert log.epochs.entries() == [(0, 0)]


def test_messages_of_an_old_format_are_left_alone() -> None:
    disk = SimulatedDisk()
    make(disk, 1).abandon()
    old = pack(">bbqii", 1, 0, NOW_MS, -1, 1) + b"v"
    message = pack(">qiI", 1, len(old) + 4, zlib.crc32(old)) + old
    inode = disk.names[f"{FIRST}.log"]
    assert inode is not None
    inode.data += message
    size = disk.size_of(f"{FIRST}.log")
    with pytest.raises(UnreadableLog):
        open_log(disk, CONFIG)
    assert disk.size_of(f"{FIRST}.log") == size


def test_recovery_that_is_interrupted_is_done_again() -> None:
    for stop_at in range(40):
        disk = SimulatedDisk()
        make(disk, roll_at=3).abandon()
        inode = disk.names[f"{DIRECTORY}/{3:020d}.log"]
        assert inode is not None
        inode.data += b"\xff" * 50
        left = stop_at

        def fails(operation: str, path: str) -> bool:
            nonlocal left
            left -= operation != "read"
            return left < 0

        disk.fails = fails
        try:
            open_log(disk, CONFIG)
        except OSError:
            pass
        disk.fails = lambda operation, path: False
        disk.kill()
        assert offsets(open_log(disk, CONFIG)) == [0, 1, 2, 3, 4, 5]
