"""Making a log out of the files of a partition's directory.

After an orderly stop everything on disk is right, and only the end of the last segment is looked
at. After a crash the segments from the recovery point on are not trusted: every batch is checked,
the log is cut at the first one that is torn or damaged, and indexes, epochs and producers are built
anew from what remains. Unfinished work is told by the files' suffixes:

- `.deleted`: was to be removed; it is.
- `.cleaned`: the cleaner had not finished; it is removed, and what it was made from is still there.
- `.swap`: the cleaner had finished; the segments that it replaces are removed, it takes over.
"""

from __future__ import annotations

import logging
import zlib
from bisect import bisect_right
from dataclasses import dataclass
from struct import Struct

from barnabas.log import file_names
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.index import CorruptIndex
from barnabas.log.producer_snapshot import SnapshotFiles
from barnabas.log.producer_state import Change, Producers
from barnabas.log.producer_update import prepare_batch
from barnabas.log.scan import ScannedBatch, scan_batches
from barnabas.log.segment import Segment
from barnabas.log.transaction_index import AbortedTransaction
from barnabas.record.batch import verify_crc
from barnabas.record.errors import BadRecords, CorruptBatch, UnsupportedMagic
from barnabas.seams import Disk
from barnabas.wire.errors import ApiError

_OLD_FRAME = Struct(">8xiI")  # offset, length, checksum of what follows

logger = logging.getLogger(__name__)


class UnreadableLog(OSError):
    """The files are sound but of a kind that is not read here; nothing is changed."""


@dataclass(slots=True)
class LoadedLog:
    segments: list[Segment]
    epochs: LeaderEpochs
    producers: Producers
    snapshots: SnapshotFiles
    log_start_offset: int
    log_end_offset: int


