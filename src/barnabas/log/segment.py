"""A segment: one `.log` file of batches and the three indexes beside it.

Only the last segment of a log is appended to; the others are sealed and never change, until they
are removed or replaced by compaction. Files are opened when first used and may be let go at any
time (`OpenSegments` bounds how many are open). `size` is the truth about how much of the file is
log: nothing beyond it is ever read.

Nothing that an index says is believed: the batch that it points to must be the one it speaks of.
An index that is found wrong is built anew from the log, whatever the reason why it came to be so.

Invariants: batches ascend in offset, the first one is not below `base_offset`, and every offset is
within an int32 of it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import NamedTuple

from barnabas.log import file_names
from barnabas.log.disk import FileRange
from barnabas.log.index import CorruptIndex, OffsetIndex, TimeIndex
from barnabas.log.scan import FoundBatch, Misplaced, find_batch, find_last_batch, scan_batches
from barnabas.log.transaction_index import AbortedTransaction, TransactionIndex
from barnabas.record.batch import BATCH_OVERHEAD, BatchHeader, read_header
from barnabas.record.errors import BadRecords
from barnabas.record.read import batch_records
from barnabas.seams import Disk, DiskFile

logger = logging.getLogger(__name__)

MAX_RELATIVE_OFFSET = 0x7FFFFFFF
REBUILT_INTERVAL_BYTES = 4096
NO_TIMESTAMP = -1


class Found(NamedTuple):
    """What a search by timestamp found."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class OpenSegments:
    """Segments whose `.log` file is open, in the order of opening: the oldest is let go when there
    are too many. That one in use is opened again costs less than counting every use."""

    def __init__(self, limit: int = 512) -> None:
        self.limit = limit
        self._segments: dict[Segment, None] = {}

    def __len__(self) -> int:
        return len(self._segments)

    def opened(self, segment: Segment) -> None:
        segments = self._segments
        segments.pop(segment, None)
        if len(segments) >= self.limit:
            oldest = next(iter(segments))
            del segments[oldest]
            oldest.release()
        segments[segment] = None

    def forget(self, segment: Segment) -> None:
        self._segments.pop(segment, None)


