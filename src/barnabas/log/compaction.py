"""Compacting one log: of every key only the last record stays, and stays at its offset.

Two passes, both over sealed segments and both outside of the loop. The first reads the dirty part
and notes the last offset of every key. The second copies all segments from the start up to where
the first pass came, leaving out what a later record replaces, and writes the result as `.cleaned`
files. The loop then puts these in the place of the old ones (`Log.replace_segments`).

The work is a generator that tells from time to time how many bytes it has read and written: there
it can be left for a while, if the disk is to be spared.

What stays:
- the last record of a key; a tombstone until its delete horizon, which is `delete.retention.ms`
  after the first round that found it and is kept in the batch's header;
- batches of a producer whose last one they are, if need be without records, so that its sequence
  numbers are not forgotten;
- transaction markers as long as they decide about records, and then until a delete horizon.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field

from barnabas.config.topic import LogConfig
from barnabas.log import file_names
from barnabas.log.cleaned_transactions import CleanedTransactions
from barnabas.log.offset_map import OffsetMap
from barnabas.log.scan import ScannedBatch, scan_batches
from barnabas.log.segment import MAX_RELATIVE_OFFSET, Segment
from barnabas.log.transaction_index import AbortedTransaction
from barnabas.record.batch import (
    BATCH_OVERHEAD,
    CODEC_MASK,
    DELETE_HORIZON_MASK,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    read_header,
)
from barnabas.record.build import seal_batch
from barnabas.record.kernels import RecordsBuilder, decode_records, record_spans
from barnabas.record.read import batch_body
from barnabas.seams import Disk

logger = logging.getLogger(__name__)

_WRITE_AT_ONCE = 1 << 20
_STEP_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class LastOfProducer:
    """A producer's last data batch, by its last offset; None if only markers are left."""

    epoch: int
    last_data_offset: int | None


@dataclass(slots=True)
class CompactionJob:
    """Everything a round needs, taken from the log while the loop stands still.

    `segments` are all sealed segments up to the first one that may not be cleaned; `first_dirty` is
    where the last round ended, `end` where this one must end at the latest. `aborted` are all aborted
    transactions with records below `end`: their markers may lie beyond it.
    """

    disk: Disk
    directory: str
    config: LogConfig
    segments: list[Segment]
    first_dirty: int
    end: int
    now_ms: int
    map_bytes: int
    aborted: list[AbortedTransaction]
    last_of_producers: Mapping[int, LastOfProducer]


@dataclass(slots=True)
class Compacted:
    """The result: pairs of old and new segments, and where the next round begins."""

    first_dirty: int
    replacements: list[tuple[list[Segment], list[Segment]]] = field(default_factory=list)
    bytes_before: int = 0
    bytes_after: int = 0


