"""All partitions of this broker, and what requests do with them.

The manager follows the metadata image: topics that appear get logs, topics that vanish lose them, and
leadership is whatever the image says. Appends move high watermarks; whoever waits for that (a delayed
Produce, a delayed Fetch, a coordinator) is told once per turn of the event loop, so that a burst of
pipelined Produce requests wakes a consumer once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.delayed.purgatory import Purgatory
from barnabas.replica.fetch import Fetch, Results
from barnabas.replica.group_flush import GroupFlush
from barnabas.replica.partition import Partition
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.uuids import ZERO

if TYPE_CHECKING:
    from barnabas.delayed.timer import TimingWheel
    from barnabas.log.log import AppendInfo, AppendOrigin, Log
    from barnabas.log.manager import LogManager
    from barnabas.metadata.image import TopicImage
    from barnabas.replica.fetch_session import FetchTarget
    from barnabas.seams import Background

logger = logging.getLogger(__name__)

PartitionKey = tuple[str, int]


class ReplicaManager:
    def __init__(
        self,
        node_id: int,
        logs: LogManager,
        wheel: TimingWheel,
        *,
        defer: Callable[[Callable[[], None]], object],
        background: Background,
        flush_before_ack: bool,
    ) -> None:
        self.node_id = node_id
        self.logs = logs
        self.partitions: dict[PartitionKey, Partition] = {}
        self._names: dict[bytes, str] = {}
        self.produce_purgatory = Purgatory("Produce", wheel)
        self.fetch_purgatory = Purgatory("Fetch", wheel)
        self.delete_records_purgatory = Purgatory("DeleteRecords", wheel)
        self.flush_before_ack = flush_before_ack
        self._group_flush = GroupFlush(background, self._flushed, self._flush_failed)
        self._defer = defer
        self._moved: dict[Partition, None] = {}
        self._listeners: dict[PartitionKey, Callable[[int], None]] = {}
        self.offline: set[PartitionKey] = set()
        self.all_directories_failed: Callable[[], None] = lambda: None

    # ---- finding

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def find(self, topic: str | None, index: int) -> Partition | None:
        return self.partitions.get((topic, index))  # type: ignore[arg-type]

    def partition(self, topic: str, index: int) -> Partition:
        partition = self.partitions.get((topic, index))
        if partition is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return partition

    def partition_of(self, topic: str | None, topic_id: bytes, index: int) -> Partition:
        """By name, or by id where the peer speaks of ids; the two must belong together."""
        if topic is None:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_ID
                if topic_id != ZERO
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        partition = self.partitions.get((topic, index))
        if partition is None:
            if topic_id != ZERO and topic_id not in self._names:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if topic_id != ZERO and partition.topic_id != topic_id:
            raise ApiError(
                ErrorCode.INCONSISTENT_TOPIC_ID
                if topic_id in self._names
                else ErrorCode.UNKNOWN_TOPIC_ID
            )
        return partition

    # ---- appending and reading

    def append(
        self,
        partition: Partition,
        records: memoryview,
        now_ms: int,
        origin: AppendOrigin,
        *,
        acks_all: bool,
    ) -> AppendInfo:
        try:
            info = partition.append(records, now_ms, origin, acks_all=acks_all)
        except OSError as error:
            self.log_failed(partition.topic, partition.index, error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        if partition.flush_before_ack:
            self._group_flush.mark(partition)
        elif partition.maybe_advance_high_watermark():
            self._high_watermark_moved(partition)
        return info

    def fetch(
        self,
        targets: list[FetchTarget],
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation_level: int,
        done: Callable[[Results], None],
    ) -> Results | None:
        """Results now, or None and `done(results)` later."""
        fetch = Fetch(
            self,
            targets,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            done=done,
        )
        results, size, urgent = fetch.read()
        if size >= min_bytes or urgent or max_wait_ms <= 0 or not targets:
            return results
        self.fetch_purgatory.try_complete_else_watch(fetch, fetch.watch(results))
        return None

    # ---- who waits for the high watermark

    def listen(self, key: PartitionKey, listener: Callable[[int], None]) -> None:
        """`listener(high_watermark)` after it moved; one per partition (its coordinator)."""
        self._listeners[key] = listener

    def unlisten(self, key: PartitionKey) -> None:
        self._listeners.pop(key, None)

    def _high_watermark_moved(self, partition: Partition) -> None:
        if not self._moved:
            self._defer(self._tell)
        self._moved[partition] = None

    def _tell(self) -> None:
        moved = self._moved
        self._moved = {}
        for partition in moved:
            key = partition.key
            self.produce_purgatory.check_and_complete(key)
            self.fetch_purgatory.check_and_complete(key)
            self.delete_records_purgatory.check_and_complete(key)
            listener = self._listeners.get(key)
            if listener is not None and partition.log is not None:
                listener(partition.log.high_watermark)

    def wake(self, key: PartitionKey) -> None:
        """Something other than the high watermark changed: leadership, log start, existence."""
        self.produce_purgatory.check_and_complete(key)
        self.fetch_purgatory.check_and_complete(key)
        self.delete_records_purgatory.check_and_complete(key)

    def _flushed(self, partition: Partition) -> None:
        if partition.maybe_advance_high_watermark():
            self._high_watermark_moved(partition)

    def _flush_failed(self, partition: Partition, error: OSError) -> None:
        self.log_failed(partition.topic, partition.index, error)

    # ---- failures of a log directory

    def log_failed(self, topic: str | None, index: int, error: OSError) -> None:
        partition = self.find(topic, index)
        if partition is None or partition.log is None:
            return
        self.directory_failed(partition.log.parent_directory, error)

    def directory_failed(self, directory: str, error: OSError) -> None:
        """Take a directory offline: its partitions answer KAFKA_STORAGE_ERROR, the others go on."""
        logger.error(
            "log directory %s failed (%s): its partitions are offline until it works again and "
            "the broker is restarted",
            directory,
            error,
        )
        self.logs.directory_failed(directory, error)
        lost = [
            partition
            for partition in self.partitions.values()
            if partition.log is not None and partition.log.parent_directory == directory
        ]
        for partition in lost:
            partition.log = None
            self.offline.add(partition.key)
        for partition in lost:
            self.wake(partition.key)
        if not self.logs.live_directories():
            self.all_directories_failed()

    # ---- following the metadata

    def apply_topic(self, topic: TopicImage, *, is_new: bool = False) -> None:
        """Make this broker's part of a topic what the image says. While a directory is offline, only
        partitions that are new (not known from before a start) get a log: others may have one there."""
        self._names[topic.topic_id] = topic.name
        for index, registration in topic.partitions.items():
            key = (topic.name, index)
            partition = self.partitions.get(key)
            if self.node_id not in registration.replicas:
                if partition is not None:
                    self._remove(partition)
                continue
            if partition is None:
                partition = self._create(topic, index, is_new)
            if partition.apply(registration):
                self.wake(key)

    def remove_topic(self, topic: TopicImage) -> None:
        self._names.pop(topic.topic_id, None)
        for index in topic.partitions:
            partition = self.partitions.get((topic.name, index))
            if partition is not None and partition.topic_id == topic.topic_id:
                self._remove(partition)

    def _create(self, topic: TopicImage, index: int, is_new: bool) -> Partition:
        log: Log | None
        try:
            log = self.logs.get_or_create(topic.name, index, topic.topic_id, is_new=is_new)
        except OSError as error:
            logger.error("cannot create the log of %s-%d: %s", topic.name, index, error)
            log = None
            self.offline.add((topic.name, index))
        partition = Partition(
            topic.name,
            topic.topic_id,
            index,
            self.node_id,
            log,
            flush_before_ack=self.flush_before_ack,
        )
        self.partitions[partition.key] = partition
        return partition

    def _remove(self, partition: Partition) -> None:
        del self.partitions[partition.key]
        self.offline.discard(partition.key)
        self._listeners.pop(partition.key, None)
        self._moved.pop(partition, None)
        if partition.log is not None:
            partition.log = None
            self.logs.delete(partition.topic, partition.index)
        self.wake(partition.key)