class Segment:
    __slots__ = (
        "_bytes_since_index_entry",
        "_directory",
        "_disk",
        "_file",
        "_first_timestamp",
        "_max_timestamp",
        "_max_timestamp_offset",
        "base_offset",
        "created_ms",
        "jitter_ms",
        "offset_index",
        "open_segments",
        "size",
        "suffix",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        *,
        size: int,
        created_ms: int,
        jitter_ms: int = 0,
        has_transaction_index: bool = False,
        suffix: str = "",
    ) -> None:
        self._disk = disk
        self._directory = directory
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms
        self.suffix = suffix
        self.open_segments: OpenSegments | None = None
        self._file: DiskFile | None = None
        self._bytes_since_index_entry = 0
        self._first_timestamp: int | None = None
        self._max_timestamp: int | None = None  # None: not yet read from the time index
        self._max_timestamp_offset = base_offset
        self.offset_index = OffsetIndex(disk, self.path(file_names.OFFSET_INDEX), base_offset)
        self.time_index = TimeIndex(disk, self.path(file_names.TIME_INDEX), base_offset)
        self.transaction_index = TransactionIndex(
            disk, self.path(file_names.TXN_INDEX), base_offset, exists=has_transaction_index
        )

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: str,
        base_offset: int,
        *,
        now_ms: int,
        jitter_ms: int = 0,
        preallocate_bytes: int = 0,
        suffix: str = "",
    ) -> Segment:
        """A new, empty segment. What files of that name were there are emptied."""
        segment = cls(
            disk,
            directory,
            base_offset,
            size=0,
            created_ms=now_ms,
            jitter_ms=jitter_ms,
            suffix=suffix,
        )
        file = segment._file = disk.open(segment.path(file_names.LOG), create=True)
        if file.size:
            file.truncate(0)
        if preallocate_bytes:
            file.preallocate(preallocate_bytes)
        segment._max_timestamp = NO_TIMESTAMP
        segment.offset_index.clear()
        segment.time_index.clear()
        segment.offset_index.release()
        segment.time_index.release()
        return segment

    def __repr__(self) -> str:
        return f"Segment({self.path(file_names.LOG)}, size={self.size})"

    def path(self, kind: str) -> str:
        name = file_names.segment_file(self.base_offset, kind, self.suffix)
        return f"{self._directory}/{name}"

    @property
    def file(self) -> DiskFile:
        file = self._file
        if file is None:
            file = self._file = self._disk.open(self.path(file_names.LOG))
            file.size = self.size
            if self.open_segments is not None:
                self.open_segments.opened(self)
        return file

    # -- appending

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Write batches to the end. The caller tells of each with `note_batch`."""
        file = self._file or self.file
        file.append(data)
        self.size = file.size

    def note_batch(
        self, position: int, size: int, last_offset: int, max_timestamp: int, interval_bytes: int
    ) -> None:
        """Index a batch that was written at `position`."""
        known = self._max_timestamp
        if known is None:
            known = self.max_timestamp
        if max_timestamp > known:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if position == 0:
            self._first_timestamp = max_timestamp
        since = self._bytes_since_index_entry
        if since > interval_bytes:
            self.offset_index.append(last_offset, position)
            self._append_time_entry()
            since = 0
        self._bytes_since_index_entry = since + size

    def _append_time_entry(self) -> None:
        timestamp = self.max_timestamp
        if timestamp >= 0:
            self.time_index.maybe_append(timestamp, self._max_timestamp_offset)

    def should_roll(
        self,
        size: int,
        last_offset: int,
        max_timestamp: int,
        now_ms: int,
        segment_bytes: int,
        segment_ms: int,
        index_bytes: int,
    ) -> bool:
        """Must a new segment be started before batches of `size` bytes are appended?"""
        if not self.size:
            return False
        if self.size + size > segment_bytes:
            return True
        if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if self._waited_ms(max_timestamp, now_ms) > segment_ms - self.jitter_ms:
            return True
        return self.offset_index.is_full(index_bytes) or self.time_index.is_full(index_bytes)

    def _waited_ms(self, max_timestamp: int, now_ms: int) -> int:
        first = self._first_timestamp
        if first is None:
            first = self.first_timestamp
        if first >= 0 and max_timestamp >= 0:
            return max_timestamp - first
        return now_ms - self.created_ms

    # -- times

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, which rolling by time counts from; or -1."""
        if self._first_timestamp is None:
            if not self.size:
                return NO_TIMESTAMP
            first = next(iter(scan_batches(self.file, 0, self.size, chunk_size=512)), None)
            self._first_timestamp = NO_TIMESTAMP if first is None else first.header.max_timestamp
        return self._first_timestamp

    @property
    def max_timestamp(self) -> int:
        if self._max_timestamp is None:
            self._max_timestamp, self._max_timestamp_offset = self.time_index.last()
            self._let_go_if_unused()
        return self._max_timestamp

    def _let_go_if_unused(self) -> None:
        """`OpenSegments` knows of segments whose log is open; an index alone must not stay open."""
        if self._file is None:
            self.time_index.release()
            self.transaction_index.release()

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the batch that has the largest timestamp."""
        if self._max_timestamp is None:
            _ = self.max_timestamp
        return self._max_timestamp_offset

    @property
    def largest_timestamp(self) -> int:
        """What retention by time looks at: the records', else the file's own."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self.modified_ms

    @property
    def modified_ms(self) -> int:
        return self._disk.modified_ms(self.path(file_names.LOG))

    # -- reading

    def find(self, offset: int, from_position: int = 0) -> FoundBatch | None:
        """The batch that holds `offset`, or the first one after it."""
        position = max(self.offset_index.lookup(offset)[1], from_position)
        try:
            return find_batch(self.file, position, self.size, offset)
        except Misplaced as error:
            self._rebuild_indexes(error)
        position = self.offset_index.lookup(offset)[1]
        return find_batch(self.file, position, self.size, offset)

    def _rebuild_indexes(self, reason: Exception | str) -> None:
        logger.warning("building the indexes of %r anew: %s", self, reason)
        self.offset_index.clear()
        self.time_index.clear()
        self.forget_timestamps()
        for batch in scan_batches(self.file, 0, self.size):
            header = batch.header
            self.note_batch(
                batch.position,
                header.size_in_bytes,
                header.last_offset,
                header.max_timestamp,
                REBUILT_INTERVAL_BYTES,
            )
        self._append_time_entry()
        self.write_waiting()

    def range(self, position: int, length: int) -> FileRange:
        return FileRange(self._file or self.file, position, length)

    def upper_bound_offset(self, offset: int, position: int, length: int) -> int | None:
        found = self.offset_index.upper_bound(offset, position, length)
        if found is None:
            return None
        try:
            batch = find_batch(self.file, found[1], self.size, found[0])
        except Misplaced:
            return None
        return None if batch is None else found[0]

    def find_by_timestamp(self, timestamp: int, from_offset: int) -> Found | None:
        """The first record at or after `from_offset` that is not older than `timestamp`."""
        position = self._position_by_timestamp(timestamp, from_offset)
        for batch in scan_batches(self.file, position, self.size):
            header = batch.header
            if header.max_timestamp < timestamp or header.last_offset < from_offset:
                continue
            for record in batch_records(batch.buffer, header, batch.start):
                if record[1] >= timestamp and record[0] >= from_offset:
                    return Found(record[1], record[0], header.partition_leader_epoch)
        return None

    def _position_by_timestamp(self, timestamp: int, from_offset: int) -> int:
        """Where the search for a timestamp begins: nothing before is as young as that."""
        known_ms, offset = self.time_index.lookup(timestamp)
        if known_ms >= 0 or offset != self.base_offset:
            pointed = self.find(offset)
            header = None if pointed is None else self._header_at(pointed.position)
            if header is None or header.max_timestamp != known_ms:
                self._rebuild_indexes(f"no batch has {known_ms} as its timestamp at {offset}")
                offset = self.time_index.lookup(timestamp)[1]
        found = self.find(max(offset, from_offset))
        return self.size if found is None else found.position

    def _header_at(self, position: int) -> BatchHeader:
        return read_header(self.file.read_at(position, BATCH_OVERHEAD), 0)

    def find_max_timestamp(self) -> Found | None:
        """The first record that has the largest timestamp of this segment."""
        timestamp = self.max_timestamp
        return None if timestamp < 0 else self.find_by_timestamp(timestamp, self.base_offset)

    def collect_aborted(
        self, offset: int, upper_bound: int, found: list[AbortedTransaction]
    ) -> bool:
        """Add what touches `[offset, upper_bound)`; True if later segments cannot matter."""
        if self.transaction_index.is_empty:
            return False
        complete = self.transaction_index.collect(offset, upper_bound, found)
        self._let_go_if_unused()
        return complete

    def check_indexes(self, present: Collection[str]) -> None:
        """`CorruptIndex` if an index is missing or cut, as far as that can be told without reading
        the large ones."""
        for index, kind in (
            (self.offset_index, file_names.OFFSET_INDEX),
            (self.time_index, file_names.TIME_INDEX),
        ):
            if kind not in present:
                raise CorruptIndex(f"{index.path} is missing")
            index.check_size()
        if not self.transaction_index.is_empty:
            self.transaction_index.check()
            self.transaction_index.release()

    def check_last_entries(self) -> None:
        """`CorruptIndex` if an index ends in an entry that cannot be right."""
        self.offset_index.check(self.size)
        self.time_index.check(self.next_offset())

    def next_offset(self) -> int:
        """The offset after the last batch, found by walking from the last index entry."""
        last = find_last_batch(self.file, self.offset_index.last()[1], self.size)
        return self.base_offset if last is None else last.last_offset + 1

    # -- changing

    def truncate_to(self, offset: int) -> int:
        """Remove the batches from the one that holds `offset` on; gives the offset that is next."""
        found = self.find(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        if found is None:
            return offset
        self.file.truncate(found.position)
        self.size = found.position
        if not self.size:
            self._first_timestamp = None
        self._bytes_since_index_entry = 0
        self._max_timestamp = None
        self._reload_max_timestamp()
        self.file.sync()
        return min(offset, found.base_offset)

    def _reload_max_timestamp(self) -> None:
        """The time index may lag behind the tail by one interval: look at the rest."""
        timestamp, offset = self.time_index.last()
        try:
            for batch in scan_batches(self.file, self.offset_index.last()[1], self.size):
                if batch.header.max_timestamp > timestamp:
                    timestamp, offset = batch.header.max_timestamp, batch.header.last_offset
        except BadRecords:
            pass  # recovery finds and cuts it
        self._max_timestamp, self._max_timestamp_offset = timestamp, offset

    def forget_timestamps(self) -> None:
        """The segment is about to be indexed anew, batch by batch."""
        self._first_timestamp = None
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = self.base_offset
        self._bytes_since_index_entry = 0

    def seal(self) -> None:
        """No append comes after this."""
        self._append_time_entry()
        self.offset_index.trim()
        self.time_index.trim()
        self.offset_index.release()
        self.time_index.release()
        file = self._file
        if file is not None:
            file.truncate(self.size)

    def write_waiting(self) -> None:
        """Give index entries that wait in memory to the operating system."""
        self.offset_index.write_waiting()
        self.time_index.write_waiting()

    def sync(self, *, indexes: bool = True) -> None:
        """Make what the operating system has of this segment durable. Safe in another thread: files
        are opened anew, and one that retention has removed meanwhile needs no sync."""
        file = self._file
        try:
            if file is None:
                file = self._disk.open(self.path(file_names.LOG))
            file.sync()
            if indexes:
                for kind in self.kinds()[1:]:
                    self._disk.open(self.path(kind)).sync()
        except FileNotFoundError:
            return

    def release(self) -> None:
        """Let the files go; they are closed when no reader has them any more."""
        self._file = None
        if self.open_segments is not None:
            self.open_segments.forget(self)
        self.offset_index.release()
        self.time_index.release()
        self.transaction_index.release()

    def abandon(self) -> None:
        """Let the files go as they are."""
        self._file = None
        if self.open_segments is not None:
            self.open_segments.forget(self)
        self.offset_index.abandon()
        self.time_index.abandon()
        self.transaction_index.release()

    def close(self) -> None:
        """An orderly end: the last time index entry is written."""
        if self._max_timestamp is not None:
            self._append_time_entry()
        self.write_waiting()
        if self._file is not None:
            self._file.truncate(self.size)
        self.release()

    # -- names

    def kinds(self) -> list[str]:
        kinds = [file_names.LOG, file_names.OFFSET_INDEX, file_names.TIME_INDEX]
        if not self.transaction_index.is_empty:
            kinds.append(file_names.TXN_INDEX)
        return kinds

    def change_suffix(self, suffix: str) -> None:
        """Rename all files, the log first: its name decides what the segment is. After a crash in
        between, indexes that do not follow it are dropped and built anew."""
        before = {kind: self.path(kind) for kind in self.kinds()}
        self.suffix = suffix
        for kind, path in before.items():
            try:
                self._disk.rename(path, self.path(kind))
            except FileNotFoundError:
                if kind == file_names.LOG:
                    raise
        self._moved()

    def moved(self, directory: str) -> None:
        """The directory was renamed."""
        self._directory = directory
        self._moved()

    def _moved(self) -> None:
        self.offset_index.moved(self.path(file_names.OFFSET_INDEX))
        self.time_index.moved(self.path(file_names.TIME_INDEX))
        self.transaction_index.moved(self.path(file_names.TXN_INDEX))

    def remove_files(self) -> None:
        """Whoever still reads the files keeps reading them."""
        paths = [self.path(kind) for kind in (*self.kinds(), file_names.TXN_INDEX)]
        self._file = None
        for path in dict.fromkeys(paths):
            try:
                self._disk.remove(path)
            except FileNotFoundError:
                continue
