"""A partition's log: segments in order, and the offsets that say what of it may be seen.

    log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset
    recovery_point <= flushed_offset <= log_end_offset

Everything below the flushed offset survives a power cut; below the recovery point the indexes do so
too, and a start after a crash looks at nothing there.

Only the loop changes a log. `sync` may run in threads meanwhile, also in several at once: it looks
at the end first and at the segments then, changes nothing, and gives what it has made durable;
`note_flushed` takes that over on the loop. Appending is checked and decided before a byte is
written and takes effect after the last one is; a failed write leaves no trace.

Reads give ranges of files, never bytes. Where the last appended batches lie is remembered, so that
a consumer at the tail is answered without looking into an index or a file.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from barnabas.config.topic import LogConfig
from barnabas.log import file_names
from barnabas.log.append_rules import rules_for
from barnabas.log.disk import FileRange
from barnabas.log.producer_state import BatchMetadata, Change, ProducerState
from barnabas.log.producer_update import prepare_batch
from barnabas.log.recovery import LoadedLog, Loader, load_producers
from barnabas.log.retention import breached_segments
from barnabas.log.segment import MAX_RELATIVE_OFFSET, Found, OpenSegments, Segment
from barnabas.log.transaction_index import AbortedTransaction
from barnabas.record.validate import (
    AppendOrigin,
    Validated,
    assign_offsets,
    validate,
    validate_replicated,
)
from barnabas.seams import Disk, Randomness
from barnabas.wire.errors import ApiError, ErrorCode

__all__ = ["AppendInfo", "AppendOrigin", "Found", "Log", "ReadResult"]

logger = logging.getLogger(__name__)

PRODUCER_EXPIRATION_MS = 86_400_000
RECENT_LIMIT = 128
NO_ABORTED: list[AbortedTransaction] = []


class AppendInfo(NamedTuple):
    """What became of an append. A duplicate has the offsets of the first time."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class ReadResult(NamedTuple):
    records: FileRange | bytes
    aborted_transactions: list[AbortedTransaction]


EMPTY_READ = ReadResult(b"", NO_ABORTED)


class ActiveProducer(NamedTuple):
    """A producer as DescribeProducers shows it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


class FlushPoint(NamedTuple):
    """What a sync has made durable, unless the log was truncated meanwhile."""

    truncations: int
    end_offset: int
    recovery_point: int
    directory_version: int
    epochs_version: int


class UnexpectedOffset(Exception):
    """A leader sent batches that do not continue the follower's log."""


