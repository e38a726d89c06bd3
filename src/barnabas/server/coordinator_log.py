"""A coordinator's topic as this broker's replicas hold it: the log under its shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.coordinator.partition_log import Appended, Chunk
from barnabas.record.validate import AppendOrigin
from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.replica.manager import ReplicaManager
    from barnabas.replica.partition import Partition


class ReplicaPartitionLog:
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
        try:
            records = log.read(offset, max_bytes, end_offset, at_least_one=True).records
            batches = records if isinstance(records, bytes) else records.read()
        except OSError as error:
            # Another broker can coordinate what this one cannot read.
            self._replicas.log_failed(self._topic, partition, error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        return Chunk(batches, end_offset, log.high_watermark)

    def listen(self, partition: int, listener: Callable[[int], None]) -> None:
        self._replicas.listen((self._topic, partition), listener)

    def unlisten(self, partition: int) -> None:
        self._replicas.unlisten((self._topic, partition))
