"""A partition's log: what is appended to it, as its leader or as a follower.

A log is one object, told in layers: its files (`local_log.py`), what of them survives a power cut
(`durable_log.py`), what of it may be seen and how it is read (`readable_log.py`), how it gets shorter
(`truncatable_log.py`), and here how it grows.

Only the loop changes a log. Appending is checked and decided before a byte is written and takes
effect after the last one is; a failed write leaves no trace.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.config.topic import LogConfig
from barnabas.log.append_rules import rules_for
from barnabas.log.durable_log import FlushPoint
from barnabas.log.producer_state import BatchMetadata, Change, ProducerState
from barnabas.log.producer_update import find_duplicate, prepare_batches
from barnabas.log.readable_log import ReadResult
from barnabas.log.recovery import LoadedLog, Loader
from barnabas.log.segment import MAX_RELATIVE_OFFSET, Found, OpenSegments
from barnabas.log.truncatable_log import TruncatableLog
from barnabas.record.validate import (
    AppendOrigin,
    Validated,
    assign_offsets,
    validate,
    validate_replicated,
)
from barnabas.seams import Disk, Randomness
from barnabas.wire.errors import ApiError, ErrorCode

__all__ = ["AppendInfo", "AppendOrigin", "FlushPoint", "Found", "Log", "ReadResult"]

PRODUCER_EXPIRATION_MS = 86_400_000
RECENT_LIMIT = 128


class AppendInfo(NamedTuple):
    """What became of an append. A duplicate has the offsets of the first time."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class UnexpectedOffset(Exception):
    """A leader sent batches that do not continue the follower's log. `first` and `last` are the
    offsets of the batch that does not."""

    def __init__(self, message: str, first: int = -1, last: int = -1) -> None:
        super().__init__(message)
        self.first = first
        self.last = last


class Log(TruncatableLog):
    __slots__ = (
        "_client_rules",
        "_coordinator_rules",
        "_flush_messages",
        "_index_bytes",
        "_interval_bytes",
        "_raft_rules",
        "_segment_bytes",
        "_segment_ms",
        "topic_id",
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
        super().__init__(
            disk,
            directory,
            config,
            loaded,
            high_watermark=high_watermark,
            open_segments=open_segments,
            randomness=randomness,
        )
        self.topic_id = topic_id
        self.update_config(config)

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

    def belongs_to(self, topic: str, partition: int) -> None:
        """Of which partition it is, where the name of its directory does not say it."""
        self.topic, self.partition = topic, partition
        self.name = f"{topic}-{partition}"
        self.update_config(self.config)

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

    def start_leader_epoch(self, epoch: int) -> None:
        """This node leads from the log's end on."""
        self.epochs.assign(epoch, self.log_end_offset)

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
                    duplicate = find_duplicate(self.producers, headers)
                    if duplicate is not None:
                        return self._repeated(duplicate)
                change = prepare_batches(
                    self.producers,
                    headers,
                    validated.buffer,
                    check_sequence=origin is AppendOrigin.CLIENT,
                    check_epoch=True,
                )
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
                    f"{self.name} ends at {expected}, but was sent offset {header.base_offset}",
                    header.base_offset,
                    header.last_offset,
                )
            if leader_epoch is not None and header.partition_leader_epoch > leader_epoch:
                raise UnexpectedOffset(
                    f"{self.name} was sent a batch of epoch {header.partition_leader_epoch} by the "
                    f"leader of epoch {leader_epoch}"
                )
            expected = header.next_offset
        change = prepare_batches(self.producers, headers, validated.buffer)
        for header in headers:
            if header.partition_leader_epoch > self.epochs.latest:
                self.epochs.assign(header.partition_leader_epoch, header.base_offset)
        self._append(validated, expected, now_ms, change)
        return AppendInfo(headers[0].base_offset, expected - 1, -1, self.log_start_offset)

    def _repeated(self, batch: BatchMetadata) -> AppendInfo:
        return AppendInfo(
            batch.first_offset, batch.last_offset, batch.timestamp, self.log_start_offset, True
        )

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
