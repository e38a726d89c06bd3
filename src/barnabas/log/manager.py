"""All logs of a node, over all of its log directories.

The manager loads what is there, makes and removes logs, and does what must be done from time to
time: retention, flushing, checkpoints, compaction, forgetting producers. Whoever owns the clock
calls these; each returns at once and leaves the slow part (fsync, removing files, compacting) to
the background.

A directory that fails takes its own partitions offline and no others. `failed` is told, so that
whoever holds partitions lets them go.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from types import MappingProxyType

from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import LogConfig
from barnabas.log import file_names
from barnabas.log.checkpoints import (
    CorruptCheckpoint,
    TopicPartition,
    read_partition_metadata,
    write_partition_metadata,
)
from barnabas.log.cleaner import DEDUPE_BUFFER_BYTES, Cleaner
from barnabas.log.directory import DirectoryInUse, LogDirectory
from barnabas.log.future_logs import FutureLogs
from barnabas.log.log import PRODUCER_EXPIRATION_MS, FlushPoint, Log
from barnabas.log.recovery import UnreadableLog
from barnabas.log.segment import OpenSegments
from barnabas.seams import Background, Clock, Disk, Randomness
from barnabas.wire.uuids import ZERO, from_text, to_text

logger = logging.getLogger(__name__)

ConfigOf = Callable[[str], LogConfig]
LOGS_PER_STEP = 250

MAX_PREFERRED = 10_000
UNKNOWN_LAG = -1


class NoUsableDirectory(Exception):
    """A node without any directory can keep nothing: it must not start."""


class DuplicateLog(Exception):
    """The same partition is in two log directories; someone must say which one is right."""


@dataclass(frozen=True, slots=True)
class PartitionSize:
    topic: str
    index: int
    size: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class DirectoryDescription:
    """What DescribeLogDirs shows of one directory. Bytes are -1 where they cannot be had."""

    path: str
    is_online: bool
    total_bytes: int
    usable_bytes: int
    partitions: list[PartitionSize]


class LogManager:
    def __init__(
        self,
        disk: Disk,
        background: Background,
        directories: Sequence[str],
        *,
        config_of: ConfigOf,
        clock: Clock,
        randomness: Randomness,
        broker: BrokerConfig | None = None,
        open_files_limit: int = 512,
    ) -> None:
        self._disk = disk
        self._background = background
        self._config_of = config_of
        self._clock = clock
        self._randomness = randomness
        self.directories = [LogDirectory(disk, path) for path in dict.fromkeys(directories)]
        self._producer_expiration_ms = (
            PRODUCER_EXPIRATION_MS if broker is None else broker.producer_id_expiration_ms
        )
        self._open_segments = OpenSegments(open_files_limit)
        self._logs: dict[TopicPartition, Log] = {}
        self.logs: Mapping[TopicPartition, Log] = MappingProxyType(self._logs)
        self.failed: Callable[[str, OSError], None] = self.directory_failed
        self._doomed: list[tuple[int, str]] = []
        self._unreadable: dict[TopicPartition, UnreadableLog] = {}
        # Directories whose checkpoint files may still name a log that is not there any more.
        self._stale: set[tuple[str, TopicPartition]] = set()
        self.futures = FutureLogs(self, disk, randomness)
        self._preferred: dict[TopicPartition, str] = {}
        self._checkpointing = False
        self._flushing: set[Log] = set()
        self._cleaner_enabled = broker is None or broker.log_cleaner_enable
        self.cleaner = Cleaner(
            disk,
            background,
            clock=clock,
            io_max_bytes_per_second=(
                inf if broker is None else broker.log_cleaner_io_max_bytes_per_second
            ),
            dedupe_buffer_bytes=(
                DEDUPE_BUFFER_BYTES if broker is None else broker.log_cleaner_dedupe_buffer_size
            ),
            directory_of=lambda log: self.directory(log.parent_directory),
            is_current=self._is_current,
            failed=self._tell_failed,
        )

    # -- start

    def load(self) -> None:
        """Load every log of every directory that works; the others are offline.

        A directory that another broker uses stops the start."""
        for directory in self.directories:
            try:
                names = directory.open()
            except DirectoryInUse as error:
                directory.error = error
                raise
            except OSError as error:
                self.failed(directory.path, error)
                continue
            self._load_directory(directory, names)
            here = {(log.topic, log.partition) for log in self._in(directory)}
            self._stale.update((directory.path, key) for key in directory.checkpointed() - here)
        if self.directories and not self.live_directories():
            reasons = "; ".join(f"{each.path}: {each.error}" for each in self.directories)
            raise NoUsableDirectory(f"None of the log directories can be used ({reasons}).")

    def _load_directory(self, directory: LogDirectory, names: list[str]) -> None:
        now_ms = self._clock.now_ms()
        works: list[Callable[[], None]] = []
        loaded: list[Log] = []
        failures: list[tuple[str, OSError]] = []
        for name in names:
            if name == file_names.CLUSTER_METADATA_DIRECTORY:
                continue
            parsed = file_names.parse_partition_directory(name)
            if parsed is None:
                continue
            path = f"{directory.path}/{name}"
            topic, index, mark = parsed
            if mark == file_names.DELETE_DIRECTORY:
                self._doomed.append((now_ms, path))
            elif mark == file_names.STRAY_DIRECTORY:
                logger.warning("%s is left as it is: it belongs to no partition", path)
            else:
                works.append(
                    self._loading(
                        directory,
                        path,
                        (topic, index),
                        now_ms=now_ms,
                        loaded=loaded,
                        failures=failures,
                    )
                )
        if directory.was_clean:
            for work in works:
                work()
        else:
            if works:
                logger.info(
                    "%s was not closed in order: recovering its %d logs", directory.path, len(works)
                )
            self._background.run_all(works)
        for log in loaded:
            if log.is_future:
                self._watch(log)
                self.futures.loaded(log)
                continue
            key = (log.topic, log.partition)
            other = self._logs.get(key)
            if other is not None:
                raise DuplicateLog(f"{log.directory} and {other.directory} hold the same partition")
            self._watch(log)
            self._logs[key] = log
        for path, error in failures[:1]:
            logger.error("loading %s: %s", path, error)
            self.failed(directory.path, error)

    def _loading(
        self,
        directory: LogDirectory,
        path: str,
        key: TopicPartition,
        *,
        now_ms: int,
        loaded: list[Log],
        failures: list[tuple[str, OSError]],
    ) -> Callable[[], None]:
        def load() -> None:
            if failures:
                return
            try:
                topic_id = self._read_topic_id(path)
                log = Log.open(
                    self._disk,
                    path,
                    self._config_of(key[0]),
                    now_ms=now_ms,
                    topic_id=topic_id,
                    log_start_offset=directory.log_start_offsets.get(key, 0),
                    recovery_point=directory.recovery_points.get(key, 0),
                    high_watermark=directory.high_watermarks.get(key, 0),
                    clean=directory.was_clean,
                    was_compacted=key in directory.cleaner_offsets
                    or key not in directory.recovery_points,
                    producer_expiration_ms=self._producer_expiration_ms,
                    open_segments=self._open_segments,
                    randomness=self._randomness,
                )
            except UnreadableLog as error:
                logger.error("%s is left as it is: %s", path, error)
                if not path.endswith(file_names.FUTURE_DIRECTORY):
                    self._unreadable[key] = error
            except OSError as error:
                failures.append((path, error))
            else:
                loaded.append(log)

        return load

    def _read_topic_id(self, path: str) -> bytes | None:
        try:
            text = read_partition_metadata(self._disk, f"{path}/{file_names.PARTITION_METADATA}")
            return None if text is None else from_text(text)
        except (CorruptCheckpoint, ValueError) as error:
            logger.warning("going on without the topic id of %s: %s", path, error)
            return None

    def _watch(self, log: Log) -> None:
        log.on_roll = partial(self._rolled, log)

    def previous_broker_epoch(self) -> int:
        """The broker epoch of an orderly stop, or -1: then others must not rely on our logs."""
        epochs = [each.shutdown.broker_epoch if each.shutdown else -1 for each in self.directories]
        return epochs[0] if epochs and len(set(epochs)) == 1 else -1

    # -- finding, making, removing

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def live_directories(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if directory.is_online]

    def get(self, topic: str, index: int) -> Log | None:
        return self._logs.get((topic, index))

    def all_logs(self) -> list[Log]:
        """The logs of partitions, and those that will replace some of them."""
        return [*self._logs.values(), *self.futures]

    def prefer(self, topic: str, index: int, path: str) -> None:
        """Make the log of a partition in that directory, once it is made here."""
        self._preferred.pop((topic, index), None)
        if len(self._preferred) >= MAX_PREFERRED:
            del self._preferred[next(iter(self._preferred))]
        self._preferred[(topic, index)] = path

    def get_or_create(
        self,
        topic: str,
        index: int,
        topic_id: bytes,
        *,
        is_new: bool = False,
        assigned: str | None = None,
    ) -> Log:
        """The log of a partition, made if it is not there: in the directory that was preferred, or
        the one that is `assigned`, or that with the fewest logs. OSError if no directory can have it;
        also while one is offline, since the log may be there, unless the partition `is_new`."""
        key = (topic, index)
        if key in self._unreadable:
            raise self._unreadable[key]
        log = self._logs.get(key)
        if log is not None:
            if log.topic_id is None and topic_id != ZERO:
                self._set_topic_id(log, topic_id)
            if log.topic_id == topic_id or topic_id == ZERO:
                return log
            logger.warning("%s has another topic id: it is set aside as stray", log.directory)
            self.set_aside(topic, index)
        live = self.live_directories()
        future = self.futures.find(topic, index, topic_id)
        if future is not None and (
            len(live) == len(self.directories) or future.parent_directory == assigned
        ):
            logger.info("%s takes the place of %s-%d", future.directory, topic, index)
            self.futures.promote(future, None)
            return future
        if not live or (len(live) < len(self.directories) and not is_new):
            offline = [directory.path for directory in self.directories if not directory.is_online]
            raise OSError(
                f"Can not create log for {topic}-{index} because log directories "
                f"{', '.join(offline)} are offline"
            )
        directory = self._choose(live, self._preferred.get(key, assigned))
        try:
            log = self.open_new(directory, file_names.partition_directory(*key), key, topic_id)
        except OSError as error:
            self.failed(directory.path, error)
            raise
        self._preferred.pop(key, None)
        self._logs[key] = log
        return log

    def _choose(self, live: list[LogDirectory], wanted: str | None) -> LogDirectory:
        counts = {directory.path: 0 for directory in live}
        if wanted in counts:
            return next(directory for directory in live if directory.path == wanted)
        if len(live) > 1:
            for log in self.all_logs():
                counts[log.parent_directory] += 1
        return min(live, key=lambda each: counts[each.path])

    def open_new(
        self, directory: LogDirectory, name: str, key: TopicPartition, topic_id: bytes
    ) -> Log:
        """A new log of a partition under that name."""
        if (directory.path, key) in self._stale:
            # An earlier log of that name is gone: its offsets must not be taken for the new one's.
            directory.checkpoint(self._in(directory))()
            directory.cleaner_offsets.pop(key, None)
            directory.write_cleaner_offsets()
            self._stale.discard((directory.path, key))
        log = Log.open(
            self._disk,
            f"{directory.path}/{name}",
            self._config_of(key[0]),
            now_ms=self._clock.now_ms(),
            producer_expiration_ms=self._producer_expiration_ms,
            open_segments=self._open_segments,
            randomness=self._randomness,
        )
        if log.topic != key[0] or log.is_future:
            log.belongs_to(*key)
        if topic_id != ZERO:
            self._set_topic_id(log, topic_id)
        self._watch(log)
        return log

    def replace(self, log: Log) -> None:
        """From now on this is the log of its partition."""
        self._logs[(log.topic, log.partition)] = log
        self.checkpoint()

    def give_topic_id(self, log: Log, topic_id: bytes) -> None:
        """The log belongs to that topic from now on."""
        self._set_topic_id(log, topic_id)

    def _set_topic_id(self, log: Log, topic_id: bytes) -> None:
        path = f"{log.directory}/{file_names.PARTITION_METADATA}"
        write_partition_metadata(self._disk, path, to_text(topic_id))
        log.topic_id = topic_id

    def delete(self, topic: str, index: int) -> None:
        """Take a partition's log away. Its files go after `file.delete.delay.ms`."""
        log = self._logs.get((topic, index))
        if log is None:
            return
        path = self._move_away(log, file_names.delete_directory)
        if path is not None:
            self.doom(path, log.config.file_delete_delay_ms)

    def doom(self, path: str, delay_ms: int) -> None:
        """Remove a directory of that name, later."""
        self._doomed.append((self._clock.now_ms() + delay_ms, path))

    def set_aside(self, topic: str, index: int) -> None:
        """Keep the files of a log under another name: it belongs to no partition of the cluster."""
        log = self._logs.get((topic, index))
        if log is not None:
            self._move_away(log, file_names.stray_directory)

    def _move_away(self, log: Log, name_of: Callable[[str, int, str], str]) -> str | None:
        del self._logs[(log.topic, log.partition)]
        unique = self._randomness.randbytes(16).hex()
        path = f"{log.parent_directory}/{name_of(log.topic, log.partition, unique)}"
        try:
            log.release()
            self._disk.rename(log.directory, path)
            log.moved(path)
        except OSError as error:
            self.failed(log.parent_directory, error)
            return None
        finally:
            self.forget_checkpoints(log)
        return path

    def forget_checkpoints(self, log: Log) -> None:
        """What checkpoint files say of a log does not hold any more."""
        key = (log.topic, log.partition)
        self._stale.add((log.parent_directory, key))
        directory = self.directory(log.parent_directory)
        if directory is not None:
            directory.cleaner_offsets.pop(key, None)

    def find_strays(self, is_expected: Callable[[Log], bool]) -> list[Log]:
        """Logs that the metadata of the cluster does not place here."""
        return [log for log in self._logs.values() if not is_expected(log)]

    def update_config(self, topic: str, config: LogConfig) -> None:
        for log in self.all_logs():
            if log.topic == topic:
                log.update_config(config)

    def update_broker_config(self, broker: BrokerConfig) -> None:
        """What the broker's own settings say of all logs; may change while it runs."""
        self._producer_expiration_ms = broker.producer_id_expiration_ms
        for log in self.all_logs():
            log.producers.expiration_ms = broker.producer_id_expiration_ms
        self.cleaner.map_bytes = broker.log_cleaner_dedupe_buffer_size
        self.cleaner.throttle.bytes_per_second = broker.log_cleaner_io_max_bytes_per_second

    def directory(self, path: str) -> LogDirectory | None:
        return next((each for each in self.directories if each.path == path), None)

    def _in(self, directory: LogDirectory) -> list[Log]:
        return [log for log in self.all_logs() if log.parent_directory == directory.path]

    # -- failures

    def directory_failed(self, path: str, error: OSError) -> None:
        """Take a directory and its logs offline."""
        directory = self.directory(path)
        if directory is None or not directory.is_online:
            return
        directory.error = error
        directory.unlock()
        for key in [key for key, log in self._logs.items() if log.parent_directory == path]:
            self._logs.pop(key).abandon()
        self.futures.abandon_in(path)

    def _tell_failed(self, path: str, error: OSError) -> None:
        self.failed(path, error)

    def _guarded(self, logs: Iterable[Log]) -> Iterator[Log]:
        """Those of `logs` that are still here when it is their turn."""
        return (log for log in list(logs) if self._is_current(log))

    def _is_current(self, log: Log) -> bool:
        return self._logs.get((log.topic, log.partition)) is log or log in self.futures

    def is_at_rest(self, log: Log) -> bool:
        """Whether no thread is at work on its files for this manager."""
        return not log.cleaning and log not in self._flushing

    # -- from time to time

    def run_retention(self, now_ms: int) -> int:
        """Remove what is too old or too much; how many segments went."""
        return sum(self.retention_steps(now_ms))

    def retention_steps(self, now_ms: int) -> Iterator[int]:
        """The same in steps that each look at some logs, so that the loop can do others' work
        between them; gives how many segments went in each."""
        count = 0
        for number, log in enumerate(self._guarded(self.all_logs()), 1):
            if not log.cleaning:
                try:
                    count += log.delete_old_segments(now_ms)
                except OSError as error:
                    self.failed(log.parent_directory, error)
            if number % LOGS_PER_STEP == 0:
                yield count
                count = 0
        yield count

    def remove_doomed(self, now_ms: int) -> None:
        """Remove the files of segments and partitions that were deleted long enough ago."""
        removals: list[Callable[[], None]] = []
        for log in self.all_logs():
            removals += [segment.remove_files for segment in log.take_doomed(now_ms)]
        due = [path for due_ms, path in self._doomed if due_ms <= now_ms]
        if due:
            self._doomed = [entry for entry in self._doomed if entry[0] > now_ms]
            removals += [lambda path=path: self._remove_tree(path) for path in due]  # type: ignore[misc]
        if removals:
            self._background.submit(lambda: _run(removals), _report)

    def _remove_tree(self, path: str) -> None:
        try:
            self._disk.remove_tree(path)
        except FileNotFoundError:
            return

    def flush_dirty(self, now_ms: int) -> None:
        """Flush the logs whose oldest unflushed record has waited for `flush.ms`."""
        due = [
            log
            for log in self.all_logs()
            if log.unflushed_since_ms is not None
            and now_ms - log.unflushed_since_ms >= log.config.flush_ms
        ]
        for log in self._guarded(due):
            self._flush(log, log.sync)

    def _rolled(self, log: Log) -> None:
        self._flush(log, log.sync_sealed)

    def _flush(self, log: Log, sync: Callable[[], FlushPoint]) -> None:
        if log in self._flushing:
            return
        self._flushing.add(log)

        def done(point: FlushPoint | None, error: Exception | None) -> None:
            self._flushing.discard(log)
            if not self._is_current(log):
                return  # deleted meanwhile, and its files with it
            if isinstance(error, OSError):
                self.failed(log.parent_directory, error)
            elif error is not None:
                raise error
            elif point is not None:
                log.note_flushed(point)

        self._background.submit(sync, done)

    def checkpoint(self) -> None:
        """Write recovery points, log start offsets and high watermarks."""
        if self._checkpointing:
            return
        self._checkpointing = True
        stale = set(self._stale)
        works = [
            (directory, directory.checkpoint(self._in(directory)))
            for directory in self.live_directories()
        ]
        failures: list[tuple[str, OSError]] = []

        def write() -> None:
            for directory, work in works:
                try:
                    work()
                except OSError as error:
                    failures.append((directory.path, error))

        def done(_: None, error: Exception | None) -> None:
            self._checkpointing = False
            if error is not None:
                raise error
            for path, failure in failures:
                self.failed(path, failure)
            if not failures:
                self._stale -= stale

        self._background.submit(write, done)

    def clean_once(self, now_ms: int) -> bool:
        """Start compacting the log that needs it most; False if there is none, or one is running."""
        # One that is being copied stays as it is: the copy must not have parts from before and after.
        logs = [log for log in self._logs.values() if not self.futures.is_moving(log)]
        return self._cleaner_enabled and self.cleaner.clean_once(logs, now_ms)

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that have been silent for `producer.id.expiration.ms`."""
        return sum(log.producers.expire(now_ms) for log in self.all_logs())

    # -- asking

    def describe(self) -> list[DirectoryDescription]:
        """What is in each directory, as DescribeLogDirs shows it."""
        return [self._describe(directory) for directory in self.directories]

    def _describe(self, directory: LogDirectory) -> DirectoryDescription:
        total = usable = -1
        if directory.is_online:
            try:
                total = self._disk.total_space(directory.path)
                usable = self._disk.free_space(directory.path)
            except OSError as error:
                self.failed(directory.path, error)
        return DirectoryDescription(
            directory.path,
            directory.is_online,
            total,
            usable,
            [
                PartitionSize(
                    log.topic, log.partition, log.size, self._offset_lag(log), log.is_future
                )
                for log in self._in(directory)
                if directory.is_online
            ],
        )

    def _offset_lag(self, log: Log) -> int:
        """What a future log lacks; what another lacks of what is committed, so far as it knows."""
        current = self._logs.get((log.topic, log.partition))
        if current is None:
            return UNKNOWN_LAG
        return max(
            0,
            (current.log_end_offset if log.is_future else log.high_watermark) - log.log_end_offset,
        )

    # -- end

    def close(self, clean: bool = True, broker_epoch: int = -1) -> None:
        """Close every log. A `clean` end makes all of it durable and says so to the next start."""
        for directory in self.live_directories():
            logs = self._in(directory)
            if clean:
                try:
                    self._close_logs(logs)
                    directory.checkpoint(logs)()
                    directory.mark_clean(broker_epoch)
                except OSError as error:
                    logger.error("%s could not be closed in order: %s", directory.path, error)
            else:
                for log in logs:
                    log.abandon()
            directory.unlock()
        self._logs.clear()
        self.futures.clear()

    def _close_logs(self, logs: list[Log]) -> None:
        failures: list[OSError] = []

        def syncing(log: Log) -> Callable[[], None]:
            def sync() -> None:
                try:
                    log.sync_all()
                except OSError as error:
                    failures.append(error)

            return sync

        self._background.run_all([syncing(log) for log in logs if log.finish()])
        for log in logs:
            log.release()
        for error in failures[:1]:
            raise error


def _run(works: list[Callable[[], None]]) -> None:
    for work in works:
        work()


def _report(_: None, error: Exception | None) -> None:
    if error is not None:
        logger.error("removing deleted files failed and is left to the next start: %s", error)