class Log:
    __slots__ = (
        "_active",
        "_bases",
        "_client_rules",
        "_coordinator_rules",
        "_directory_synced",
        "_directory_version",
        "_disk",
        "_doomed",
        "_flush_messages",
        "_has_aborted",
        "_index_bytes",
        "_interval_bytes",
        "_older",
        "_open_segments",
        "_raft_rules",
        "_randomness",
        "_recent",
        "_segment_bytes",
        "_segment_ms",
        "_segments",
        "cleaning",
        "config",
        "directory",
        "epochs",
        "flushed_offset",
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "name",
        "on_roll",
        "parent_directory",
        "partition",
        "producers",
        "recovery_point",
        "snapshots",
        "topic",
        "topic_id",
        "truncations",
        "unflushed_since_ms",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        loaded: LoadedLog,
        *,
        topic_id: bytes | None = None,
        high_watermark: int = 0,
        open_segments: OpenSegments | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self._disk = disk
        self.directory = directory
        self.parent_directory, _, self.name = directory.rpartition("/")
        parsed = file_names.parse_partition_directory(self.name)
        self.topic, self.partition = parsed[:2] if parsed else (self.name, 0)
        self.topic_id = topic_id
        self._open_segments = OpenSegments() if open_segments is None else open_segments
        self._randomness = randomness
        self._segments = loaded.segments
        self._active = self._segments[-1]
        self._bases = [segment.base_offset for segment in self._segments]
        self._has_aborted = False
        for segment in self._segments:
            segment.open_segments = self._open_segments
            self._has_aborted = self._has_aborted or not segment.transaction_index.is_empty
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.snapshots = loaded.snapshots
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.flushed_offset = loaded.log_end_offset
        self.recovery_point = loaded.log_end_offset
        self.high_watermark = self.log_start_offset
        self.unflushed_since_ms: int | None = None
        self.on_roll: Callable[[Log], None] | None = None
        self.cleaning = False
        self._recent: dict[int, int] = {}
        self._older: dict[int, int] = {}
        self._doomed: list[tuple[int, Segment]] = []
        self._directory_version = 0  # counts names given and taken in the directory
        self._directory_synced = 0
        self.truncations = 0
        self.update_config(config)
        self._active.jitter_ms = self._jitter_ms()
        self.update_high_watermark(min(high_watermark, self.log_end_offset))

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        config: LogConfig,
        *,
        now_ms: int,
        topic_id: bytes | None = None,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        high_watermark: int = 0,
        clean: bool = False,
        was_compacted: bool = False,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
        open_segments: OpenSegments | None = None,
        randomness: Randomness | None = None,
    ) -> Log:
        """The log in `directory`, which is made if it is not there. Not `clean`: what lies above
        the recovery point is checked and repaired. All that it then has is durable. If it
        `was_compacted`, or may have been, a gap between segments is no sign of loss."""
        if not disk.exists(directory):
            disk.make_directory(directory)
            disk.sync_directory(directory.rpartition("/")[0])
        loaded = Loader(
            disk,
            directory,
            now_ms=now_ms,
            index_interval_bytes=config.index_interval_bytes,
            was_compacted=was_compacted or config.compact,
            producer_expiration_ms=producer_expiration_ms,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            clean=clean,
        ).load()
        return cls(
            disk,
            directory,
            config,
            loaded,
            topic_id=topic_id,
            high_watermark=high_watermark,
            open_segments=open_segments,
            randomness=randomness,
        )

    def __repr__(self) -> str:
        return f"Log({self.name}, {self.log_start_offset}..{self.log_end_offset})"

    def update_config(self, config: LogConfig) -> None:
        self.config = config
        self._segment_bytes = config.segment_size
        self._index_bytes = config.segment_index_bytes
        self._interval_bytes = config.index_interval_bytes
        self._flush_messages = config.flush_messages
        # A record is not compacted while it is in the active segment, so that one must end in time.
        self._segment_ms = config.segment_ms
        if config.compact:
            self._segment_ms = min(config.segment_ms, config.max_compaction_lag_ms)
        self._client_rules = rules_for(config, self.name, AppendOrigin.CLIENT)
        self._coordinator_rules = rules_for(config, self.name, AppendOrigin.COORDINATOR)
        self._raft_rules = rules_for(config, self.name, AppendOrigin.RAFT_LEADER)

    @property
    def segments(self) -> list[Segment]:
        """All segments, oldest first; the last one is appended to. Do not change the list."""
        return self._segments

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    # -- appending

    def append_as_leader(
        self,
        records: memoryview | bytes | bytearray,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendInfo:
        """Validate, give offsets and append. Refusals are `ApiError`, a failing disk OSError."""
        if origin is AppendOrigin.CLIENT:
            rules = self._client_rules
        elif origin is AppendOrigin.COORDINATOR:
            rules = self._coordinator_rules
        else:
            rules = self._raft_rules
        validated = validate(records, rules, now_ms)
        first_offset = self.log_end_offset
        next_offset = assign_offsets(validated, first_offset, leader_epoch)
        change: Change | None = None
        continued: ProducerState | None = None
        headers = validated.headers
        header = headers[0]
        if header.producer_id >= 0 or len(headers) > 1:
            if origin is AppendOrigin.CLIENT and len(headers) == 1:
                continued = self.producers.continued_by(header)
            if continued is None:
                if origin is AppendOrigin.CLIENT:
                    duplicate = self._find_duplicate(validated)
                    if duplicate is not None:
                        return self._repeated(duplicate)
                change = self._prepare_producers(validated, origin is AppendOrigin.CLIENT, True)
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(leader_epoch, first_offset)
        self._append(validated, next_offset, now_ms, change)
        if continued is not None:
            continued.add(header)
        return AppendInfo(
            first_offset, next_offset - 1, validated.log_append_time_ms, self.log_start_offset
        )

    def append_as_follower(
        self,
        records: memoryview | bytes | bytearray,
        now_ms: int = 0,
        leader_epoch: int | None = None,
    ) -> AppendInfo | None:
        """Append what the leader sent, offsets and epochs as they are; None if it was nothing.
        A leader has nothing of an epoch after its own, `leader_epoch`."""
        validated = validate_replicated(records)
        headers = validated.headers
        if not headers:
            return None
        expected = self.log_end_offset
        for header in headers:
            if header.base_offset < expected:
                raise UnexpectedOffset(
                    f"{self.name} ends at {expected}, but was sent offset {header.base_offset}"
                )
            if leader_epoch is not None and header.partition_leader_epoch > leader_epoch:
                raise UnexpectedOffset(
                    f"{self.name} was sent a batch of epoch {header.partition_leader_epoch} by the "
                    f"leader of epoch {leader_epoch}"
                )
            expected = header.next_offset
        change = self._prepare_producers(validated, False, False)
        for header in headers:
            if header.partition_leader_epoch > self.epochs.latest:
                self.epochs.assign(header.partition_leader_epoch, header.base_offset)
        self._append(validated, expected, now_ms, change)
        return AppendInfo(headers[0].base_offset, expected - 1, -1, self.log_start_offset)

    def _repeated(self, batch: BatchMetadata) -> AppendInfo:
        return AppendInfo(
            batch.first_offset, batch.last_offset, batch.timestamp, self.log_start_offset, True
        )

    def _find_duplicate(self, validated: Validated) -> BatchMetadata | None:
        for header in validated.headers:
            if header.producer_id >= 0:
                found = self.producers.find_duplicate(
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    header.last_sequence,
                )
                if found is not None:
                    return found
        return None

    def _prepare_producers(
        self, validated: Validated, check_sequence: bool, check_epoch: bool
    ) -> Change | None:
        change: Change | None = None
        position = 0
        for header in validated.headers:
            if header.producer_id >= 0:
                if change is None:
                    change = Change()
                prepare_batch(
                    self.producers,
                    change,
                    header,
                    validated.buffer,
                    position,
                    check_sequence=check_sequence,
                    check_epoch=check_epoch,
                )
            position += header.size_in_bytes
        return change

    def _append(
        self, validated: Validated, next_offset: int, now_ms: int, change: Change | None
    ) -> None:
        buffer = validated.buffer
        size = len(buffer)
        segment_bytes = self._segment_bytes
        if size > segment_bytes:
            raise ApiError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"Message batch size is {size} bytes in append to partition {self.name}, which "
                f"exceeds the maximum configured segment size of {segment_bytes}.",
            )
        segment = self._active
        if segment.should_roll(
            size,
            next_offset - 1,
            validated.max_timestamp,
            now_ms,
            segment_bytes,
            self._segment_ms,
            self._index_bytes,
        ):
            first_offset = validated.headers[0].base_offset
            too_far = next_offset - 1 - self.log_end_offset > MAX_RELATIVE_OFFSET
            segment = self.roll(now_ms, first_offset if too_far else None)
        position = segment.size
        segment.append(buffer)
        recent = self._recent
        if len(recent) >= RECENT_LIMIT:
            self._older = recent
            recent = self._recent = {}
        interval_bytes = self._interval_bytes
        for header in validated.headers:
            base_offset = header.base_offset
            length = header.size_in_bytes
            recent[base_offset] = position
            segment.note_batch(
                position,
                length,
                base_offset + header.last_offset_delta,
                header.max_timestamp,
                interval_bytes,
            )
            position += length
        if change is not None:
            for aborted in self.producers.apply(change):
                segment.transaction_index.append(aborted)
                self._has_aborted = True
        self.log_end_offset = next_offset
        if self.unflushed_since_ms is None:
            self.unflushed_since_ms = now_ms
        if next_offset - self.flushed_offset >= self._flush_messages:
            self.flush()

    def roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Seal the active segment and start a new one, named after the log's end: so a gap between
        two segments that were never cleaned tells that something was lost. Only a follower of a
        compacted log can meet a gap that no segment can span, and names its `base_offset`."""
        sealed = self._active
        if base_offset is None:
            base_offset = self.log_end_offset
        if not sealed.size:
            return sealed
        sealed.seal()
        self.snapshots.write(base_offset, self.producers)
        self._start_segment(base_offset, now_ms)
        if self.on_roll is not None:
            self.on_roll(self)
        return self._active

    def _jitter_ms(self) -> int:
        limit_ms = min(self.config.segment_jitter_ms, self.config.segment_ms)
        if limit_ms <= 0 or self._randomness is None:
            return 0
        return self._randomness.randrange(limit_ms)

    def _start_segment(self, base_offset: int, now_ms: int) -> None:
        config = self.config
        segment = Segment.create(
            self._disk,
            self.directory,
            base_offset,
            now_ms=now_ms,
            jitter_ms=self._jitter_ms(),
            preallocate_bytes=config.segment_size if config.preallocate else 0,
        )
        segment.open_segments = self._open_segments
        self._open_segments.opened(segment)
        self._directory_version += 1
        self._segments.append(segment)
        self._bases.append(base_offset)
        self._active = segment
        self._recent = {}
        self._older = {}

    # -- reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        up_to_offset: int,
        at_least_one: bool,
        with_aborted: bool = False,
    ) -> ReadResult:
        """Batches from the one that holds `offset` on, all below `up_to_offset`, of one segment.
        The range may end inside a batch; with `at_least_one` the first is whole even if it is
        larger than `max_bytes`."""
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {offset} for partition {self.name}, but we only have "
                f"log segments upto: {end_offset}."
                if offset > end_offset
                else f"Received request for offset {offset} for partition {self.name}, but we only "
                f"have log segments in the range {self.log_start_offset} to {end_offset}.",
            )
        if offset >= up_to_offset:
            return EMPTY_READ
        position = self._recent.get(offset)
        if position is None:
            position = self._older.get(offset)
        if position is None:
            return self._search(offset, max_bytes, up_to_offset, at_least_one, with_aborted)
        segment = self._active
        end = segment.size
        if up_to_offset < end_offset:
            end = self._position_of(segment, up_to_offset)
        length = end - position
        if length > max_bytes:
            first_size = 0
            if at_least_one:
                first = segment.find(offset, position)
                first_size = first.size if first is not None else 0
            length = max(max_bytes, min(first_size, length))
        if length <= 0:
            return EMPTY_READ
        return ReadResult(
            FileRange(segment.file, position, length),
            self._aborted_in(len(self._segments) - 1, offset, position, length)
            if with_aborted and self._has_aborted
            else NO_ABORTED,
        )

    def _position_of(self, segment: Segment, offset: int) -> int:
        """Where the batch that holds `offset` begins; the end if it is not in this segment."""
        if segment is self._active:
            position = self._recent.get(offset)
            if position is not None:
                return position
        found = segment.find(offset)
        return segment.size if found is None else found.position

    def _search(
        self,
        offset: int,
        max_bytes: int,
        up_to_offset: int,
        at_least_one: bool,
        with_aborted: bool,
    ) -> ReadResult:
        slot = max(bisect_right(self._bases, offset) - 1, 0)
        while slot < len(self._segments):
            segment = self._segments[slot]
            found = segment.find(offset) if segment.size else None
            if found is None:
                slot += 1  # compaction may have taken the end of a segment
                continue
            if found.base_offset >= up_to_offset:
                return EMPTY_READ
            if slot + 1 < len(self._segments):
                bounded = up_to_offset < self._bases[slot + 1]
            else:
                bounded = up_to_offset < self.log_end_offset
            end = self._position_of(segment, up_to_offset) if bounded else segment.size
            length = end - found.position
            if length > max_bytes:
                length = max(max_bytes, min(found.size, length) if at_least_one else 0)
            if length <= 0:
                return EMPTY_READ
            return ReadResult(
                FileRange(segment.file, found.position, length),
                self._aborted_in(slot, offset, found.position, length)
                if with_aborted and self._has_aborted
                else NO_ABORTED,
            )
        return EMPTY_READ

    def _aborted_in(
        self, slot: int, offset: int, position: int, length: int
    ) -> list[AbortedTransaction]:
        upper_bound = self._segments[slot].upper_bound_offset(offset, position, length)
        if upper_bound is None:
            later = slot + 1
            upper_bound = self._bases[later] if later < len(self._bases) else self.log_end_offset
        return self.aborted_transactions(offset, upper_bound)

    def aborted_transactions(self, offset: int, upper_bound: int) -> list[AbortedTransaction]:
        """Aborted transactions with records in `[offset, upper_bound)`."""
        found: list[AbortedTransaction] = []
        slot = max(bisect_right(self._bases, offset) - 1, 0)
        for segment in self._segments[slot:]:
            if segment.collect_aborted(offset, upper_bound, found):
                break
        return found

    # -- finding

    def find_offset_by_timestamp(self, timestamp_ms: int) -> Found | None:
        """The first record whose timestamp is not before `timestamp_ms`."""
        for segment in list(self._segments):
            if segment.size and segment.max_timestamp >= timestamp_ms:
                found = segment.find_by_timestamp(timestamp_ms, self.log_start_offset)
                if found is not None:
                    return found
        return None

    def find_max_timestamp(self) -> Found | None:
        """The first of the records that have the largest timestamp."""
        best: Segment | None = None
        for segment in self._segments:
            if segment.size and (best is None or segment.max_timestamp > best.max_timestamp):
                best = segment
        if best is None or best.max_timestamp < 0:
            return None
        return best.find_by_timestamp(best.max_timestamp, self.log_start_offset)

    # -- epochs

    def start_leader_epoch(self, epoch: int) -> None:
        """This node leads from the log's end on."""
        self.epochs.assign(epoch, self.log_end_offset)

    def epoch_at(self, offset: int) -> int:
        return self.epochs.epoch_of(offset)

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset(epoch, self.log_end_offset)

    # -- what may be seen

    def update_high_watermark(self, offset: int) -> None:
        """Set the high watermark, kept within the log."""
        offset = min(max(offset, self.log_start_offset), self.log_end_offset)
        self.high_watermark = offset
        self.producers.on_high_watermark(offset)

    @property
    def last_stable_offset(self) -> int:
        """Everything below is decided: no open transaction has records there."""
        high_watermark = self.high_watermark
        unstable = self.producers.first_unstable_offset
        if unstable is not None and unstable < high_watermark:
            return max(unstable, self.log_start_offset)
        return high_watermark

    def increment_log_start_offset(self, offset: int) -> bool:
        """Nothing below `offset` is part of the log any more; True if that is news."""
        if offset > self.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} of partition {self.name} since "
                f"it is larger than the high watermark {self.high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        self.producers.on_log_start(offset)
        return True

    def active_producers(self) -> list[ActiveProducer]:
        return [
            ActiveProducer(
                state.producer_id,
                state.epoch,
                state.last_sequence,
                state.last_timestamp,
                state.coordinator_epoch,
                -1 if state.current_txn_first_offset is None else state.current_txn_first_offset,
            )
            for state in self.producers
        ]

    # -- durability

    def flush(self) -> None:
        """Make everything that is in the log now survive a power cut."""
        self.note_flushed(self.sync())

    def sync(self, *, active: bool = True) -> FlushPoint:
        """Make everything durable, or only what is sealed. Safe in a thread."""
        truncations = self.truncations
        end = self.log_end_offset
        segments = list(self._segments)
        last = segments[-1]
        directory_version = self._directory_version
        epochs_version = self.epochs.version
        first = max(
            bisect_right([each.base_offset for each in segments], self.recovery_point) - 1, 0
        )
        for segment in segments[first:-1]:
            segment.sync()
        for segment in segments[first + 1 :]:
            self.snapshots.sync(segment.base_offset)
        if active:
            # Its indexes are built anew after a crash, so they need no sync.
            last.sync(indexes=False)
        else:
            end = last.base_offset
        new_epochs = epochs_version != self.epochs.synced_version
        if new_epochs:
            self.epochs.sync()
        if new_epochs or directory_version != self._directory_synced:
            self._disk.sync_directory(self.directory)
        return FlushPoint(truncations, end, last.base_offset, directory_version, epochs_version)

    def note_flushed(self, point: FlushPoint) -> None:
        self._directory_synced = max(self._directory_synced, point.directory_version)
        self.epochs.synced_version = max(self.epochs.synced_version, point.epochs_version)
        if point.truncations != self.truncations:
            return
        self.flushed_offset = max(self.flushed_offset, point.end_offset)
        self.recovery_point = max(self.recovery_point, point.recovery_point)
        if self.flushed_offset >= self.log_end_offset:
            self.unflushed_since_ms = None

    def sync_sealed(self) -> FlushPoint:
        """Make all segments but the active one durable. Safe in a thread."""
        return self.sync(active=False)

    def flush_sealed(self) -> None:
        self.note_flushed(self.sync_sealed())

    def close(self) -> None:
        """An orderly end: everything is written and durable, a snapshot stands at the log's end."""
        if self.finish():
            self.sync_all()
        self.release()

    def finish(self) -> bool:
        """Write what an orderly end needs; False if all of it is durable already."""
        end = self.log_end_offset
        changed = (
            self.recovery_point < end
            or self._directory_version != self._directory_synced
            or self.epochs.version != self.epochs.synced_version
            or end not in self.snapshots.offsets
        )
        if changed:
            self._active.close()
            self.snapshots.write(end, self.producers)
            self._directory_version += 1
        return changed

    def sync_all(self) -> None:
        """After `finish`: make all of it durable, the active segment's indexes too. Safe in a
        thread."""
        self._active.sync()
        self.snapshots.sync(self.log_end_offset)
        self.flush()
        self.recovery_point = self.log_end_offset

    def release(self) -> None:
        """Let all files go without writing anything more than what waits in memory."""
        for segment in self._segments:
            segment.release()

    def abandon(self) -> None:
        """Let all files go and write nothing: the directory failed, or the end is not orderly."""
        for segment in self._segments:
            segment.abandon()

    # -- truncating

    def truncate_to(self, offset: int) -> bool:
        """Remove everything from `offset` on, durably; False if there was nothing."""
        if offset >= self.log_end_offset:
            # One that led and wrote nothing has an epoch at its end that nobody else knows.
            self.epochs.truncate_from_end(self.log_end_offset)
            return False
        if offset < self._bases[0]:
            self.truncate_fully_and_start_at(offset)
            return True
        logger.info("truncating %s from %d to %d", self.name, self.log_end_offset, offset)
        self.truncations += 1
        keep = bisect_right(self._bases, offset)
        for segment in reversed(self._segments[keep:]):
            self._discard(segment)
        del self._segments[keep:]
        del self._bases[keep:]
        self._active = self._segments[-1]
        # A batch goes as a whole: the log never ends inside one.
        below_start = min(offset, self.log_start_offset)
        offset = max(self._active.truncate_to(offset), below_start)
        self._disk.sync_directory(self.directory)
        self._ends_at(offset)
        load_producers(
            self.producers,
            self.snapshots,
            self._segments,
            self.log_start_offset,
            offset,
            now_ms=0,
        )
        self.update_high_watermark(min(self.high_watermark, offset))
        return True

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0) -> None:
        """Drop everything; the next record gets `offset`."""
        logger.info("removing all of %s and starting it at %d", self.name, offset)
        self.truncations += 1
        for segment in reversed(self._segments):
            self._discard(segment)
        self._segments.clear()
        self._bases.clear()
        self._start_segment(offset, now_ms)
        self.log_start_offset = offset
        self.epochs.clear()
        self.producers.clear()
        self._ends_at(offset)
        self.flushed_offset = self.recovery_point = offset
        self.high_watermark = offset

    def _discard(self, segment: Segment) -> None:
        segment.remove_files()
        self._open_segments.forget(segment)
        self.snapshots.remove(segment.base_offset)

    def _ends_at(self, offset: int) -> None:
        self.log_end_offset = offset
        self.flushed_offset = min(self.flushed_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        self._recent = {}
        self._older = {}
        self.epochs.truncate_from_end(offset)
        self.snapshots.remove_above(offset)
        self._directory_version += 1

    # -- removing what is old

    def delete_old_segments(self, now_ms: int) -> int:
        """Remove what retention by time, size and start offset lets go; how many segments."""
        count, reason = breached_segments(self, now_ms)
        if count == 0:
            return 0
        if count == len(self._segments):
            self.roll(now_ms)
            count = min(count, len(self._segments) - 1)
        doomed = self._segments[:count]
        if not doomed:
            return 0
        logger.info(
            "%s: removing %d segments up to offset %d: %s",
            self.name,
            count,
            self._bases[count] - 1,
            reason,
        )
        self.increment_log_start_offset(self._bases[count])
        self.doom(doomed, now_ms)
        del self._segments[:count]
        del self._bases[:count]
        return count

    def doom(self, segments: list[Segment], now_ms: int) -> None:
        """Mark files as deleted; `take_doomed` gives them after `file.delete.delay.ms`."""
        due_ms = now_ms + self.config.file_delete_delay_ms
        for segment in segments:
            segment.release()
            segment.change_suffix(file_names.DELETED)
            self.snapshots.remove(segment.base_offset)
            self._doomed.append((due_ms, segment))
        self._directory_version += 1

    def take_doomed(self, now_ms: int) -> list[Segment]:
        """The segments whose files may now be removed; the caller does it."""
        if not self._doomed:
            return []
        due = [segment for due_ms, segment in self._doomed if due_ms <= now_ms]
        self._doomed = [entry for entry in self._doomed if entry[0] > now_ms]
        return due

    def moved(self, directory: str) -> None:
        """The partition's directory was renamed."""
        self.directory = directory
        for segment in self._segments:
            segment.moved(directory)
        self.snapshots.moved(directory)
        self.epochs.moved(f"{directory}/{file_names.LEADER_EPOCH_CHECKPOINT}")

    def replace_segments(self, old: list[Segment], new: list[Segment], now_ms: int) -> None:
        """Put cleaned segments, complete and synced under their `.cleaned` names, in the place of
        those they were made from. After a crash in between, recovery finishes or undoes it by the
        names, which a file system keeps in the order in which they were given."""
        slot = self._segments.index(old[0])
        for segment in reversed(new):
            segment.change_suffix(file_names.SWAP)
        kept = {segment.base_offset for segment in new}
        due_ms = now_ms + self.config.file_delete_delay_ms
        for segment in old:
            segment.release()
            segment.change_suffix(file_names.DELETED)
            if segment.base_offset not in kept:
                self.snapshots.remove(segment.base_offset)
            self._doomed.append((due_ms, segment))
        for segment in new:
            segment.change_suffix("")
            segment.open_segments = self._open_segments
        self._directory_version += 1
        self._segments[slot : slot + len(old)] = new
        self._bases = [segment.base_offset for segment in self._segments]
