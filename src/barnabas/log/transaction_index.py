"""The index of aborted transactions beside a segment (`.txnindex`).

An entry is written when an abort marker is appended, into the index of the segment that holds the
marker. It lets a read-committed consumer be told which producers' records to drop between two
offsets. Entry, 34 bytes: int16 version (0), int64 producer id, int64 first offset, int64 last
offset, int64 last stable offset at the time of the abort. Entries ascend by last offset. The file
exists only if there was an abort.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct

from barnabas.log.index import CorruptIndex
from barnabas.seams import Disk, DiskFile

ENTRY = Struct(">hqqqq")
ENTRY_SIZE = 34
VERSION = 0
_READ_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    __slots__ = ("_disk", "_exists", "_file", "base_offset", "path")

    def __init__(self, disk: Disk, path: str, base_offset: int, *, exists: bool) -> None:
        self.path = path
        self.base_offset = base_offset
        self._disk = disk
        self._exists = exists
        self._file: DiskFile | None = None

    @property
    def is_empty(self) -> bool:
        return not self._exists

    def _open(self) -> DiskFile:
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
            self._exists = True
        return self._file

    def append(self, aborted: AbortedTransaction) -> None:
        self._open().append(
            ENTRY.pack(
                VERSION,
                aborted.producer_id,
                aborted.first_offset,
                aborted.last_offset,
                aborted.last_stable_offset,
            )
        )

    def entries(self) -> Iterator[AbortedTransaction]:
        if not self._exists:
            return
        file = self._open()
        for position in range(0, file.size, _READ_AT_ONCE * ENTRY_SIZE):
            chunk = file.read_at(position, _READ_AT_ONCE * ENTRY_SIZE)
            if len(chunk) % ENTRY_SIZE:
                raise CorruptIndex(f"{self.path} ends in the middle of an entry")
            for version, producer_id, first, last, stable in ENTRY.iter_unpack(chunk):
                if version > VERSION:
                    raise CorruptIndex(f"{self.path} has entries of unknown version {version}")
                yield AbortedTransaction(producer_id, first, last, stable)

    def collect(self, fetch_offset: int, upper_bound: int, found: list[AbortedTransaction]) -> bool:
        """Add what touches `[fetch_offset, upper_bound)`; True if later segments cannot matter."""
        for aborted in self.entries():
            if aborted.last_offset >= fetch_offset and aborted.first_offset < upper_bound:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_bound:
                return True
        return False

    def truncate_to(self, offset: int) -> None:
        """Keep the transactions whose marker is below `offset`."""
        if not self._exists:
            return
        kept = 0
        for aborted in self.entries():
            if aborted.last_offset >= offset:
                break
            kept += 1
        self._open().truncate(kept * ENTRY_SIZE)

    def clear(self) -> None:
        if self._exists:
            self._open().truncate(0)

    def check(self) -> None:
        for aborted in self.entries():
            if aborted.last_offset < self.base_offset:
                raise CorruptIndex(f"{self.path} has {aborted}, which ends before its segment")

    def sync(self) -> None:
        if self._exists:
            self._open().sync()

    def release(self) -> None:
        self._file = None

    def moved(self, path: str) -> None:
        self.path = path
