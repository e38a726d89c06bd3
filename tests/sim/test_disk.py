"""The disk: what survives a power cut, what a full or failing one does."""

from __future__ import annotations

import random

import pytest

from barnabas.sim.disk import SimulatedDisk


def made(seed: int) -> tuple[SimulatedDisk, bytes]:
    """A file with 5,000 synced bytes and as many that are not."""
    disk = SimulatedDisk()
    disk.make_directory("/data")
    disk.sync_everything()
    file = disk.open("/data/file", create=True)
    content = random.Random(seed).randbytes(10_000)
    file.append(content[:5_000])
    file.sync()
    disk.sync_directory("/data")
    file.append(content[5_000:])
    return disk, content


@pytest.mark.parametrize("seed", range(40))
def test_synced_bytes_survive_a_power_cut(seed: int) -> None:
    disk, content = made(seed)
    disk.power_cut(random.Random(seed))
    assert disk.read_file("/data/file")[:5_000] == content[:5_000]


def test_unsynced_bytes_are_lost_kept_torn_zeroed_or_garbled() -> None:
    kinds = set()
    for seed in range(100):
        disk, content = made(seed)
        disk.power_cut(random.Random(seed))
        left = disk.read_file("/data/file")
        if content.startswith(left):
            kinds.add("a first part")
        elif left.rstrip(b"\0") and content.startswith(left.rstrip(b"\0")):
            kinds.add("zeros at the end")
        elif left[-100:] == content[len(left) - 100 : len(left)]:
            kinds.add("a hole")
        else:
            kinds.add("garbage")
    assert kinds == {"a first part", "zeros at the end", "a hole", "garbage"}


def test_a_kill_loses_nothing() -> None:
    disk, content = made(0)
    disk.kill()
    assert disk.read_file("/data/file") == content


def test_names_that_were_not_synced_may_be_gone_with_all_below_them() -> None:
    outcomes = set()
    for seed in range(50):
        disk = SimulatedDisk()
        disk.make_directory("/data/topic/deep")
        file = disk.open("/data/topic/deep/file", create=True)
        file.append(b"x")
        file.sync()
        disk.sync_directory("/data/topic/deep")
        disk.power_cut(random.Random(seed))
        for path in disk.names:
            assert path == "" or path.rpartition("/")[0] in disk.names
        outcomes.add(disk.exists("/data/topic/deep/file"))
    assert outcomes == {True, False}


def test_a_full_disk_refuses_what_does_not_fit_and_keeps_the_file_as_it_was() -> None:
    disk, content = made(0)
    disk.space = 10
    file = disk.open("/data/file")
    file.append(b"12345")
    with pytest.raises(OSError, match="no space"):
        file.append(b"123456")
    assert disk.read_file("/data/file") == content + b"12345"
