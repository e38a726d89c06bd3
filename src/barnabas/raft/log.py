"""The log that the quorum keeps, `__cluster_metadata-0`: an ordinary log, and snapshots of it.

The newest snapshot and the log after it tell everything; what is before may go, and goes when the
log with its snapshots is too large or too old. A snapshot counts once it is complete on the disk.

After a crash the log is checked from its beginning: a torn batch at the end, which was never
acknowledged, is cut off.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.config.topic import LogConfig
from barnabas.log.checkpoints import write_partition_metadata
from barnabas.log.disk import FileRange
from barnabas.log.file_names import CLUSTER_METADATA_DIRECTORY, PARTITION_METADATA
from barnabas.log.log import AppendOrigin, FlushPoint, Log
from barnabas.raft.errors import LogCorrupt
from barnabas.raft.snapshot import Snapshot, SnapshotId, read_snapshot
from barnabas.record.batch import BatchHeader, iterate_batches
from barnabas.record.build import build_batch
from barnabas.record.control import (
    ControlRecord,
    ControlType,
    build_control_batch,
    read_control_records,
)
from barnabas.record.errors import BadRecords
from barnabas.record.read import batch_records
from barnabas.record.validate import RecordsRefused
from barnabas.seams import Buffer, Disk
from barnabas.wire import uuids
from barnabas.wire.errors import ErrorCode
from barnabas.wire.uuids import METADATA_TOPIC_ID

logger = logging.getLogger(__name__)

MAX_BATCH_BYTES = 8 * 1024 * 1024
_READ_BYTES = 4 * 1024 * 1024
_UNFINISHED = (".part", ".tmp")


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The settings `metadata.*` that belong to the log."""

    segment_bytes: int = 1_073_741_824
    segment_ms: int = 604_800_000
    retention_bytes: int = 104_857_600
    retention_ms: int = 604_800_000
    delete_delay_ms: int = 60_000