class Compaction:
    def __init__(self, job: CompactionJob) -> None:
        self._job = job
        self._map = OffsetMap(job.map_bytes)
        self._moved = 0

    def steps(self) -> Generator[int, None, Compacted]:
        """Gives the bytes moved since the last step, and the result at the end. May run in threads,
        one after another: files are opened anew, and only `.cleaned` ones are written."""
        job = self._job
        end = yield from self._build_map()
        result = Compacted(first_dirty=end)
        segments = [segment for segment in job.segments if segment.base_offset < end]
        transactions = CleanedTransactions(job.aborted)
        for group in self._groups(segments):
            cleaned = yield from self._clean_group(group, transactions)
            result.replacements.append((group, [cleaned]))
            result.bytes_before += sum(segment.size for segment in group)
            result.bytes_after += cleaned.size
        yield self._step()
        return result

    def _step(self) -> int:
        moved, self._moved = self._moved, 0
        return moved

    # -- first pass

    def _build_map(self) -> Generator[int, None, int]:
        job = self._job
        dirty = [
            segment
            for segment, following in _with_next(job.segments, job.end)
            if following > job.first_dirty
        ]
        transactions = CleanedTransactions(job.aborted)
        for segment in dirty:
            reader = _copy(job, segment)
            for batch in scan_batches(reader.file, 0, reader.size):
                header = batch.header
                if header.base_offset >= job.end:
                    return job.end
                if self._map.is_full:
                    logger.info("%s: the key map is full", job.directory)
                    return self._map.latest_offset + 1
                if header.is_control:
                    transactions.is_needless_marker(header, batch.buffer, batch.start)
                elif not transactions.is_aborted(header):
                    self._note_keys(batch)
                if header.last_offset >= job.first_dirty:
                    self._map.latest_offset = header.last_offset
                self._moved += header.size_in_bytes
                if self._moved >= _STEP_BYTES:
                    yield self._step()
        return job.end

    def _note_keys(self, batch: ScannedBatch) -> None:
        header = batch.header
        if header.last_offset < self._job.first_dirty:
            return
        base = header.base_offset
        put = self._map.put
        body, start, end = batch_body(batch.buffer, header, batch.start)
        for _, _, delta, _, key, _ in record_spans(body, start, end, header.record_count):
            if key is not None and base + delta >= self._job.first_dirty:
                put(key, base + delta)

    # -- second pass

    def _groups(self, segments: list[Segment]) -> Iterator[list[Segment]]:
        """Neighbours that fit into one segment together."""
        job = self._job
        limit = job.config.segment_size
        index_limit = job.config.segment_index_bytes
        group: list[Segment] = []
        size = index_size = 0
        for segment, following in _with_next(segments, job.end):
            entries = job.disk.size_of(segment.path(file_names.OFFSET_INDEX))
            fits = (
                size + segment.size <= limit
                and index_size + entries <= index_limit
                and group
                and following - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET
            )
            if group and not fits:
                yield group
                group = []
                size = index_size = 0
            group.append(segment)
            size += segment.size
            index_size += entries
        if group:
            yield group

    def _clean_group(
        self, group: list[Segment], transactions: CleanedTransactions
    ) -> Generator[int, None, Segment]:
        job = self._job
        cleaned = Segment.create(
            job.disk,
            job.directory,
            group[0].base_offset,
            now_ms=job.now_ms,
            suffix=file_names.CLEANED,
        )
        transactions.index = cleaned.transaction_index
        writer = _Writer(cleaned, job.config.index_interval_bytes)
        for segment in group:
            reader = _copy(job, segment)
            for batch in scan_batches(reader.file, 0, reader.size):
                data = self._filter(batch, transactions)
                self._moved += batch.header.size_in_bytes
                if data is not None:
                    writer.write(*data)
                    self._moved += data[1].size_in_bytes
                if self._moved >= _STEP_BYTES:
                    yield self._step()
        writer.flush()
        cleaned.seal()
        cleaned.sync()
        modified_ms = job.disk.modified_ms(group[-1].path(file_names.LOG))
        job.disk.set_modified_ms(cleaned.path(file_names.LOG), modified_ms)
        cleaned.release()
        return cleaned

    def _filter(
        self, batch: ScannedBatch, transactions: CleanedTransactions
    ) -> tuple[bytes | bytearray | memoryview, BatchHeader] | None:
        """The batch as it stays, or None if nothing of it does."""
        header = batch.header
        now_ms = self._job.now_ms
        horizon_ms = header.delete_horizon_ms
        if header.is_control:
            needless = transactions.is_needless_marker(header, batch.buffer, batch.start)
            if not needless or header.base_offset > self._map.latest_offset:
                return batch.data, header
            if horizon_ms is None:
                return self._with_horizon(batch, None)
            if now_ms < horizon_ms:
                return batch.data, header
            return self._emptied(header) if self._is_last_of_producer(header) else None
        if transactions.is_aborted(header) and header.base_offset <= self._map.latest_offset:
            return self._emptied(header) if self._is_last_of_producer(header) else None
        return self._filter_records(batch, horizon_ms)

    def _filter_records(
        self, batch: ScannedBatch, horizon_ms: int | None
    ) -> tuple[bytes | bytearray | memoryview, BatchHeader] | None:
        header = batch.header
        keep_tombstones = horizon_ms is None or self._job.now_ms < horizon_ms
        body, start, end = batch_body(batch.buffer, header, batch.start)
        spans = record_spans(body, start, end, header.record_count)
        base = header.base_offset
        latest = self._map.latest_offset
        kept: list[tuple[int, int, int, int]] = []
        tombstones = False
        for record_start, record_end, delta, timestamp_delta, key, has_value in spans:
            offset = base + delta
            if offset <= latest and (
                key is None or offset < self._map.get(key) or not (has_value or keep_tombstones)
            ):
                continue
            tombstones = tombstones or not has_value
            kept.append((record_start, record_end, delta, timestamp_delta))
        if not kept:
            return self._emptied(header) if self._is_last_of_producer(header) else None
        if tombstones and horizon_ms is None:
            return self._with_horizon(batch, {delta for _, _, delta, _ in kept})
        if len(kept) == len(spans):
            return batch.data, header
        data = bytearray(BATCH_OVERHEAD)
        view = memoryview(body)
        for record_start, record_end, _, _ in kept:
            data += view[record_start:record_end]
        max_timestamp = header.max_timestamp
        if not header.attributes & TIMESTAMP_TYPE_MASK:
            max_timestamp = header.base_timestamp + max(delta for _, _, _, delta in kept)
        return _sealed(header, data, len(kept), max_timestamp)

    def _with_horizon(
        self, batch: ScannedBatch, kept: set[int] | None
    ) -> tuple[bytearray, BatchHeader]:
        """The batch with a delete horizon, which takes the place of the base timestamp."""
        header = batch.header
        horizon_ms = self._job.now_ms + self._job.config.delete_retention_ms
        builder = RecordsBuilder(horizon_ms)
        body, start, end = batch_body(batch.buffer, header, batch.start)
        base = header.base_offset
        for offset, timestamp, key, value, headers in decode_records(
            body, start, end, header.record_count, base, header.base_timestamp
        ):
            if kept is None or offset - base in kept:
                builder.append(timestamp, key, value, headers, offset - base)
        count = builder.record_count
        max_timestamp = header.max_timestamp
        if not header.attributes & TIMESTAMP_TYPE_MASK:
            max_timestamp = builder.max_timestamp
        return _sealed(header, builder.finish(), count, max_timestamp, horizon_ms=horizon_ms)

    def _emptied(self, header: BatchHeader) -> tuple[bytearray, BatchHeader]:
        """The batch without its records: what a producer's sequence numbers are remembered by."""
        return _sealed(header, bytearray(BATCH_OVERHEAD), 0, header.max_timestamp, codec=0)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._job.last_of_producers.get(header.producer_id)
        if last is None or header.producer_id < 0:
            return False
        if last.last_data_offset is None:
            return header.is_control and header.producer_epoch == last.epoch
        return header.last_offset == last.last_data_offset


