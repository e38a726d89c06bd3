"""What a consumer has fetched and where it stands: positions, buffers, requests to build.

No I/O. Positions move when records are handed out; `next_fetch` moves ahead of them as soon as bytes
arrived, so the following request can go out before the records are decoded. Records below the
position (a batch may begin earlier) and, with read_committed, those of aborted transactions are
dropped here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from barnabas.client.core.metadata import TopicPartition
from barnabas.record.batch import BatchHeader, iterate_batches, verify_crc
from barnabas.record.control import ControlType, read_control_key
from barnabas.record.read import batch_records

READ_COMMITTED = 1


class ConsumedRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int = -1


class FetchedBatch(NamedTuple):
    header: BatchHeader
    buffer: Any
    start: int


class PartitionState:
    """One assigned partition. A negative position must be looked up first."""

    __slots__ = (
        "aborted",
        "aborted_ids",
        "batches",
        "buffered_bytes",
        "epoch",
        "high_watermark",
        "in_flight",
        "last_stable_offset",
        "log_start_offset",
        "next_fetch",
        "not_before",
        "partition",
        "paused",
        "position",
        "preferred_replica",
        "rest",
        "rest_end",
        "seek_count",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.position = -1
        self.next_fetch = -1
        self.epoch = -1
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.batches: deque[FetchedBatch] = deque()
        self.buffered_bytes = 0
        self.aborted: list[tuple[int, int]] = []
        self.aborted_ids: set[int] = set()
        self.in_flight = False
        self.paused = False
        self.not_before = 0.0
        self.preferred_replica = -1
        self.rest: list[ConsumedRecord] = []
        self.rest_end = -1
        self.seek_count = 0

    def seek(self, offset: int) -> None:
        self.position = self.next_fetch = offset
        self.batches.clear()
        self.buffered_bytes = 0
        self.rest = []
        self.aborted = []
        self.aborted_ids = set()
        self.seek_count += 1


class Fetcher:
    def __init__(
        self,
        *,
        max_buffered_bytes: int,
        read_committed: bool,
        check_crcs: bool,
    ) -> None:
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self.max_buffered_bytes = max_buffered_bytes
        self.read_committed = read_committed
        self.check_crcs = check_crcs
        self.buffered_bytes = 0
        self._order: deque[TopicPartition] = deque()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Keep the state of partitions that stay."""
        wanted = list(dict.fromkeys(partitions))
        before = self.partitions
        self.partitions = {p: before.get(p) or PartitionState(p) for p in wanted}
        self._order = deque(wanted)
        self.buffered_bytes = sum(s.buffered_bytes for s in self.partitions.values())

    def seek(self, partition: TopicPartition, offset: int) -> None:
        state = self.partitions[partition]
        self.buffered_bytes -= state.buffered_bytes
        state.seek(offset)

    def fetchable(self, now: float) -> Iterator[PartitionState]:
        """Partitions of which more should be asked for; none while enough is buffered."""
        if self.buffered_bytes >= self.max_buffered_bytes:
            return
        for state in self.partitions.values():
            if (
                not state.in_flight
                and not state.paused
                and state.next_fetch >= 0
                and state.not_before <= now
            ):
                yield state

    def take(self, state: PartitionState, seek_count: int, answer: Any) -> None:
        """An answer without error; ignored if the partition was sought or reassigned meanwhile."""
        if self.partitions.get(state.partition) is not state or state.seek_count != seek_count:
            return
        state.high_watermark = answer.high_watermark
        state.last_stable_offset = answer.last_stable_offset
        state.log_start_offset = answer.log_start_offset
        records = answer.records
        if records is None or not len(records):
            return
        if self.read_committed and answer.aborted_transactions:
            known = set(state.aborted)
            state.aborted.extend(
                pair
                for a in answer.aborted_transactions
                if (pair := (a.first_offset, a.producer_id)) not in known
            )
            state.aborted.sort()
        for header, start, end in iterate_batches(records, partial_tail=True):
            if header.last_offset < state.next_fetch:
                continue
            state.batches.append(FetchedBatch(header, records, start))
            state.next_fetch = header.next_offset
            state.buffered_bytes += end - start
            self.buffered_bytes += end - start

    def batches(self) -> Iterator[tuple[PartitionState, FetchedBatch]]:
        """Buffered batches in turn of partitions; the position moves past each as it is given."""
        for _ in range(len(self._order)):
            partition = self._order[0]
            self._order.rotate(-1)
            state = self.partitions[partition]
            while state.batches and not state.paused:
                batch = state.batches.popleft()
                size = batch.header.size_in_bytes
                state.buffered_bytes -= size
                self.buffered_bytes -= size
                wanted = self._wanted(state, batch)
                first = state.position
                state.position = max(state.position, batch.header.next_offset)
                state.epoch = batch.header.partition_leader_epoch
                if wanted:
                    state_first = max(first, batch.header.base_offset)
                    self._first = state_first
                    yield state, batch

    _first = 0

    def _wanted(self, state: PartitionState, batch: FetchedBatch) -> bool:
        """Whether the batch holds data for this reader; follows transactions as they end."""
        header = batch.header
        if self.check_crcs:
            verify_crc(batch.buffer, header, batch.start)
        if self.read_committed and header.has_producer_id:
            while state.aborted and state.aborted[0][0] <= header.last_offset:
                state.aborted_ids.add(state.aborted.pop(0)[1])
            if header.is_control:
                self._end_transaction(state, batch)
                return False
            if header.is_transactional and header.producer_id in state.aborted_ids:
                return False
        return not header.is_control

    def _end_transaction(self, state: PartitionState, batch: FetchedBatch) -> None:
        for record in batch_records(batch.buffer, batch.header, batch.start):
            if read_control_key(record[2]) == ControlType.ABORT:
                state.aborted_ids.discard(batch.header.producer_id)

    def records(self, limit: int) -> list[ConsumedRecord]:
        """Up to `limit` records; what a batch has beyond them is kept, decoded, for next time."""
        found: list[ConsumedRecord] = []
        for partition in self._order:
            state = self.partitions[partition]
            if state.rest and not state.paused:
                self._give(state, state.rest, state.rest_end, limit, found)
                if len(found) >= limit:
                    return found
        for state, batch in self.batches():
            topic, index = state.partition
            epoch = batch.header.partition_leader_epoch
            first = self._first
            decoded = batch_records(batch.buffer, batch.header, batch.start)
            if decoded and decoded[0][0] < first:
                decoded = [r for r in decoded if r[0] >= first]
            records = [ConsumedRecord(topic, index, *r, epoch) for r in decoded]
            self._give(state, records, batch.header.next_offset, limit, found)
            if len(found) >= limit:
                break
        return found

    @staticmethod
    def _give(
        state: PartitionState,
        records: list[ConsumedRecord],
        end: int,
        limit: int,
        found: list[ConsumedRecord],
    ) -> None:
        room = limit - len(found)
        if len(records) > room:
            state.rest, state.rest_end = records[room:], end
            state.position = records[room].offset
            found += records[:room]
        else:
            state.rest = []
            state.position = end
            found += records