class LogBatch(NamedTuple):
    """One batch, read back. A control batch has `controls`, any other `values`."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp_ms: int
    size: int
    values: Sequence[bytes] = ()
    controls: Sequence[ControlRecord] = ()


@dataclass(frozen=True, slots=True)
class Validity:
    """Whether a replica may go on fetching from here. If not: where its log and this one part, or
    the snapshot that it needs because this log no longer goes back that far."""

    diverging: SnapshotId | None = None
    snapshot: SnapshotId | None = None


class PartialSnapshot:
    """A snapshot while it is fetched. It has its name only once it is complete and durable."""

    def __init__(self, disk: Disk, directory: str, snapshot: SnapshotId) -> None:
        self.id = snapshot
        self._disk = disk
        self._directory = directory
        self._path = f"{directory}/{snapshot.file_name}.part"
        self._file = disk.open(self._path, create=True)
        self._file.truncate(0)

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, data: Buffer) -> None:
        self._file.append(data)

    def complete(self) -> Snapshot:
        """Read it; `LogCorrupt`, with nothing changed, if it makes no sense."""
        found = read_snapshot(self._file.read_at(0, self._file.size), self._path)
        self._file.sync()
        self._file.close()
        self._disk.rename(self._path, f"{self._directory}/{self.id.file_name}")
        self._disk.sync_directory(self._directory)
        return found

    def drop(self) -> None:
        self._file.close()
        if self._disk.exists(self._path):
            self._disk.remove(self._path)


class MetadataLog:
    def __init__(
        self, disk: Disk, log: Log, settings: LogSettings, snapshots: list[SnapshotId]
    ) -> None:
        self._disk = disk
        self._log = log
        self._settings = settings
        self.directory = log.directory
        self.snapshots = snapshots
        self.last_timestamp_ms = -1

    @classmethod
    def open(cls, disk: Disk, parent: str, settings: LogSettings, now_ms: int) -> MetadataLog:
        """The log in the directory `parent`, made if it is not there."""
        directory = f"{parent}/{CLUSTER_METADATA_DIRECTORY}"
        _remove_unfinished(disk, directory)
        snapshots = find_snapshots(disk, directory)
        config = LogConfig(
            segment_bytes=settings.segment_bytes,
            segment_ms=settings.segment_ms,
            max_message_bytes=MAX_BATCH_BYTES,
            retention_ms=-1,
            retention_bytes=-1,
            file_delete_delay_ms=settings.delete_delay_ms,
        )
        log = Log.open(
            disk,
            directory,
            config,
            now_ms=now_ms,
            topic_id=METADATA_TOPIC_ID,
            log_start_offset=snapshots[0].offset if snapshots else 0,
        )
        path = f"{directory}/{PARTITION_METADATA}"
        if not disk.exists(path):
            write_partition_metadata(disk, path, uuids.to_text(METADATA_TOPIC_ID))
        found = cls(disk, log, settings, snapshots)
        found._settle(now_ms)
        return found

    def _settle(self, now_ms: int) -> None:
        """Make log and snapshots fit: together they must tell everything from the beginning."""
        newest = self.latest_snapshot
        if newest is not None and newest.offset > self._log.log_end_offset:
            logger.warning(
                "the metadata log ends at %d, before its snapshot at %d: going on from there",
                self._log.log_end_offset,
                newest.offset,
            )
            self._log.truncate_fully_and_start_at(newest.offset, now_ms)
        elif newest is not None and self._log.log_start_offset < newest.offset:
            epoch = self._log.epoch_at(newest.offset - 1)
            if epoch != newest.epoch:
                logger.warning(
                    "the metadata log has epoch %d where its snapshot at %d has %d: going on from "
                    "the snapshot",
                    epoch,
                    newest.offset,
                    newest.epoch,
                )
                self._log.truncate_fully_and_start_at(newest.offset, now_ms)
        start = self._log.log_start_offset
        if start > 0 and (newest is None or newest.offset < start):
            raise LogCorrupt(
                f"{self.directory} starts at offset {start} and has no snapshot of what was before"
            )
        self._log.update_high_watermark(0 if newest is None else newest.offset)

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._log.log_end_offset

    @property
    def size(self) -> int:
        return self._log.size

    @property
    def flushed_offset(self) -> int:
        return self._log.flushed_offset

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark

    @property
    def last_epoch(self) -> int:
        """The epoch of the last batch, or of the newest snapshot; 0 in an empty log."""
        newest = self.latest_snapshot
        return max(self._log.epochs.latest, 0 if newest is None else newest.epoch, 0)

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self.snapshots[-1] if self.snapshots else None

    # ---- reading

    def read_snapshot(self, snapshot: SnapshotId) -> Snapshot:
        path = f"{self.directory}/{snapshot.file_name}"
        return read_snapshot(self._disk.read_file(path), path)

    def read(self, offset: int, max_bytes: int) -> FileRange | bytes:
        """Batches from `offset` on, committed or not, as they go to another replica."""
        return self._log.read(offset, max_bytes, self.end_offset, True).records

    def batches(self, offset: int, up_to_offset: int | None = None) -> Iterator[LogBatch]:
        """Every batch from `offset` on, up to the end of the log or to the end of a batch."""
        while offset < (self.end_offset if up_to_offset is None else up_to_offset):
            end = self.end_offset if up_to_offset is None else up_to_offset
            found = self._log.read(offset, _READ_BYTES, end, True)
            data = found.records if isinstance(found.records, bytes) else found.records.read()
            before = offset
            try:
                for header, start, _end in iterate_batches(data, partial_tail=True):
                    offset = header.next_offset
                    yield _batch(data, header, start)
            except BadRecords as error:
                raise LogCorrupt(
                    f"{self.directory} cannot be read at offset {offset}: {error}"
                ) from error
            if offset == before:
                raise LogCorrupt(f"{self.directory} ends inside a batch at offset {offset}")

    # ---- appending

    def append(self, values: Iterable[bytes], epoch: int, now_ms: int) -> int:
        """One batch of records; gives the last one's offset. Nothing is durable before `sync`."""
        return self._append(build_batch([(now_ms, None, v, ()) for v in values]), epoch, now_ms)

    def append_control(
        self, controls: Iterable[tuple[ControlType, bytes]], epoch: int, now_ms: int
    ) -> int:
        return self._append(build_control_batch(controls, timestamp_ms=now_ms), epoch, now_ms)

    def _append(self, batch: bytearray, epoch: int, now_ms: int) -> int:
        info = self._log.append_as_leader(
            memoryview(batch), epoch, now_ms, AppendOrigin.RAFT_LEADER
        )
        self.last_timestamp_ms = now_ms
        return info.last_offset

    def append_replicated(self, records: Buffer, epoch: int, now_ms: int) -> None:
        """Append what the leader of `epoch` sent, or nothing of it if it cannot be its log."""
        for header, _start, _end in iterate_batches(records, partial_tail=True):
            if header.partition_leader_epoch > epoch:
                raise RecordsRefused(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"a batch of epoch {header.partition_leader_epoch} from the leader of {epoch}",
                )
        info = self._log.append_as_follower(records, now_ms)
        if info is not None:
            self.last_timestamp_ms = now_ms

    def sync(self) -> FlushPoint:
        """Make what is in the log now durable. Safe in a thread; `note_synced` makes it count."""
        return self._log.sync()

    def note_synced(self, point: FlushPoint) -> None:
        self._log.note_flushed(point)

    def advance_high_watermark(self, offset: int) -> None:
        self._log.update_high_watermark(max(offset, self._log.high_watermark))

    # ---- where this log and another one part

    def end_offset_for_epoch(self, epoch: int) -> SnapshotId:
        """The last epoch of this log that is not after `epoch`, and where it ends."""
        oldest = self.snapshots[0] if self.snapshots else SnapshotId(0, 0)
        before = oldest.epoch if oldest.offset <= self.start_offset else 0
        end = self.end_offset
        for known, start in reversed(self._log.epochs.entries()):
            if known <= epoch:
                return SnapshotId(end, known)
            end = start
        return SnapshotId(end, min(before, epoch))

    def validate(self, offset: int, epoch: int) -> Validity:
        """Can a replica whose log ends at `offset`, in `epoch`, go on from there?"""
        if self.start_offset == offset == epoch == 0:
            return Validity()
        if self.snapshots:
            oldest = self.snapshots[0]
            start = self.start_offset
            if (
                offset < start
                or epoch < oldest.epoch
                or (offset == start and epoch != oldest.epoch)
            ):
                return Validity(snapshot=self.snapshots[-1])
        end = self.end_offset_for_epoch(epoch)
        if end.epoch != epoch or end.offset < offset:
            return Validity(diverging=end)
        return Validity()

    def truncate_to_agree(self, end: SnapshotId) -> int:
        """Cut off what the leader, in whose log an epoch ends at `end`, does not have."""
        own = self.end_offset_for_epoch(end.epoch)
        offset = min(own.offset, end.offset) if own.epoch == end.epoch else own.offset
        if offset < self._log.high_watermark:
            raise LogCorrupt(
                f"{self.directory} is committed up to {self._log.high_watermark}, but its leader's "
                f"log differs from offset {offset} on"
            )
        self._log.truncate_to(offset)
        return self.end_offset

    # ---- snapshots and what they make superfluous

    def snapshot_size(self, snapshot: SnapshotId) -> int | None:
        """None if there is no such snapshot."""
        return self._size_of(snapshot) if snapshot in self.snapshots else None

    def read_snapshot_part(self, snapshot: SnapshotId, position: int, max_bytes: int) -> FileRange:
        file = self._disk.open(f"{self.directory}/{snapshot.file_name}")
        return FileRange(file, position, min(max_bytes, file.size - position))

    def new_snapshot(self, snapshot: SnapshotId) -> PartialSnapshot:
        """A snapshot that is to be fetched from the leader."""
        return PartialSnapshot(self._disk, self.directory, snapshot)

    def start_at_snapshot(self, snapshot: SnapshotId, now_ms: int) -> None:
        """Forget the log: a snapshot that is durable replaces it."""
        self.snapshot_stored(snapshot)
        self._log.truncate_fully_and_start_at(snapshot.offset, now_ms)
        for old in [each for each in self.snapshots if each != snapshot]:
            self.snapshots.remove(old)
            self._disk.remove(f"{self.directory}/{old.file_name}")
        self._disk.sync_directory(self.directory)

    def store_snapshot(self, snapshot: SnapshotId, data: bytes) -> None:
        """Write a snapshot durably. Blocks; `snapshot_stored` makes it count."""
        self._disk.write_atomically(f"{self.directory}/{snapshot.file_name}", data)

    def snapshot_stored(self, snapshot: SnapshotId) -> None:
        self.snapshots = sorted({*self.snapshots, snapshot})

    def clean(self, now_ms: int) -> None:
        """Let old snapshots and the segments before them go; the newest snapshot always stays."""
        while len(self.snapshots) > 1:
            oldest, following = self.snapshots[0], self.snapshots[1]
            if following.offset > self._log.high_watermark or not self._may_go(oldest, now_ms):
                break
            self._log.increment_log_start_offset(following.offset)
            del self.snapshots[0]
            self._disk.remove(f"{self.directory}/{oldest.file_name}")
            logger.info("removed the snapshot %s of the metadata log", oldest.file_name)
        self._log.delete_old_segments(now_ms)
        for segment in self._log.take_doomed(now_ms):
            segment.remove_files()

    def _may_go(self, snapshot: SnapshotId, now_ms: int) -> bool:
        settings = self._settings
        total = self._log.size + sum(self._size_of(each) for each in self.snapshots)
        if 0 <= settings.retention_bytes < total:
            return True
        path = f"{self.directory}/{snapshot.file_name}"
        return 0 <= settings.retention_ms < now_ms - self._disk.modified_ms(path)

    def _size_of(self, snapshot: SnapshotId) -> int:
        return self._disk.size_of(f"{self.directory}/{snapshot.file_name}")

    def close(self) -> None:
        self._log.close()

    def abandon(self) -> None:
        """Let the files go and write nothing more: the disk failed."""
        self._log.abandon()


def _batch(data: bytes, header: BatchHeader, start: int) -> LogBatch:
    common = (
        header.base_offset,
        header.last_offset,
        header.partition_leader_epoch,
        header.max_timestamp,
        header.size_in_bytes,
    )
    if header.is_control:
        return LogBatch(*common, controls=read_control_records(data, header, start))
    values = [value or b"" for _o, _t, _k, value, _h in batch_records(data, header, start)]
    return LogBatch(*common, values=values)


def find_snapshots(disk: Disk, directory: str) -> list[SnapshotId]:
    """Those that are there, oldest first."""
    if not disk.exists(directory):
        return []
    return sorted(
        snapshot
        for name in disk.list(directory)
        if (snapshot := SnapshotId.parse(name)) is not None
    )


def _remove_unfinished(disk: Disk, directory: str) -> None:
    """What an interrupted write of a snapshot left."""
    if not disk.exists(directory):
        return
    for name in disk.list(directory):
        if ".checkpoint" in name and name.endswith(_UNFINISHED):
            disk.remove(f"{directory}/{name}")
