"""What was fetched of one partition and not yet handed out, and which of it a reader may see.

Answers are kept as they came; a batch is checked and decompressed when its turn comes, and only one
is open at a time. Three sorts of batches are passed over: those below the reader's position (an
answer may begin earlier), control batches, and with read_committed those of aborted transactions.

An answer to a read_committed fetch names the aborted transactions that touch it: producer and first
offset. Such a transaction is aborted from that offset on until its marker, a control batch of the
same producer; after the marker the producer's next transaction may be a good one. Each answer names
all it needs, also what began before it, so nothing is carried over from one answer to the next.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable

from crc32c import crc32c

from barnabas.client.errors import CorruptRecordsError, PoisonRecordError
from barnabas.client.kernels_consumer import (
    ConsumerRecord,
    FetchedRecords,
    OpenBatch,
)
from barnabas.client.serialization import Deserializer
from barnabas.record.batch import (
    ATTRIBUTES_OFFSET,
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL_MASK,
    NO_PRODUCER_ID,
    TRANSACTIONAL_MASK,
    Buffer,
)
from barnabas.record.compression import MAX_DECOMPRESSED_BYTES, decompress
from barnabas.record.control import ControlType, read_control_key
from barnabas.record.errors import BadRecords, CorruptBatch
from barnabas.record.kernels import ColumnsBuilder


class Answer:
    """One answer's batches, with the aborted transactions that touch them."""

    __slots__ = ("aborted", "aborted_ids", "records")

    def __init__(self, records: FetchedRecords, aborted: Iterable[tuple[int, int]]) -> None:
        self.records = records
        self.aborted = list(aborted)  # (first offset, producer id), a heap
        heapq.heapify(self.aborted)
        self.aborted_ids: set[int] = set()

    def is_aborted(self) -> bool:
        """Whether the batch that `records` stands at belongs to an aborted transaction."""
        records = self.records
        producer_id = records.producer_id
        if producer_id == NO_PRODUCER_ID:
            return False
        while self.aborted and self.aborted[0][0] <= records.last_offset:
            self.aborted_ids.add(heapq.heappop(self.aborted)[1])
        return bool(records.attributes & TRANSACTIONAL_MASK) and producer_id in self.aborted_ids

    def end_transaction(self, marker: ConsumerRecord) -> None:
        if read_control_key(marker.key) == ControlType.ABORT:
            self.aborted_ids.discard(self.records.producer_id)


