"""Producer state on disk: `<offset>.snapshot`, the state before the record at that offset.

Format: int16 version (1), uint32 CRC-32C of all that follows, int32 number of entries, and for each
producer int64 id, int16 epoch, int32 last sequence, int64 last offset, int32 offset delta, int64
timestamp, int32 coordinator epoch, int64 first offset of the open transaction (-1 for none). Only
the last batch of a producer is kept. Snapshots are written at every roll and at an orderly stop;
after a crash the newest valid one below the end is loaded and the records above it are replayed.
"""

from __future__ import annotations

import logging
from bisect import bisect_right, insort
from collections.abc import Collection, Iterable
from struct import Struct, error

from crc32c import crc32c

from barnabas.log import file_names
from barnabas.log.producer_state import BatchMetadata, ProducerState
from barnabas.seams import Disk

logger = logging.getLogger(__name__)

VERSION = 1
_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")


class CorruptSnapshot(Exception):
    """The file is damaged: it is dropped and an older one is used."""


def encode(states: Iterable[ProducerState]) -> bytes:
    entries = [
        _ENTRY.pack(
            state.producer_id,
            state.epoch,
            state.last_sequence,
            state.last_data_offset,
            state.last_offset_delta,
            state.last_timestamp,
            state.coordinator_epoch,
            -1 if state.current_txn_first_offset is None else state.current_txn_first_offset,
        )
        for state in states
    ]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _HEAD.pack(VERSION, crc32c(body)) + body


def decode(data: bytes) -> list[ProducerState]:
    try:
        version, crc = _HEAD.unpack_from(data)
        (count,) = _COUNT.unpack_from(data, _HEAD.size)
    except error:
        raise CorruptSnapshot(f"a snapshot of {len(data)} bytes is too short") from None
    if version != VERSION:
        raise CorruptSnapshot(f"snapshot version {version} is unknown")
    body = memoryview(data)[_HEAD.size :]
    computed = crc32c(body)
    if computed != crc:
        raise CorruptSnapshot(f"stored crc = {crc}, computed crc = {computed}")
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"{len(data)} bytes cannot hold {count} entries")
    states = []
    for fields in _ENTRY.iter_unpack(body[_COUNT.size :]):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn = fields
        state = ProducerState(producer_id)
        state.epoch = epoch
        state.coordinator_epoch = coordinator_epoch
        state.last_timestamp = timestamp
        state.current_txn_first_offset = txn if txn >= 0 else None
        if offset >= 0:
            state.batches.append(BatchMetadata(sequence, offset, delta, timestamp))
        states.append(state)
    return states


def write(disk: Disk, path: str, states: Iterable[ProducerState]) -> None:
    """Not synced: a flush of the log does it, before the recovery point passes the snapshot."""
    disk.write_atomically(path, encode(states), sync=False)


def read(disk: Disk, path: str) -> list[ProducerState]:
    return decode(disk.read_file(path))


class SnapshotFiles:
    """The snapshots of one partition: which there are, the newest usable one, removal."""

    __slots__ = ("_directory", "_disk", "offsets")

    def __init__(self, disk: Disk, directory: str, offsets: Iterable[int]) -> None:
        self._disk = disk
        self._directory = directory
        self.offsets = sorted(offsets)

    def path(self, offset: int) -> str:
        return f"{self._directory}/{file_names.segment_file(offset, file_names.SNAPSHOT)}"

    def write(self, offset: int, states: Iterable[ProducerState]) -> None:
        write(self._disk, self.path(offset), states)
        if offset not in self.offsets:
            insort(self.offsets, offset)

    def load_newest(self, end_offset: int) -> tuple[int, list[ProducerState]] | None:
        """The newest usable snapshot not above `end_offset`. Damaged ones are removed."""
        for offset in reversed(self.offsets[: bisect_right(self.offsets, end_offset)]):
            try:
                return offset, read(self._disk, self.path(offset))
            except (CorruptSnapshot, FileNotFoundError) as failure:
                logger.warning("dropping snapshot %s: %s", self.path(offset), failure)
                self.remove(offset)
        return None

    def remove(self, offset: int) -> None:
        slot = bisect_right(self.offsets, offset) - 1
        if slot < 0 or self.offsets[slot] != offset:
            return
        del self.offsets[slot]
        try:
            self._disk.remove(self.path(offset))
        except FileNotFoundError:
            return

    def remove_above(self, offset: int) -> None:
        for above in self.offsets[bisect_right(self.offsets, offset) :]:
            self.remove(above)

    def keep_only(self, base_offsets: Collection[int]) -> None:
        """Remove those that belong to no segment, except for the newest of all."""
        for offset in self.offsets[:-1]:
            if offset not in base_offsets:
                self.remove(offset)

    def sync(self, offset: int) -> None:
        """Safe in another thread."""
        try:
            self._disk.open(self.path(offset)).sync()
        except FileNotFoundError:
            return

    def moved(self, directory: str) -> None:
        self._directory = directory
