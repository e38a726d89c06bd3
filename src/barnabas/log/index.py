"""The sparse indexes beside a segment: offset to position, and timestamp to offset.

Both are files of fixed-size big-endian entries in ascending order, one about every
`index.interval.bytes` of log. New entries wait in a short list and reach the file in one write
when it is full, when the segment is flushed or sealed; a crash loses nothing by that, because the
indexes of every segment above the recovery point are rebuilt from the log. Lookups in the file are
binary searches with positional reads, so that neither an idle nor a huge partition holds an index
in memory.

Apache Kafka preallocates the index of the active segment and trims it when the segment is sealed.
After it crashed, the file ends in zeros; they are recognised here and cut off by the first write.

Invariants: entries in the file, then those that wait, ascend strictly in both columns of the
offset index, and do not descend in the time index.
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct

from barnabas.seams import Disk, DiskFile

WAITING_LIMIT = 256


class CorruptIndex(Exception):
    """The file cannot be an index of this segment; it must be rebuilt."""


class _Index:
    """What both indexes share. An entry is a pair; the first column is the one searched."""

    STRUCT: Struct
    ENTRY_SIZE: int

    __slots__ = ("_count_in_file", "_disk", "_file", "_firsts", "_seconds", "base_offset", "path")

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._disk = disk
        self._file: DiskFile | None = None
        self._count_in_file = -1  # not opened yet
        self._firsts: list[int] = []
        self._seconds: list[int] = []

    def _open(self) -> DiskFile:
        file = self._file
        if file is None:
            file = self._file = self._disk.open(self.path, create=True)
            if self._count_in_file < 0:
                self._count_in_file = self._count_without_padding(file)
        return file

    def _count_without_padding(self, file: DiskFile) -> int:
        count = file.size // self.ENTRY_SIZE
        if count == 0 or any(file.read_at((count - 1) * self.ENTRY_SIZE, self.ENTRY_SIZE)):
            return count
        low, high = 0, count - 1  # entries below `low` are used, those from `high` on are zeros
        while low < high:
            middle = (low + high) // 2
            if any(file.read_at(middle * self.ENTRY_SIZE, self.ENTRY_SIZE)):
                low = middle + 1
            else:
                high = middle
        return low

    def _read(self, slot: int) -> tuple[int, int]:
        file = self._open()
        if slot >= self._count_in_file:
            slot -= self._count_in_file
            return self._firsts[slot], self._seconds[slot]
        first, second = self.STRUCT.unpack(file.read_at(slot * self.ENTRY_SIZE, self.ENTRY_SIZE))
        return first, second

    @property
    def count(self) -> int:
        if self._count_in_file < 0:
            self._open()
        return self._count_in_file + len(self._firsts)

    def is_full(self, max_bytes: int) -> bool:
        return self.count >= max_bytes // self.ENTRY_SIZE

    def entries(self) -> list[tuple[int, int]]:
        """Every entry as stored (offsets relative). For tools and tests."""
        return [self._read(slot) for slot in range(self.count)]

    def _append(self, first: int, second: int) -> None:
        self._firsts.append(first)
        self._seconds.append(second)
        if len(self._firsts) >= WAITING_LIMIT:
            self.write_waiting()

    def write_waiting(self) -> None:
        """Give what waits to the operating system."""
        firsts = self._firsts
        if not firsts:
            return
        file = self._open()
        length = self._count_in_file * self.ENTRY_SIZE
        if file.size != length:
            file.truncate(length)
        pack = self.STRUCT.pack
        file.append(b"".join(map(pack, firsts, self._seconds)))
        self._count_in_file += len(firsts)
        self._firsts = []
        self._seconds = []

    def _largest_slot(self, key: int) -> int:
        """The last slot whose first column is not above `key`, or -1."""
        in_file = self._count_in_file
        if in_file < 0:
            self._open()
            in_file = self._count_in_file
        firsts = self._firsts
        if firsts and key >= firsts[0]:
            return in_file + bisect_right(firsts, key) - 1
        low, high = 0, in_file
        while low < high:
            middle = (low + high) // 2
            if self._read(middle)[0] <= key:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def _keep(self, count: int) -> None:
        """Drop every entry from slot `count` on."""
        file = self._open()
        if count >= self._count_in_file:
            kept = count - self._count_in_file
            del self._firsts[kept:]
            del self._seconds[kept:]
        else:
            self._firsts = []
            self._seconds = []
            self._count_in_file = count
            file.truncate(count * self.ENTRY_SIZE)

    def clear(self) -> None:
        self._keep(0)
        file = self._open()
        if file.size:
            file.truncate(0)

    def trim(self) -> None:
        """Write what waits and cut off padding: what happens to an index that is sealed."""
        self.write_waiting()
        file = self._open()
        length = self._count_in_file * self.ENTRY_SIZE
        if file.size != length:
            file.truncate(length)

    def sync(self) -> None:
        self.write_waiting()
        self._open().sync()

    def release(self) -> None:
        """Drop the open file; it is opened again when needed."""
        self.write_waiting()
        self._file = None

    def abandon(self) -> None:
        """Drop the open file and what waits to be written to it."""
        self._firsts = []
        self._seconds = []
        self._file = None

    def moved(self, path: str) -> None:
        self.path = path

    def check_size(self) -> None:
        size = self._disk.size_of(self.path)
        if size % self.ENTRY_SIZE:
            raise CorruptIndex(
                f"{self.path} has {size} bytes, which is no multiple of {self.ENTRY_SIZE}"
            )

    def _last_entry(self) -> tuple[int, int] | None:
        self.check_size()
        return self._read(self.count - 1) if self.count else None


class OffsetIndex(_Index):
    """Entries of int32 relative offset (of a batch's last record), int32 position of that batch."""

    STRUCT = Struct(">ii")
    ENTRY_SIZE = 8
    __slots__ = ()

    def append(self, offset: int, position: int) -> None:
        self._append(offset - self.base_offset, position)

    def lookup(self, offset: int) -> tuple[int, int]:
        """`(offset, position)` of the last entry not above `offset`; the start if there is none."""
        slot = self._largest_slot(offset - self.base_offset)
        if slot < 0:
            return self.base_offset, 0
        relative, position = self._read(slot)
        return self.base_offset + relative, position

    def upper_bound(self, offset: int, position: int, length: int) -> tuple[int, int] | None:
        """`(offset, position)` of the first entry at or after `position + length`, where the entries
        are searched from `offset` on; None if the index ends before."""
        low, high = max(self._largest_slot(offset - self.base_offset), 0), self.count
        end = position + length
        while low < high:
            middle = (low + high) // 2
            if self._read(middle)[1] < end:
                low = middle + 1
            else:
                high = middle
        if low >= self.count:
            return None
        relative, found = self._read(low)
        return self.base_offset + relative, found

    def last(self) -> tuple[int, int]:
        """`(offset, position)` of the last entry; the start of the segment if there is none."""
        count = self.count
        if count == 0:
            return self.base_offset, 0
        relative, position = self._read(count - 1)
        return self.base_offset + relative, position

    def truncate_to(self, offset: int) -> None:
        """Keep the entries below `offset`."""
        self._keep(self._largest_slot(offset - self.base_offset - 1) + 1)

    def check(self, segment_size: int) -> None:
        last = self._last_entry()
        if last is not None and (last[0] < 0 or not 0 <= last[1] < max(segment_size, 1)):
            raise CorruptIndex(f"{self.path} ends in entry {last}, outside of its segment")


class TimeIndex(_Index):
    """Entries of int64 timestamp, int32 relative offset: the largest timestamp up to there."""

    STRUCT = Struct(">qi")
    ENTRY_SIZE = 12
    __slots__ = ()

    def is_full(self, max_bytes: int) -> bool:
        # One entry is kept free for the segment's largest timestamp, written when it is sealed.
        return self.count >= max_bytes // self.ENTRY_SIZE - 1

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if it says more than the last one does."""
        if timestamp > self.last()[0]:
            self._append(timestamp, offset - self.base_offset)

    def last(self) -> tuple[int, int]:
        """`(timestamp, offset)` of the last entry; `(-1, base offset)` if there is none."""
        if self._firsts:
            return self._firsts[-1], self.base_offset + self._seconds[-1]
        count = self.count
        if count == 0:
            return -1, self.base_offset
        timestamp, relative = self._read(count - 1)
        return timestamp, self.base_offset + relative

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The last entry not above `timestamp`: everything before its offset is older."""
        slot = self._largest_slot(timestamp)
        if slot < 0:
            return -1, self.base_offset
        found, relative = self._read(slot)
        return found, self.base_offset + relative

    def truncate_to(self, offset: int) -> None:
        """Keep the entries below `offset`."""
        relative = offset - self.base_offset
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self._read(middle)[1] < relative:
                low = middle + 1
            else:
                high = middle
        self._keep(low)

    def check(self, end_offset: int) -> None:
        last = self._last_entry()
        if last is not None and (
            not 0 <= last[1] < end_offset - self.base_offset or last[0] < self._read(0)[0]
        ):
            raise CorruptIndex(f"{self.path} ends in entry {last}, outside of its segment")