class _Writer:
    """Collects batches and writes them to a segment, some at once."""

    def __init__(self, segment: Segment, interval_bytes: int) -> None:
        self._segment = segment
        self._interval_bytes = interval_bytes
        self._waiting = bytearray()
        self._headers: list[BatchHeader] = []

    def write(self, data: bytes | bytearray | memoryview, header: BatchHeader) -> None:
        self._waiting += data
        self._headers.append(header)
        if len(self._waiting) >= _WRITE_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        position = self._segment.size
        self._segment.append(self._waiting)
        for header in self._headers:
            self._segment.note_batch(
                position,
                header.size_in_bytes,
                header.last_offset,
                header.max_timestamp,
                self._interval_bytes,
            )
            position += header.size_in_bytes
        self._waiting = bytearray()
        self._headers = []


def _sealed(
    header: BatchHeader,
    data: bytearray,
    record_count: int,
    max_timestamp: int,
    *,
    horizon_ms: int | None = None,
    codec: int | None = None,
) -> tuple[bytearray, BatchHeader]:
    attributes = header.attributes
    base_timestamp = header.base_timestamp
    if codec is None:
        codec = header.compression
    attributes = attributes & ~CODEC_MASK | codec
    if horizon_ms is not None:
        attributes |= DELETE_HORIZON_MASK
        base_timestamp = horizon_ms
    seal_batch(
        data,
        codec=codec,
        base_offset=header.base_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        attributes=attributes,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        record_count=record_count,
    )
    return data, read_header(data)


def _copy(job: CompactionJob, segment: Segment) -> Segment:
    """The same files behind another object, for this thread alone."""
    return Segment(
        job.disk,
        job.directory,
        segment.base_offset,
        size=segment.size,
        created_ms=job.now_ms,
        has_transaction_index=not segment.transaction_index.is_empty,
    )


def _with_next(segments: list[Segment], end: int) -> Iterator[tuple[Segment, int]]:
    """Each segment and the base offset of the one after it."""
    for slot, segment in enumerate(segments):
        later = slot + 1
        yield segment, segments[later].base_offset if later < len(segments) else end
