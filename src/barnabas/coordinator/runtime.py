"""Runs the shards of a coordinator: loads, appends, replays, tells when something is committed.

Each partition of the coordinator's topic that this node leads has a shard. A shard decides
(`Write`) and is replayed into; everything between is here:

* `perform` encodes the records into a batch and appends it. If that fails, nothing has changed.
* Appended records are replayed at once, in the order of the log. If they should never be
  committed, that is because this node lost the partition, and then the whole shard is thrown
  away.
* Whoever caused them is told when the high watermark has passed them, or after
  `offsets.commit.timeout.ms`. On a single node that is before `perform` returns, so a commit
  costs no task and no timer.
* A reader that must not see what could still be lost waits with `when_stable`.

Loading goes in steps, one piece of one log per turn of the timer, so that it never stalls the
loop; until it is done the partition answers COORDINATOR_LOAD_IN_PROGRESS.

Bounds: at most `MAX_WAITING` callers wait for the high watermark of a partition; a batch is at
most `max_batch_bytes` unless it must be atomic, in which case the log decides whether it is too
large.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from barnabas.coordinator.decision import EncodableRecord, Write, coordinator_error
from barnabas.coordinator.loader import Loader, Shard
from barnabas.record.build import build_batch
from barnabas.record.errors import BadRecords
from barnabas.wire.codec import EncodeError
from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.coordinator.decision import Done
    from barnabas.coordinator.partition_log import PartitionLog
    from barnabas.seams import Clock

logger = logging.getLogger(__name__)

MAX_WAITING = 20_000
LOAD_STEP_BYTES = 64 * 1024
# Most logs are small or empty: a node that starts with 50 of them loads these at once.
LOAD_AT_ONCE_BYTES = 4 * 1024
_NEXT_TURN_MS = 1


class Timer(Protocol):
    def cancel(self) -> None: ...


Schedule = Callable[[int, Callable[[], None]], Timer]
R = TypeVar("R", bound=EncodableRecord)


class PartitionState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class ShardPartition(Generic[R]):
    """A partition this node leads, and its shard. `next_offset` is after the last record in it."""

    __slots__ = (
        "high_watermark",
        "leader_epoch",
        "loader",
        "next_offset",
        "partition",
        "shard",
        "state",
        "timeout",
        "waiting",
    )

    def __init__(self, partition: int, leader_epoch: int) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.state = PartitionState.LOADING
        self.shard: Shard[R] | None = None
        self.loader: Loader[R] | None = None
        self.next_offset = 0
        self.high_watermark = 0
        # (offset that must be committed, deadline, who waits), in the order of offsets
        self.waiting: deque[tuple[int, int, Done]] = deque()
        self.timeout: Timer | None = None


MakeShard = Callable[[int, Callable[[Write[R]], None]], Shard[R]]


class CoordinatorRuntime(Generic[R]):
    """`make_shard(partition, perform)`; `perform` is how the shard's timers get things written."""

    def __init__(
        self,
        name: str,
        *,
        log: PartitionLog,
        clock: Clock,
        schedule: Schedule,
        make_shard: MakeShard[R],
        commit_timeout_ms: int,
        compression_codec: int = 0,
        max_batch_bytes: int = 512 * 1024,
    ) -> None:
        self._name = name
        self._log = log
        self._clock = clock
        self._schedule = schedule
        self._make_shard = make_shard
        self._commit_timeout_ms = commit_timeout_ms
        self._codec = compression_codec
        self._max_batch_bytes = max_batch_bytes
        self.partitions: dict[int, ShardPartition[R]] = {}
        self._load_queue: deque[ShardPartition[R]] = deque()
        self._load_timer: Timer | None = None

    # ---- which partitions are here

    def active(self, partition: int) -> ShardPartition[R]:
        """The partition, or NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS."""
        found = self.partitions.get(partition)
        if found is None or found.state is PartitionState.FAILED:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        if found.state is PartitionState.LOADING:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return found

    def become_leader(self, partition: int, leader_epoch: int) -> None:
        """This node leads the partition in that epoch: load it. An older epoch is ignored."""
        present = self.partitions.get(partition)
        if present is not None:
            if present.leader_epoch >= leader_epoch:
                return
            self._close(present)
        entry: ShardPartition[R] = ShardPartition(partition, leader_epoch)
        self.partitions[partition] = entry
        shard = entry.shard = self._make_shard(partition, partial(self.perform, entry))
        try:
            entry.loader = Loader(self._log, partition, shard)
        except ApiError as error:
            self._load_failed(entry, error)
            return
        self._log.listen(partition, partial(self.high_watermark_moved, entry))
        if not self._load_step(entry, LOAD_AT_ONCE_BYTES):
            self._load_queue.append(entry)
            self._load_next_turn()

    def resign(self, partition: int, leader_epoch: int | None = None) -> None:
        """This node does not lead the partition any more; None is whatever the epoch."""
        present = self.partitions.get(partition)
        if present is None or (leader_epoch is not None and present.leader_epoch > leader_epoch):
            return
        del self.partitions[partition]
        self._close(present)

    def close(self) -> None:
        for partition in list(self.partitions):
            self.resign(partition)
        if self._load_timer is not None:
            self._load_timer.cancel()
            self._load_timer = None

    def _close(self, entry: ShardPartition[R]) -> None:
        was = entry.state
        entry.state = PartitionState.CLOSED
        self._log.unlisten(entry.partition)
        if entry.timeout is not None:
            entry.timeout.cancel()
            entry.timeout = None
        waiting, entry.waiting = entry.waiting, deque()
        for _offset, _deadline, done in waiting:
            done(ErrorCode.NOT_COORDINATOR)
        if was is PartitionState.ACTIVE and entry.shard is not None:
            entry.shard.unloaded()

    # ---- loading

    def _load_next_turn(self) -> None:
        if self._load_timer is None and self._load_queue:
            self._load_timer = self._schedule(_NEXT_TURN_MS, self._load_turn)

    def _load_turn(self) -> None:
        self._load_timer = None
        if self._load_queue:
            entry = self._load_queue[0]
            if entry.state is not PartitionState.LOADING or self._load_step(entry, LOAD_STEP_BYTES):
                self._load_queue.popleft()
        self._load_next_turn()

    def _load_step(self, entry: ShardPartition[R], max_bytes: int) -> bool:
        """True when there is nothing more to do."""
        loader = entry.loader
        assert loader is not None
        try:
            at_end = loader.step(max_bytes)
        except (ApiError, BadRecords, ValueError, OSError) as error:
            self._load_failed(entry, error)
            return True
        if not at_end:
            return False
        entry.loader = None
        entry.next_offset = loader.next_offset
        entry.high_watermark = loader.high_watermark
        entry.state = PartitionState.ACTIVE
        assert entry.shard is not None
        entry.shard.loaded()
        if loader.record_count:
            logger.info(
                "%s-%d: loaded %d records up to offset %d",
                self._name,
                entry.partition,
                loader.record_count,
                loader.next_offset,
            )
        return True

    def _load_failed(self, entry: ShardPartition[R], error: Exception) -> None:
        logger.error(
            "%s-%d: cannot be loaded, what it coordinates is not available: %s",
            self._name,
            entry.partition,
            error,
        )
        entry.state = PartitionState.FAILED
        entry.loader = None

    # ---- writing

    def append(self, entry: ShardPartition[R], records: Sequence[R]) -> int:
        """Append and replay; the offset that must be committed. ApiError as the log raised it."""
        if entry.state is not PartitionState.ACTIVE:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        if len(entry.waiting) >= MAX_WAITING:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        now_ms = self._clock.now_ms()
        encoded = [_encode(record) for record in records]
        return self._append(entry, records, encoded, now_ms)

    def _append(
        self,
        entry: ShardPartition[R],
        records: Sequence[R],
        encoded: Sequence[tuple[bytes, bytes | None]],
        now_ms: int,
    ) -> int:
        batch = build_batch([(now_ms, key, value, ()) for key, value in encoded], codec=self._codec)
        last_offset, high_watermark = self._log.append(entry.partition, batch, now_ms)
        entry.high_watermark = max(entry.high_watermark, high_watermark)
        offset = last_offset - len(records)
        shard = entry.shard
        assert shard is not None
        for record in records:
            offset += 1
            shard.replay(record, offset)
        entry.next_offset = last_offset + 1
        if entry.waiting:
            self._tell_committed(entry)
        return last_offset

    def perform(self, entry: ShardPartition[R], write: Write[R]) -> None:
        """Write what a shard decided; `write.done` is called exactly once."""
        try:
            last_offset = (
                self.append(entry, write.records)
                if write.atomic
                else self._append_in_pieces(entry, write.records)
            )
        except ApiError as error:
            write.done(coordinator_error(error.code))
            return
        self.when_committed(entry, last_offset, write.done)

    def _append_in_pieces(self, entry: ShardPartition[R], records: Sequence[R]) -> int:
        if entry.state is not PartitionState.ACTIVE:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        now_ms = self._clock.now_ms()
        last_offset = entry.next_offset - 1
        piece: list[R] = []
        encoded: list[tuple[bytes, bytes | None]] = []
        size = 0
        for record in records:
            key, value = _encode(record)
            record_size = len(key) + len(value or b"") + 32
            if piece and size + record_size > self._max_batch_bytes:
                last_offset = self._append(entry, piece, encoded, now_ms)
                piece, encoded, size = [], [], 0
            size += record_size
            piece.append(record)
            encoded.append((key, value))
        if piece:
            last_offset = self._append(entry, piece, encoded, now_ms)
        return last_offset

    # ---- waiting for the high watermark

    def when_committed(self, entry: ShardPartition[R], offset: int, done: Done) -> None:
        if entry.high_watermark > offset:
            done(ErrorCode.NONE)
            return
        if len(entry.waiting) >= MAX_WAITING:
            done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        deadline_ms = self._clock.monotonic_ms() + self._commit_timeout_ms
        entry.waiting.append((offset, deadline_ms, done))
        if entry.timeout is None:
            self._watch_timeouts(entry)

    def when_stable(self, entry: ShardPartition[R], done: Done) -> None:
        """When everything in the shard is committed, so that a reader sees nothing that may go."""
        self.when_committed(entry, entry.next_offset - 1, done)

    def high_watermark_moved(self, entry: ShardPartition[R], high_watermark: int) -> None:
        entry.high_watermark = max(entry.high_watermark, high_watermark)
        self._tell_committed(entry)

    def _tell_committed(self, entry: ShardPartition[R]) -> None:
        waiting = entry.waiting
        while waiting and waiting[0][0] < entry.high_watermark:
            waiting.popleft()[2](ErrorCode.NONE)

    def _watch_timeouts(self, entry: ShardPartition[R]) -> None:
        delay_ms = max(entry.waiting[0][1] - self._clock.monotonic_ms(), 1)
        entry.timeout = self._schedule(delay_ms, partial(self._timed_out, entry))

    def _timed_out(self, entry: ShardPartition[R]) -> None:
        entry.timeout = None
        waiting = entry.waiting
        now_ms = self._clock.monotonic_ms()
        while waiting and waiting[0][1] <= now_ms:
            waiting.popleft()[2](coordinator_error(ErrorCode.REQUEST_TIMED_OUT))
        if waiting and entry.timeout is None and entry.state is PartitionState.ACTIVE:
            self._watch_timeouts(entry)


def _encode(record: EncodableRecord) -> tuple[bytes, bytes | None]:
    """A client can send a name that is longer than the records have room for: a refusal."""
    try:
        return record.encode()
    except EncodeError as error:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
