"""Reading a log, and the offsets that say what of it may be seen.

    log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset

Reads give ranges of files, never bytes. Where the last appended batches lie is remembered, so that
a consumer at the tail is answered without looking into an index or a file.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from barnabas.config.topic import LogConfig
from barnabas.log.disk import FileRange
from barnabas.log.durable_log import DurableLog
from barnabas.log.recovery import LoadedLog
from barnabas.log.segment import Found, OpenSegments, Segment
from barnabas.log.transaction_index import AbortedTransaction
from barnabas.seams import Disk, Randomness
from barnabas.wire.errors import ApiError, ErrorCode

NO_ABORTED: list[AbortedTransaction] = []


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


class ReadableLog(DurableLog):
    __slots__ = ("high_watermark", "log_start_offset")

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        loaded: LoadedLog,
        *,
        high_watermark: int,
        open_segments: OpenSegments | None,
        randomness: Randomness | None,
    ) -> None:
        super().__init__(
            disk, directory, config, loaded, open_segments=open_segments, randomness=randomness
        )
        self.log_start_offset = loaded.log_start_offset
        self.high_watermark = self.log_start_offset
        self.update_high_watermark(high_watermark)

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

    def epoch_at(self, offset: int) -> int:
        return self.epochs.epoch_of(offset)

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset(epoch, self.log_end_offset)

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
