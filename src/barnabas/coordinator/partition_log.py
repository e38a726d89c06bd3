"""The log under a shard, as the runtime sees it.

The runtime needs little: append a batch and learn its last offset and how far the log is
committed, and read the log from its start. `ReplicaPartitionLog` gives it that over the replica
manager; tests give it a list of batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.log.log import AppendOrigin
from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.replica.manager import ReplicaManager
    from barnabas.replica.partition import Partition

Buffer = bytes | bytearray | memoryview


class Appended(NamedTuple):
    last_offset: int
    # The first offset that is not committed yet.
    high_watermark: int


class Chunk(NamedTuple):
    """Whole batches, from the asked offset on; empty at the end of the log."""

    batches: Buffer
    log_end_offset: int
    high_watermark: int


class PartitionLog(Protocol):
    """All partitions of one coordinator's topic. Failures are ApiError."""

    def append(self, partition: int, batch: bytearray, now_ms: int) -> Appended: ...

    def start_offset(self, partition: int) -> int: ...

    def read(self, partition: int, offset: int, max_bytes: int) -> Chunk:
        """At least one batch, however large, unless the offset is the log's end."""

    def listen(self, partition: int, listener: Callable[[int], None]) -> None:
        """`listener(high_watermark)` whenever it moves, also by appends of this runtime."""

    def unlisten(self, partition: int) -> None: ...


class ReplicaPartitionLog:
    """A coordinator's topic as this broker's replicas hold it."""

    def __init__(self, topic: str, replicas: ReplicaManager) -> None:
        self._topic = topic
        self._replicas = replicas

    def _partition(self, partition: int) -> Partition:
        found = self._replicas.find(self._topic, partition)
        if found is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return found

    def append(self, partition: int, batch: bytearray, now_ms: int) -> Appended:
        found = self._partition(partition)
        info = self._replicas.append(
            found, memoryview(batch), now_ms, AppendOrigin.COORDINATOR, acks_all=True
        )
        return Appended(info.last_offset, found.online_log().high_watermark)

    def start_offset(self, partition: int) -> int:
        return self._partition(partition).online_log().log_start_offset

    def read(self, partition: int, offset: int, max_bytes: int) -> Chunk:
        log = self._partition(partition).online_log()
        end_offset = log.log_end_offset
        if offset >= end_offset:
            return Chunk(b"", end_offset, log.high_watermark)
        records = log.read(offset, max_bytes, end_offset, at_least_one=True).records
        batches = records if isinstance(records, bytes) else records.read()
        return Chunk(batches, end_offset, log.high_watermark)

    def listen(self, partition: int, listener: Callable[[int], None]) -> None:
        self._replicas.listen((self._topic, partition), listener)

    def unlisten(self, partition: int) -> None:
        self._replicas.unlisten((self._topic, partition))