class Loader:
    """Loads one partition. All of it may run in a thread: nothing is shared."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        now_ms: int,
        index_interval_bytes: int,
        was_compacted: bool,
        producer_expiration_ms: int,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        clean: bool = False,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._name = directory.rpartition("/")[2]
        self._now_ms = now_ms
        self._interval_bytes = index_interval_bytes
        self._was_compacted = was_compacted
        self._log_start_offset = log_start_offset
        self._recovery_point = recovery_point
        self._clean = clean
        self._files: dict[str, tuple[int, str, str]] = {}
        self._producers = Producers(self._name, producer_expiration_ms)

    def load(self) -> LoadedLog:
        self._list()
        self._finish_cleaning()
        segments = self._open_segments()
        self._snapshots = SnapshotFiles(
            self._disk,
            self._directory,
            [base for base, kind, suffix in self._files.values() if kind == file_names.SNAPSHOT],
        )
        self._epochs = self._load_epochs(segments)
        if self._clean:
            recovered = False
        else:
            recovered = self._recover(segments)
        end = segments[-1].next_offset() if segments else self._log_start_offset
        if end < self._log_start_offset:
            logger.warning(
                "%s ends at %d, before its log start offset %d: its segments are removed",
                self._name,
                end,
                self._log_start_offset,
            )
            self._remove_segments(segments)
            self._producers.clear()
            end = self._log_start_offset
        if not segments:
            segments.append(Segment.create(self._disk, self._directory, end, now_ms=self._now_ms))
            self._disk.sync_directory(self._directory)
        start = max(self._log_start_offset, segments[0].base_offset)
        self._epochs.truncate_from_end(end)
        self._epochs.truncate_from_start(start)
        self._snapshots.remove_above(end)
        if not recovered:
            load_producers(
                self._producers, self._snapshots, segments, start, end, now_ms=self._now_ms
            )
        self._snapshots.keep_only({segment.base_offset for segment in segments})
        for segment in segments:
            segment.release()
        return LoadedLog(segments, self._epochs, self._producers, self._snapshots, start, end)

    # -- files

    def _list(self) -> None:
        for name in self._disk.list(self._directory):
            parsed = file_names.parse_segment_file(name)
            if parsed is not None:
                self._files[name] = parsed

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _remove(self, name: str) -> None:
        self._disk.remove(self._path(name))
        del self._files[name]

    def _rename(self, name: str, base: int, kind: str) -> None:
        target = file_names.segment_file(base, kind)
        self._disk.rename(self._path(name), self._path(target))
        del self._files[name]
        self._files[target] = (base, kind, "")

    def _finish_cleaning(self) -> None:
        cleaned = [base for base, _, suffix in self._files.values() if suffix == file_names.CLEANED]
        first_cleaned = min(cleaned, default=None)
        swapped: list[int] = []
        for name, (base, kind, suffix) in list(self._files.items()):
            if suffix in (file_names.DELETED, file_names.CLEANED):
                self._remove(name)
            elif suffix == file_names.SWAP:
                # Several segments are marked from the last to the first: one that is still
                # unmarked says that the later ones are not to be used either.
                if first_cleaned is not None and base >= first_cleaned:
                    self._remove(name)
                elif kind == file_names.LOG:
                    swapped.append(base)
            elif suffix:
                del self._files[name]
        for base in swapped:
            self._finish_swap(base)
        for name, (_, _, suffix) in list(self._files.items()):
            if suffix == file_names.SWAP:
                self._remove(name)

    def _finish_swap(self, base: int) -> None:
        name = file_names.segment_file(base, file_names.LOG, file_names.SWAP)
        segment = Segment(
            self._disk,
            self._directory,
            base,
            size=self._disk.size_of(self._path(name)),
            created_ms=self._now_ms,
            suffix=file_names.SWAP,
        )
        end = base
        for batch in scan_batches(segment.file):
            end = batch.header.next_offset
        segment.release()
        logger.info("%s: finishing the replacement of offsets %d to %d", self._name, base, end)
        for old, (old_base, kind, suffix) in list(self._files.items()):
            if not suffix and kind != file_names.SNAPSHOT and base <= old_base < max(end, base + 1):
                self._remove(old)
        for new, (new_base, kind, suffix) in list(self._files.items()):
            if suffix == file_names.SWAP and new_base == base:
                self._rename(new, base, kind)

    def _open_segments(self) -> list[Segment]:
        kinds: dict[int, set[str]] = {}
        for base, kind, suffix in self._files.values():
            if not suffix:
                kinds.setdefault(base, set()).add(kind)
        segments = []
        for base in sorted(kinds):
            present = kinds[base]
            if file_names.LOG not in present:
                for kind in present - {file_names.SNAPSHOT}:
                    self._remove(file_names.segment_file(base, kind))
                continue
            segment = Segment(
                self._disk,
                self._directory,
                base,
                size=self._disk.size_of(self._path(file_names.segment_file(base, file_names.LOG))),
                created_ms=self._now_ms,
                has_transaction_index=file_names.TXN_INDEX in present,
            )
            segments.append(segment)
            try:
                if segment.size:
                    segment.check_indexes(present)
            except CorruptIndex as error:
                logger.warning(
                    "%s: building the indexes of %r anew: %s", self._name, segment, error
                )
                self._distrust(base)
        if segments and self._clean:
            try:
                segments[-1].check_last_entries()
            except CorruptIndex as error:
                logger.warning("%s: building the last indexes anew: %s", self._name, error)
                self._distrust(segments[-1].base_offset)
        return segments

    def _distrust(self, offset: int) -> None:
        self._recovery_point = offset if self._clean else min(self._recovery_point, offset)
        self._clean = False

    def _remove_segments(self, segments: list[Segment]) -> None:
        for segment in reversed(segments):
            segment.remove_files()
            self._snapshots.remove(segment.base_offset)
        segments.clear()
        self._epochs.clear()

    # -- what the batches tell

    def _load_epochs(self, segments: list[Segment]) -> LeaderEpochs:
        path = self._path(file_names.LEADER_EPOCH_CHECKPOINT)
        epochs = LeaderEpochs.load(self._disk, path)
        if epochs is None:
            epochs = LeaderEpochs(self._disk, path)
            for segment in segments:
                try:
                    for batch in scan_batches(segment.file, 0, segment.size):
                        _assign_epoch(epochs, batch)
                except BadRecords:
                    break
        return epochs

    def _recover(self, segments: list[Segment]) -> bool:
        """Check and rebuild from the segment that holds the recovery point. True if that has also
        brought the producers up to the end."""
        bases = [segment.base_offset for segment in segments]
        first = max(bisect_right(bases, self._recovery_point) - 1, 0)
        if first >= len(segments):
            return False
        start = segments[first].base_offset
        load_producers(
            self._producers,
            self._snapshots,
            segments[:first],
            min(self._log_start_offset, start),
            start,
            now_ms=self._now_ms,
        )
        self._snapshots.remove_above(start)
        self._epochs.truncate_from_end(start)
        for slot in range(first, len(segments)):
            segment = segments[slot]
            if slot > first:
                self._snapshots.write(segment.base_offset, self._producers)
            whole, end = self._recover_segment(segment)
            segment.seal()
            segment.sync()
            if slot + 1 < len(segments) and whole and not self._was_compacted:
                # Not every page reached the disk in order: what comes after a gap is not a log.
                whole = segments[slot + 1].base_offset == end
            if not whole:
                for dropped in reversed(segments[slot + 1 :]):
                    logger.warning("%s: removing %r after it", self._name, dropped)
                    dropped.remove_files()
                del segments[slot + 1 :]
                break
        self._snapshots.write(end, self._producers)
        self._snapshots.sync(end)
        self._epochs.sync()
        self._disk.sync_directory(self._directory)
        self._epochs.synced_version = self._epochs.version
        return True

    def _recover_segment(self, segment: Segment) -> tuple[bool, int]:
        """Rebuild a segment up to its first bad batch and cut it there. Gives whether it was whole,
        and the offset after its last batch."""
        segment.offset_index.clear()
        segment.time_index.clear()
        segment.transaction_index.clear()
        segment.forget_timestamps()
        position = 0
        expected = segment.base_offset
        try:
            for batch in scan_batches(segment.file, 0, segment.size):
                header = batch.header
                verify_crc(batch.buffer, header, batch.start)
                if header.base_offset < expected or header.last_offset_delta < 0:
                    raise CorruptBatch(
                        f"offsets {header.base_offset} to {header.last_offset} where at least "
                        f"{expected} was expected"
                    )
                self._replay(segment, batch)
                position = batch.position + header.size_in_bytes
                expected = header.next_offset
        except BadRecords as error:
            if isinstance(error.__cause__, UnsupportedMagic) and _is_old_message(segment, position):
                raise UnreadableLog(f"{segment!r}: {error}") from error
            logger.warning(
                "%s: cutting %d bytes off %r, which is damaged after offset %d: %s",
                self._name,
                segment.size - position,
                segment,
                expected - 1,
                error,
            )
            segment.file.truncate(position)
            segment.size = position
            return False, expected
        return True, expected

    def _replay(self, segment: Segment, batch: ScannedBatch) -> None:
        header = batch.header
        segment.note_batch(
            batch.position,
            header.size_in_bytes,
            header.last_offset,
            header.max_timestamp,
            self._interval_bytes,
        )
        _assign_epoch(self._epochs, batch)
        for aborted in replay_producers(self._producers, batch):
            segment.transaction_index.append(aborted)


def _is_old_message(segment: Segment, position: int) -> bool:
    """Is there an intact message of format 0 or 1? Torn writes may look like one at first sight."""
    length, crc = _OLD_FRAME.unpack(segment.file.read_at(position, _OLD_FRAME.size))
    start = position + _OLD_FRAME.size
    if not 0 < length - 4 <= segment.size - start:
        return False
    return bool(zlib.crc32(segment.file.read_at(start, length - 4)) == crc)


def _assign_epoch(epochs: LeaderEpochs, batch: ScannedBatch) -> None:
    header = batch.header
    if header.partition_leader_epoch > epochs.latest:
        epochs.assign(header.partition_leader_epoch, header.base_offset)


def replay_producers(producers: Producers, batch: ScannedBatch) -> list[AbortedTransaction]:
    """Take a batch that is part of the log into account; gives aborted transactions."""
    if batch.header.producer_id < 0:
        return []
    change = Change()
    try:
        prepare_batch(producers, change, batch.header, batch.buffer, batch.start)
    except ApiError as error:
        # The leader took it, so it stands, whatever we would have said.
        logger.warning("replaying a batch that would be refused: %s", error)
        return []
    return producers.apply(change)


def load_producers(
    producers: Producers,
    snapshots: SnapshotFiles,
    segments: list[Segment],
    log_start_offset: int,
    end_offset: int,
    *,
    now_ms: int,
) -> None:
    """The producers as they were at `end_offset`: the newest snapshot and the batches after it."""
    producers.clear()
    position = log_start_offset
    newest = snapshots.load_newest(end_offset)
    if newest is not None:
        position, states = newest
        for state in states:
            if not producers.is_expired(state, now_ms):
                producers.load(state)
    for slot, segment in enumerate(segments):
        later = slot + 1 < len(segments) and segments[slot + 1].base_offset <= position
        if later or position >= end_offset or not segment.size:
            continue
        found = segment.find(position)
        if found is None:
            continue
        for batch in scan_batches(segment.file, found.position, segment.size):
            if batch.header.base_offset >= end_offset:
                break
            replay_producers(producers, batch)
