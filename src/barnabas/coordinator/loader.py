"""Building a shard from its log, a bounded piece at a time.

A log of offsets can be many megabytes even after compaction, and the loop must go on serving
others meanwhile. `step` reads and replays one piece and says whether the end is reached. Records
of a transaction are replayed under their producer id; the marker that ends it makes them count or
not.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from barnabas.coordinator.decision import EncodableRecord
from barnabas.coordinator.partition_log import PartitionLog
from barnabas.record.batch import iterate_batches, verify_crc
from barnabas.record.control import ControlType, read_control_records
from barnabas.record.read import batch_records

R = TypeVar("R", bound=EncodableRecord)

_NO_PRODUCER = -1


class Shard(Protocol[R]):
    """What the runtime asks of a shard. Only `replay…` changes what is stored in it."""

    def decode(self, key: bytes | None, value: bytes | None) -> R | None:
        """A record, or None for one that is passed over."""

    def replay(self, record: R, offset: int, producer_id: int = -1) -> None: ...

    def replay_end_of_transaction(self, producer_id: int, *, commit: bool) -> None: ...

    def loaded(self) -> None:
        """Everything was replayed: start timers."""

    def unloaded(self) -> None:
        """This node does not lead the partition any more: answer whoever waits, stop timers."""


class Loader(Generic[R]):
    """`next_offset` is how far it came, `high_watermark` what the log said last."""

    def __init__(self, log: PartitionLog, partition: int, shard: Shard[R]) -> None:
        self._log = log
        self._partition = partition
        self._shard = shard
        self.next_offset = log.start_offset(partition)
        self.high_watermark = 0
        self.record_count = 0

    def step(self, max_bytes: int) -> bool:
        """True when the end of the log is reached."""
        chunk = self._log.read(self._partition, self.next_offset, max_bytes)
        self.high_watermark = chunk.high_watermark
        batches = chunk.batches
        shard = self._shard
        first_offset = self.next_offset
        for header, start, _end in iterate_batches(batches, partial_tail=True):
            if header.last_offset < first_offset:
                continue
            verify_crc(batches, header, start)
            if header.is_control:
                for control in read_control_records(batches, header, start):
                    if control.type in (ControlType.COMMIT, ControlType.ABORT):
                        shard.replay_end_of_transaction(
                            header.producer_id, commit=control.type == ControlType.COMMIT
                        )
            else:
                producer_id = header.producer_id if header.is_transactional else _NO_PRODUCER
                for offset, _timestamp, key, value, _headers in batch_records(
                    batches, header, start
                ):
                    if offset < first_offset:
                        continue
                    record = shard.decode(key, value)
                    if record is not None:
                        shard.replay(record, offset, producer_id)
                        self.record_count += 1
            self.next_offset = header.next_offset
        if self.next_offset == first_offset:
            # Nothing is left: the end, or a tail that compaction took away.
            self.next_offset = chunk.log_end_offset
        return self.next_offset >= chunk.log_end_offset
