"""All partitions of this broker, and what requests do with them.

The manager follows the metadata image: topics that appear get logs, topics that vanish lose them, and
leadership is whatever the image says. Appends move high watermarks; whoever waits for that (a delayed
Produce, a delayed Fetch, a coordinator) is told once per turn of the event loop, so that a burst of
pipelined Produce requests wakes a consumer once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from zlib import crc32

from barnabas.delayed.purgatory import Purgatory
from barnabas.replica.fetch import Fetch, FollowerFetch, Results
from barnabas.replica.fetcher import FollowerFetcher
from barnabas.replica.group_flush import GroupFlush
from barnabas.replica.isr import IsrManager
from barnabas.replica.late_creation import LateCreation
from barnabas.replica.log_dir_moves import LogDirMoves
from barnabas.replica.partition import Partition
from barnabas.replica.replication_quota import ReplicationQuota
from barnabas.replica.settings import ReplicaSettings
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.uuids import ZERO

if TYPE_CHECKING:
    from barnabas.config.topic import LogConfig
    from barnabas.delayed.timer import TimingWheel
    from barnabas.log.log import AppendInfo, AppendOrigin, Log
    from barnabas.log.manager import LogManager
    from barnabas.metadata.image import BrokerRegistration, PartitionRegistration, TopicImage
    from barnabas.replica.fetch_session import FetchTarget
    from barnabas.seams import Background

logger = logging.getLogger(__name__)

PartitionKey = tuple[str, int]
FetcherKey = tuple[int, int]


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
        settings: ReplicaSettings | None = None,
    ) -> None:
        self.node_id = node_id
        self.settings = ReplicaSettings() if settings is None else settings
        self.rack_aware = self.settings.rack_aware_selector
        self.isr_manager = IsrManager(node_id, self.settings)
        self.isr_manager.changed = self._isr_changed
        # The ids of log directories by their paths, for those that have one.
        self.directory_ids: dict[str, bytes] = {}
        # Told to whoever asks the controller: a replica is, or will be, in another directory.
        self.directory_to_tell: Callable[[Partition], None] = lambda partition: None
        self.leader_quota, self.follower_quota = (
            ReplicationQuota(self.settings.quota_window_num, self.settings.quota_window_size_ms)
            for _ in range(2)
        )
        self.fetchers: dict[FetcherKey, FollowerFetcher] = {}
        # Told to whoever does the I/O: a fetcher has something to ask, or has no partitions left.
        self.fetcher_wanted: Callable[[int, int], None] = lambda leader_id, number: None
        self.fetcher_unwanted: Callable[[int, int], None] = lambda leader_id, number: None
        self.logs = logs
        self.partitions: dict[PartitionKey, Partition] = {}
        self._names: dict[bytes, str] = {}
        self._topics: dict[str, TopicImage] = {}
        self.produce_purgatory = Purgatory("Produce", wheel)
        self.fetch_purgatory = Purgatory("Fetch", wheel)
        self.delete_records_purgatory = Purgatory("DeleteRecords", wheel)
        self.flush_before_ack = flush_before_ack
        self._group_flush = GroupFlush(background, self._flushed, self._flush_failed)
        self._defer = defer
        self._late = LateCreation(self._create_late, defer)
        self._moved: dict[Partition, None] = {}
        self._listeners: dict[PartitionKey, Callable[[int], None]] = {}
        self.offline: set[PartitionKey] = set()
        self.all_directories_failed: Callable[[], None] = lambda: None
        self.log_directory_failed: Callable[[str], None] = lambda path: None
        self.moves = LogDirMoves(
            self,
            logs,
            wheel,
            background,
            ReplicationQuota(
                self.settings.alter_log_dirs_quota_window_num,
                self.settings.alter_log_dirs_quota_window_size_ms,
            ),
        )

    def close(self) -> None:
        """Begin nothing any more; what is under way ends without effect."""
        self._late.close()
        self.moves.close()

    # ---- finding

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def find(self, topic: str | None, index: int) -> Partition | None:
        return self.partitions.get((topic, index))  # type: ignore[arg-type]

    def partition(self, topic: str, index: int) -> Partition:
        partition = self.partitions.get((topic, index))
        if partition is None:
            raise self._not_here(topic, index)
        return partition

    def _not_here(self, topic: str, index: int) -> ApiError:
        """Somebody else has the partition, or nobody."""
        known = self._topics.get(topic)
        if known is not None and index in known.partitions:
            return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def leader_of(self, topic: str | None, index: int) -> tuple[int, int]:
        """Leader and leader epoch of any partition of the cluster; -1, -1 if it is not known."""
        partition = self.find(topic, index)
        if partition is not None:
            return partition.leader_id, partition.leader_epoch
        known = self._topics.get(topic or "")
        registration = None if known is None else known.partitions.get(index)
        if registration is None:
            return -1, -1
        return registration.leader, registration.leader_epoch

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
            raise self._not_here(topic, index)
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
            if partition.followers:
                self.moved(partition)
        elif partition.maybe_advance_high_watermark(now_ms) or partition.followers:
            # Followers wait for the end of the log, not for the high watermark.
            self.moved(partition)
        return info

    def fetch(
        self,
        targets: list[FetchTarget],
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation_level: int,
        client_rack: str | None = None,
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
            client_rack=client_rack,
            done=done,
        )
        return self._read_or_wait(fetch)

    def follower_fetch(
        self,
        targets: list[FetchTarget],
        *,
        replica_id: int,
        replica_epoch: int,
        now_ms: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        done: Callable[[Results], None],
    ) -> Results | None:
        """The same for another broker: to the end of the logs."""
        fetch = FollowerFetch(
            self,
            targets,
            replica_id=replica_id,
            replica_epoch=replica_epoch,
            now_ms=now_ms,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            done=done,
        )
        results = self._read_or_wait(fetch)
        if results is not None:
            fetch.count(results)
        return results

    def _read_or_wait(self, fetch: Fetch) -> Results | None:
        results, size, urgent = fetch.read()
        max_wait_ms = fetch.delay_ms or 0
        if size >= fetch.min_bytes or urgent or max_wait_ms <= 0 or not fetch.targets:
            return results
        self.fetch_purgatory.try_complete_else_watch(fetch, fetch.watch(results))
        return None

    def nearest(self, partition: Partition, rack: str, target: FetchTarget) -> int | None:
        """The replica in the client's rack that it should read from; None: this leader (KIP-392)."""
        if not partition.is_leader:
            return None
        brokers = self.isr_manager.brokers
        here = brokers.get(self.node_id)
        if here is not None and here.rack == rack:
            return None
        best = None
        for follower in partition.followers.values():
            broker = brokers.get(follower.broker_id)
            if (
                broker is not None
                and broker.rack == rack
                and broker.active
                and follower.broker_id in partition.isr
                and follower.log_start_offset <= target.fetch_offset <= follower.log_end_offset
                and (best is None or follower.log_end_offset > best.log_end_offset)
            ):
                best = follower
        return None if best is None else best.broker_id

    # ---- who waits for the high watermark

    def listen(self, key: PartitionKey, listener: Callable[[int], None]) -> None:
        """`listener(high_watermark)` after it moved; one per partition (its coordinator)."""
        self._listeners[key] = listener

    def unlisten(self, key: PartitionKey) -> None:
        self._listeners.pop(key, None)

    def moved(self, partition: Partition) -> None:
        """Its high watermark moved, or what its followers wait for; told at the end of the turn."""
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

    def replicated(self, partition: Partition) -> None:
        """What this broker follows is committed further."""
        self.moved(partition)

    def _isr_changed(self, partition: Partition) -> None:
        partition.maybe_advance_high_watermark(self.logs.now_ms())
        self.moved(partition)

    def tick(self, now_ms: int) -> None:
        """Now and then, at least twice in `replica.lag.time.max.ms`: drop followers that lag."""
        for partition in list(self.partitions.values()):
            if partition.followers:
                partition.maybe_shrink(now_ms)
                if partition.maybe_advance_high_watermark(now_ms):
                    self.moved(partition)

    def flush(self, partition: Partition) -> None:
        self._group_flush.mark(partition)

    def _flushed(self, partition: Partition) -> None:
        if partition.fetcher in self.fetchers:
            self.fetchers[partition.fetcher].flushed(partition)
            self.fetcher_wanted(*partition.fetcher)
        if partition.maybe_advance_high_watermark(self.logs.now_ms()):
            self.moved(partition)

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
        self.moves.directory_failed(directory)
        for partition in lost:
            partition.log = None
            partition.lost_directory = directory
            self.moves.drop(partition)
            self.offline.add(partition.key)
            self._follow(partition)
        for partition in lost:
            self.wake(partition.key)
        self.log_directory_failed(directory)
        if not self.logs.live_directories():
            self.all_directories_failed()

    # ---- in which directory a replica is

    def alter_log_directory(self, topic: str, index: int, path: str) -> None:
        """Move a replica to another log directory of this broker. If it is not here yet, it will be
        made there, and the refusal says that it is not here."""
        directory = self.logs.directory(path)
        if directory is None:
            raise ApiError(
                ErrorCode.LOG_DIR_NOT_FOUND, f"Log dir {path} is not found in the config."
            )
        if not directory.is_online:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
        partition = self.find(topic, index)
        if partition is None:
            self.logs.prefer(topic, index, path)
            raise self._not_here(topic, index)
        partition.online_log()
        try:
            self.moves.start(partition, path)
        except OSError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error

    def directory_of(self, partition: Partition) -> bytes | None:
        """The id of the directory that the controller should know a replica to be in."""
        path = self.moves.wanted_directory(partition)
        if path is None:
            log = partition.log
            path = partition.lost_directory if log is None else log.parent_directory
        return self.directory_ids.get(path or "")

    def is_assigned(self, partition: Partition, path: str) -> bool:
        wanted = self.directory_ids.get(path)
        return wanted is None or partition.assigned_directory in (None, wanted)

    def directory_changed(self, partition: Partition) -> None:
        self.directory_to_tell(partition)

    def truncated(self, partition: Partition) -> None:
        self.moves.truncated(partition)

    def log_replaced(self, partition: Partition) -> None:
        """A move is over: everybody goes on with the new log."""
        if partition.flush_before_ack:
            self._group_flush.mark(partition)
        self.directory_to_tell(partition)
        self.moved(partition)

    # ---- following the metadata

    def apply_topic(
        self, topic: TopicImage, *, is_new: bool = False, at_once: bool = False
    ) -> None:
        """Make this broker's part of a topic what the image says. While a directory is offline, only
        partitions that are new (not known from before a start) get a log: others may have one there.
        Of very many new partitions some get theirs later, unless all are needed `at_once`."""
        self._names[topic.topic_id] = topic.name
        self._topics[topic.name] = topic
        for index, registration in topic.partitions.items():
            try:
                self._apply_partition(topic, index, registration, is_new, at_once)
            except OSError as error:
                self._failed(topic.name, index, error)
        self.moves.wake()

    def _apply_partition(
        self,
        topic: TopicImage,
        index: int,
        registration: PartitionRegistration,
        is_new: bool,
        at_once: bool,
    ) -> None:
        key = (topic.name, index)
        partition = self.partitions.get(key)
        if self.node_id not in registration.replicas:
            if partition is not None:
                self._remove(partition)
            return
        if partition is None:
            if not (at_once or self._late.now(key, is_new=is_new)):
                return
            partition = self._create(topic, index, registration, is_new)
        self._apply(partition, registration)

    def _apply(self, partition: Partition, registration: PartitionRegistration) -> None:
        if partition.apply(registration, self.logs.now_ms()):
            self._follow(partition)
            self.moved(partition)
            self.wake(partition.key)

    def _failed(self, topic: str, index: int, error: OSError) -> None:
        """The disk of this one failed; the others go on."""
        logger.error("%s-%d cannot be what it should: %s", topic, index, error)
        self.log_failed(topic, index, error)

    def _create_late(self, key: PartitionKey, is_new: bool) -> None:
        """A partition whose log had to wait is what the image says by now."""
        topic = self._topics.get(key[0])
        registration = None if topic is None else topic.partitions.get(key[1])
        if topic is None or registration is None or key in self.partitions:
            return
        if self.node_id in registration.replicas:
            try:
                partition = self._create(topic, key[1], registration, is_new)
                self._apply(partition, registration)
            except OSError as error:
                self._failed(*key, error)
                return
            self.directory_to_tell(partition)

    def apply_brokers(self, brokers: Mapping[int, BrokerRegistration]) -> None:
        """The brokers of the image, before its topics: who may be in sync, and where they are."""
        self.isr_manager.brokers = brokers

    def _broker_epoch(self) -> int:
        return self.isr_manager.broker_epoch()

    def _follow(self, partition: Partition) -> None:
        """Give a partition to the fetcher of its leader, or take it from where it was."""
        wanted: FetcherKey | None = None
        if (
            partition.log is not None
            and partition.leader_id >= 0
            and not partition.is_leader
            and self.partitions.get(partition.key) is partition
        ):
            share = (crc32(partition.topic.encode()) + partition.index) % (
                self.settings.num_replica_fetchers
            )
            wanted = (partition.leader_id, share)
        before = partition.fetcher
        if before is not None and before != wanted:
            fetcher = self.fetchers[before]
            fetcher.remove(partition)
            if not len(fetcher):
                del self.fetchers[before]
                self.fetcher_unwanted(*before)
        partition.fetcher = wanted
        if wanted is not None:
            if wanted not in self.fetchers:
                self.fetchers[wanted] = FollowerFetcher(
                    *wanted,
                    self.node_id,
                    self,
                    self.settings,
                    self._broker_epoch,
                    self.follower_quota,
                )
            self.fetchers[wanted].add(partition)
            self.fetcher_wanted(*wanted)

    def throttle(self, topic: str, config: LogConfig) -> None:
        """Which replicas of a topic have to share the quotas."""
        sent = config.leader_replication_throttled_replicas
        fetched = config.follower_replication_throttled_replicas
        self.leader_quota.throttle(topic, sent, self.node_id)
        self.follower_quota.throttle(topic, fetched, self.node_id)

    def remove_topic(self, topic: TopicImage) -> None:
        self._names.pop(topic.topic_id, None)
        known = self._topics.get(topic.name)
        if known is not None and known.topic_id == topic.topic_id:
            del self._topics[topic.name]
            self.leader_quota.throttle(topic.name, (), self.node_id)
            self.follower_quota.throttle(topic.name, (), self.node_id)
        for index in topic.partitions:
            partition = self.partitions.get((topic.name, index))
            if partition is not None and partition.topic_id == topic.topic_id:
                self._remove(partition)

    def _create(
        self, topic: TopicImage, index: int, registration: PartitionRegistration, is_new: bool
    ) -> Partition:
        log: Log | None
        try:
            log = self.logs.get_or_create(
                topic.name,
                index,
                topic.topic_id,
                is_new=is_new,
                assigned=self._path_of(registration.directory(self.node_id)),
            )
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
            self.isr_manager,
            flush_before_ack=self.flush_before_ack,
        )
        self.partitions[partition.key] = partition
        future = self.logs.futures.find(topic.name, index, topic.topic_id)
        if log is not None and future is not None:
            self.moves.resume(partition, future)
        return partition

    def _path_of(self, directory_id: bytes | None) -> str | None:
        return next(
            (path for path, each in self.directory_ids.items() if each == directory_id), None
        )

    def _remove(self, partition: Partition) -> None:
        del self.partitions[partition.key]
        self.moves.cancel(partition)
        self._follow(partition)
        self.offline.discard(partition.key)
        self._listeners.pop(partition.key, None)
        self._moved.pop(partition, None)
        if partition.log is not None:
            partition.log = None
            self.logs.delete(partition.topic, partition.index)
        else:
            future = self.logs.futures.find(partition.topic, partition.index, partition.topic_id)
            if future is not None:
                self.logs.futures.delete(future)
        self.wake(partition.key)