class PartitionBuffer:
    """Where one reader of a partition stands. `position` is the offset it gets next, -1 if unknown;
    `epoch` the leader epoch of the record before it, -1 if unknown. `bytes` is what is buffered."""

    __slots__ = (
        "_answers",
        "_batch_end",
        "_check_crcs",
        "_damage",
        "_opened",
        "_read_committed",
        "batch",
        "bytes",
        "bytes_taken",
        "epoch",
        "partition",
        "position",
        "topic",
    )

    def __init__(
        self, topic: str, partition: int, *, read_committed: bool, check_crcs: bool
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.position = -1
        self.epoch = -1
        self.bytes = 0
        self.bytes_taken = 0
        self.batch: OpenBatch | None = None
        self._batch_end = -1
        self._opened: FetchedRecords | None = None
        self._damage: CorruptRecordsError | None = None
        self._answers: deque[Answer] = deque()
        self._read_committed = read_committed
        self._check_crcs = check_crcs

    @property
    def is_empty(self) -> bool:
        return self.batch is None and not self._answers and self._damage is None

    def add(self, records: FetchedRecords, aborted: Iterable[tuple[int, int]] = ()) -> None:
        self._answers.append(Answer(records, aborted if self._read_committed else ()))
        self.bytes += records.left_bytes

    def clear(self) -> None:
        self._answers.clear()
        self._damage = None
        self._opened = None
        self.batch = None
        self.bytes = 0

    # -- handing out

    def take(
        self,
        found: list[ConsumerRecord],
        limit: int,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
    ) -> int:
        """Appends up to `limit` records; gives how many. Raises only if that is none."""
        count = 0
        while count < limit:
            batch = self.batch
            if batch is None:
                batch = self._open_next(count, located=True)
                if batch is None:
                    break
            taken_before = batch.bytes_taken
            count += batch.take(found, limit - count, key_deserializer, value_deserializer)
            self.bytes_taken += batch.bytes_taken - taken_before
            self._moved(batch)
            if batch.failure is not None:
                if count:
                    break
                raise _poison(batch, batch.failure)
        return count

    def take_columns(
        self,
        columns: ColumnsBuilder,
        limit: int,
        runs: list[tuple[str, int, int, int]],
        max_bytes: int,
    ) -> int:
        """The same as rows of columns; each run of rows is told in `runs` as (topic, partition,
        timestamp type, rows). No further batch is begun once the columns have `max_bytes`."""
        count = 0
        rows_before = columns.record_count
        while count < limit and columns.size_in_bytes < max_bytes:
            batch = self.batch
            if batch is None:
                batch = self._open_next(count, located=False)
                if batch is None:
                    break
            try:
                rows = batch.take_columns(columns, limit - count)
            except BadRecords as error:
                self._damage = self._corrupt(self._opened, self._batch_end, error)
                continue
            run = self.topic, self.partition, batch.timestamp_type
            if runs and runs[-1][:3] == run:
                rows += runs.pop()[3]
            runs.append((*run, rows))
            count = columns.record_count - rows_before
            self._moved(batch)
        return count

    def skip_record(self) -> ConsumerRecord:
        """Passes over the next record, which must be there, and gives it with its bytes as they
        are: for a record that no deserializer takes."""
        batch = self.batch
        assert batch is not None
        assert batch.left
        record = batch.take_raw()
        self._moved(batch)
        return record

    def _moved(self, batch: OpenBatch) -> None:
        if batch.left:
            self.position = batch.next_offset
        else:
            self.position = self._batch_end
            self.batch = self._opened = None

    # -- opening

    def _open_next(self, count: int, *, located: bool) -> OpenBatch | None:
        """The next batch that has records for this reader, with its records `located` or not.

        A damaged one is raised, but after `count` records that were given it waits for the next
        call, which gives none before it.
        """
        if self._damage is None:
            try:
                return self._next_batch(located)
            except CorruptRecordsError as error:
                self._damage = error
        if count:
            return None
        damage, self._damage = self._damage, None
        raise damage

    def _next_batch(self, located: bool) -> OpenBatch | None:
        answers = self._answers
        while answers:
            answer = answers[0]
            records = answer.records
            next_offset = self.position + 1
            try:
                if not records.advance():
                    answers.popleft()
                    continue
                start, end, last_offset, epoch, attributes, crc = records.facts()
                self.bytes -= end - start
                if not records.left_bytes:
                    answers.popleft()
                next_offset = last_offset + 1
                if last_offset >= self.position:
                    if self._check_crcs:
                        _verify(records, start, end, crc)
                    self._open(answer, next_offset, epoch, attributes)
                    if located and self.batch is not None:
                        self.batch.locate()
            except BadRecords as error:
                raise self._corrupt(records, next_offset, error) from error
            batch = self.batch
            if batch is not None:
                if batch.left:
                    return batch
                self._moved(batch)
        return None

    def _open(self, answer: Answer, next_offset: int, epoch: int, attributes: int) -> None:
        """Open the batch if it is for this reader; else only move past it."""
        records = answer.records
        is_control = attributes & CONTROL_MASK
        if is_control or (self._read_committed and answer.is_aborted()):
            if is_control and self._read_committed:
                answer.is_aborted()
                marker = records.open(self._body(records, attributes), -1)
                if marker.left:
                    answer.end_transaction(marker.take_raw())
            self.position = next_offset
            self.epoch = epoch
            return
        self.batch = records.open(self._body(records, attributes), self.position)
        self._batch_end = next_offset
        self._opened = records
        self.epoch = epoch

    @staticmethod
    def _body(records: FetchedRecords, attributes: int) -> Buffer | None:
        codec = attributes & CODEC_MASK
        if not codec:
            return None
        with memoryview(records.data) as data:
            return decompress(
                codec, data[records.start + BATCH_OVERHEAD : records.end], MAX_DECOMPRESSED_BYTES
            )

    def _corrupt(
        self, records: FetchedRecords | None, next_offset: int, error: Exception
    ) -> CorruptRecordsError:
        """Nothing after the batch was looked at, so what is buffered goes; a later fetch may bring
        the same batch undamaged."""
        assert records is not None
        raw = bytes(memoryview(records.data)[records.start : records.end])
        self.clear()
        return CorruptRecordsError(
            self.topic, self.partition, self.position, next_offset, raw, str(error)
        )


def _verify(records: FetchedRecords, start: int, end: int, crc: int) -> None:
    computed = crc32c(memoryview(records.data)[start + ATTRIBUTES_OFFSET : end])
    if computed != crc:
        raise CorruptBatch(f"stored crc = {crc}, computed crc = {computed}")


def _poison(batch: OpenBatch, cause: Exception) -> PoisonRecordError:
    record = batch.peek_raw()
    error = PoisonRecordError(
        record.topic,
        record.partition,
        record.offset,
        batch.failed_field,
        f"{type(cause).__name__}: {cause}".rstrip(".: "),
        record,
    )
    error.__cause__ = cause
    return error
