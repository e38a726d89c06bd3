"""Moves of replicas from one log directory of this broker to another (KIP-113, KIP-858).

A move makes a second log of the partition, the future log, in the other directory and goes through

    COPYING     the future log is filled from the current one, which goes on as if nothing were
    ASSIGNING   it has all but the newest records: the controller is told the other directory, so that
                it knows whose failure concerns the replica; the metadata brings its consent
    SWAPPING    it is synced, gets the last records and takes the current log's place

The swap happens in one turn of the loop, in which both logs end at the same offset, and the future log
has on the disk whatever the current one has there. While a move lasts, the future log holds what the
current one holds below its end: what truncates the one truncates the other. A node that ends in the
middle takes the move up again where the future log ends.

All moves share one step at a time, in turns. A step copies a bounded number of bytes; it reads them in
the background and appends them on the loop, as a follower would. `quota` bounds the bytes a second.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.log.durable_log import FlushPoint
from barnabas.log.log import UnexpectedOffset
from barnabas.replica.partition import append_replicated
from barnabas.replica.truncation import agreed_offset
from barnabas.wire.errors import ApiError

if TYPE_CHECKING:
    from barnabas.delayed.timer import Timeout, TimingWheel
    from barnabas.log.log import Log
    from barnabas.log.manager import LogManager
    from barnabas.replica.partition import Partition
    from barnabas.replica.replication_quota import ReplicationQuota
    from barnabas.seams import Background

logger = logging.getLogger(__name__)

COPY_BYTES: Final = 1 << 20
POLL_MS: Final = 100
RETRY_MS: Final = 1_000


class Replicas(Protocol):
    """Who owns the partitions."""

    def log_failed(self, topic: str | None, index: int, error: OSError) -> None: ...

    def directory_failed(self, directory: str, error: OSError) -> None: ...

    def is_assigned(self, partition: Partition, path: str) -> bool:
        """Whether the metadata has the replica in that directory, as far as it tells."""

    def directory_changed(self, partition: Partition) -> None:
        """The controller must be told another directory."""

    def log_replaced(self, partition: Partition) -> None: ...


class State(Enum):
    COPYING = auto()
    ASSIGNING = auto()
    SWAPPING = auto()


class Move:
    __slots__ = ("due_ms", "failing", "future", "is_near", "partition", "state")

    def __init__(self, partition: Partition, future: Log) -> None:
        self.partition = partition
        self.future = future
        self.state = State.COPYING
        self.is_near = False  # what is missing fits into one step
        self.due_ms = 0
        self.failing = False

    def __repr__(self) -> str:
        return f"Move({self.future.name} to {self.future.parent_directory}, {self.state.name})"


class LogDirMoves:
    def __init__(
        self,
        replicas: Replicas,
        logs: LogManager,
        wheel: TimingWheel,
        background: Background,
        quota: ReplicationQuota,
    ) -> None:
        self._replicas = replicas
        self._logs = logs
        self._wheel = wheel
        self._background = background
        self.quota = quota
        # In the order of turns: whoever had one goes to the end.
        self._moves: dict[tuple[str, int], Move] = {}
        self._timer: Timeout | None = None
        self._busy = False
        self._closed = False

    def __len__(self) -> int:
        return len(self._moves)

    def find(self, partition: Partition) -> Move | None:
        return self._moves.get(partition.key)

    def wanted_directory(self, partition: Partition) -> str | None:
        """The directory that the controller must know of, if it is not that of the current log."""
        move = self._moves.get(partition.key)
        if move is None or move.state is State.COPYING:
            return None
        return move.future.parent_directory

    # ---- beginning and ending

    def start(self, partition: Partition, path: str) -> None:
        """Move the partition's log; to where it is already: call off the move that is under way."""
        current = partition.online_log()
        move = self._moves.get(partition.key)
        if move is not None:
            if move.future.parent_directory == path:
                return
            self.cancel(partition)
        if current.parent_directory == path:
            return
        logger.info("%s moves from %s to %s", current.name, current.parent_directory, path)
        self._moves[partition.key] = Move(partition, self._logs.futures.create(current, path))
        self._soon()

    def resume(self, partition: Partition, future: Log) -> None:
        """Go on with a move that the last run of this node left. Nothing was appended since."""
        current = partition.online_log()
        agreed, _ = agreed_offset(future, *current.epoch_end_offset(future.epochs.latest))
        try:
            future.truncate_to(min(agreed, current.log_end_offset))
        except OSError as error:
            self._replicas.directory_failed(future.parent_directory, error)
            return
        logger.info("%s goes on moving to %s", current.name, future.parent_directory)
        self._moves[partition.key] = Move(partition, future)
        self._soon()

    def cancel(self, partition: Partition) -> None:
        """Give the future log up."""
        move = self._moves.get(partition.key)
        if move is not None:
            logger.info("%r is called off", move)
            self.drop(partition)
            self._logs.futures.delete(move.future)

    def drop(self, partition: Partition) -> None:
        """Let a move rest; the future log, if it is on a live directory, waits for the next start."""
        move = self._moves.pop(partition.key, None)
        if move is not None and move.state is not State.COPYING:
            self._replicas.directory_changed(partition)

    def directory_failed(self, path: str) -> None:
        for move in list(self._moves.values()):
            if move.future.parent_directory == path:
                self.drop(move.partition)

    def truncated(self, partition: Partition) -> None:
        """The current log has lost its end."""
        move = self._moves.get(partition.key)
        if move is None or partition.log is None:
            return
        future, end_offset = move.future, partition.log.log_end_offset
        if future.log_end_offset > end_offset:
            self._on_future(move, lambda: future.truncate_to(end_offset))

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    # ---- taking turns

    def wake(self) -> None:
        """Something that a move may wait for has happened."""
        if self._moves:
            self._soon()

    def _soon(self, delay_ms: int = 0) -> None:
        if self._busy or self._closed:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._wheel.add(delay_ms, self._turn)

    def _turn(self) -> None:
        """Begin the step of a move that can do one; its end comes back here."""
        self._timer = None
        now_ms = self._logs.now_ms()
        for key, move in list(self._moves.items()):
            if self._moves.get(key) is not move or now_ms < move.due_ms <= now_ms + RETRY_MS:
                continue
            del self._moves[key]
            self._moves[key] = move
            if self._step(move, now_ms):
                return
        if self._moves:
            self._soon(POLL_MS)

    def _in_background(
        self, work: Callable[[], object], done: Callable[[object, Exception | None], None]
    ) -> None:
        self._busy = True

        def finished(result: object, error: Exception | None) -> None:
            self._busy = False
            if self._closed:
                return
            if error is not None and not isinstance(error, OSError):
                self._soon()
                raise error
            done(result, error)
            if not self._busy and self._timer is None:
                self._turn()

        self._background.submit(work, finished)

    def _still_moves(self, move: Move, current: Log) -> bool:
        return self._moves.get(move.partition.key) is move and move.partition.log is current

    # ---- one step

    def _step(self, move: Move, now_ms: int) -> bool:
        """Begin what the move needs next; False if it has to wait."""
        current, future = move.partition.online_log(), move.future
        if not self._on_future(move, lambda: _follow(future, current, now_ms)):
            return False
        if future.log_end_offset >= current.log_end_offset:
            move.is_near = True
        if move.is_near and move.state is State.COPYING:
            move.state = State.ASSIGNING
            self._replicas.directory_changed(move.partition)
        if move.state is State.ASSIGNING and self._replicas.is_assigned(
            move.partition, future.parent_directory
        ):
            move.state = State.SWAPPING
        if move.is_near and move.state is State.SWAPPING:
            if not self._logs.is_at_rest(current) or not self._logs.is_at_rest(future):
                return False
            self._sync_and_swap(move, current)
            return True
        if future.log_end_offset < current.log_end_offset and not self.quota.is_exceeded(now_ms):
            self._copy(move, current)
            return True
        return False

    def _read(self, move: Move, current: Log) -> Callable[[], bytes] | None:
        """What gives the next records; None if compaction has taken all up to the end."""
        future = move.future
        limit = min(COPY_BYTES, future.config.segment_size)
        records = current.read(
            future.log_end_offset, limit, current.log_end_offset, at_least_one=True
        ).records
        if not len(records):
            return None
        move.is_near = (
            len(records) < limit and future.log_end_offset >= current.segments[-1].base_offset
        )
        return (lambda: records) if isinstance(records, bytes) else records.read

    def _copy(self, move: Move, current: Log) -> None:
        offset, truncations = move.future.log_end_offset, current.truncations
        try:
            read = self._read(move, current)
        except OSError as error:
            self._replicas.log_failed(*move.partition.key, error)
            self._soon()
            return
        if read is None:
            end_offset, now_ms = current.log_end_offset, self._logs.now_ms()
            self._on_future(move, lambda: move.future.extend_to(end_offset, now_ms))
            self._soon()
            return

        def done(records: object, error: Exception | None) -> None:
            if not self._still_moves(move, current):
                return
            if isinstance(error, OSError):
                self._replicas.log_failed(*move.partition.key, error)
            elif current.truncations == truncations and move.future.log_end_offset == offset:
                assert isinstance(records, bytes)
                self._append(move, records)

        self._in_background(read, done)

    def _append(self, move: Move, records: bytes) -> bool:
        now_ms = self._logs.now_ms()
        if not self._on_future(move, lambda: append_replicated(move.future, records, now_ms)):
            return False
        self.quota.record(len(records), now_ms)
        return True

    def _sync_and_swap(self, move: Move, current: Log) -> None:
        future = move.future

        def done(point: object, error: Exception | None) -> None:
            if not self._still_moves(move, current):
                return
            if isinstance(error, OSError):
                self._replicas.directory_failed(future.parent_directory, error)
                return
            assert isinstance(point, FlushPoint)
            future.note_flushed(point)
            if self._copy_the_rest(move, current):
                self._swap(move, current)

        self._in_background(future.sync, done)

    def _copy_the_rest(self, move: Move, current: Log) -> bool:
        """Copy what came meanwhile, at most one step of it; True if the two logs are the same then."""
        future = move.future
        if future.log_end_offset < current.log_end_offset:
            try:
                read = self._read(move, current)
                records = None if read is None else read()
            except OSError as error:
                self._replicas.log_failed(*move.partition.key, error)
                return False
            if records is None or not self._append(move, records):
                return False
        if future.log_end_offset != current.log_end_offset:
            return False
        return self._logs.is_at_rest(current) and self._logs.is_at_rest(future)

    def _swap(self, move: Move, current: Log) -> None:
        future, partition = move.future, move.partition
        now_ms = self._logs.now_ms()

        def complete() -> None:
            _follow(future, current, now_ms)
            for epoch, start_offset in current.epochs.entries():
                # An epoch in which nothing has been written is in no batch.
                if epoch > future.epochs.latest:
                    future.epochs.assign(epoch, start_offset)
            if future.flushed_offset < current.flushed_offset:
                future.flush()

        if not self._on_future(move, complete):
            return
        try:
            self._logs.futures.promote(future, current)
        except OSError as error:
            logger.error("%r failed: %s", move, error)
            return
        del self._moves[partition.key]
        partition.log = future
        logger.info("%s has moved to %s", future.name, future.parent_directory)
        self._replicas.log_replaced(partition)

    def _on_future(self, move: Move, act: Callable[[], object]) -> bool:
        """Change the future log; False if that failed."""
        try:
            act()
        except OSError as error:
            self._replicas.directory_failed(move.future.parent_directory, error)
            return False
        except (ApiError, UnexpectedOffset) as error:
            if not move.failing:
                logger.warning("%r cannot go on: %s; it is tried again", move, error)
            move.failing = True
            move.due_ms = self._logs.now_ms() + RETRY_MS
            return False
        move.failing = False
        return True


def _follow(future: Log, current: Log, now_ms: int) -> None:
    """What is not in the records: where the current log begins and how far it is committed."""
    if future.log_end_offset < current.log_start_offset:
        future.truncate_fully_and_start_at(current.log_start_offset, now_ms)
    if future.high_watermark != current.high_watermark:
        future.update_high_watermark(current.high_watermark)
    start_offset = min(current.log_start_offset, future.high_watermark)
    if start_offset > future.log_start_offset:
        future.increment_log_start_offset(start_offset)
