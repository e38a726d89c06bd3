"""Future logs: copies that take the place of their partition's log in another log directory.

A replica moves between directories by a second log, `<topic>-<partition>.<id>-future`, that is filled
from the current one and then swapped with it. Who fills it and when is decided elsewhere; here is what
the names on the disk mean and how they change.

The swap gives the current log its `-delete` name, then the future one its plain name, each made durable
before the next step. So there are never two logs with the plain name, and between the two steps there is
none: a future log without a current one is complete, and takes the place when the partition is next
asked for. It may also be without a current one because a directory is offline. Then it may lack
records, and only takes the place if the metadata has assigned the partition to its directory (KIP-858).

A future log is known by its topic's id: where a topic's name is long, the name of the directory has
only its beginning.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.log import file_names
from barnabas.wire.uuids import ZERO

if TYPE_CHECKING:
    from barnabas.log.log import Log
    from barnabas.log.manager import LogManager
    from barnabas.seams import Disk, Randomness

logger = logging.getLogger(__name__)


class FutureLogs:
    def __init__(self, manager: LogManager, disk: Disk, randomness: Randomness) -> None:
        self._manager = manager
        self._disk = disk
        self._randomness = randomness
        self._logs: dict[tuple[bytes, int], Log] = {}

    def __iter__(self) -> Iterator[Log]:
        return iter(tuple(self._logs.values()))

    def __len__(self) -> int:
        return len(self._logs)

    def __contains__(self, log: Log) -> bool:
        return self._logs.get((log.topic_id or ZERO, log.partition)) is log

    def is_moving(self, log: Log) -> bool:
        """Whether a log is about to be replaced."""
        return bool(self._logs) and (log.topic_id or ZERO, log.partition) in self._logs

    def find(self, topic: str, index: int, topic_id: bytes) -> Log | None:
        found = self._logs.get((topic_id, index))
        if found is not None and found.topic != topic:
            found.belongs_to(topic, index)
        return found

    def loaded(self, log: Log) -> None:
        """One that was found at the start."""
        if log.topic_id is None:
            logger.warning("%s has no topic id: the move is forgotten", log.directory)
            self._doom(log)
            return
        key = (log.topic_id, log.partition)
        other = self._logs.get(key)
        if other is not None:
            # An earlier move that was called off when the node ended. The longer one has more.
            log, other = sorted((log, other), key=lambda each: -each.log_end_offset)
            logger.warning("%s is given up for %s", other.directory, log.directory)
            self._doom(other)
        self._logs[key] = log

    def _doom(self, log: Log) -> None:
        log.release()
        self._manager.doom(log.directory, 0)

    def create(self, current: Log, path: str) -> Log:
        """An empty log in another directory. OSError if that one fails; it is then offline."""
        assert current.topic_id is not None
        directory = self._manager.directory(path)
        assert directory is not None
        assert path != current.parent_directory
        key = (current.topic, current.partition)
        name = file_names.future_directory(*key, self._unique())
        try:
            future = self._manager.open_new(directory, name, key, current.topic_id)
            source = self._manager.directory(current.parent_directory)
            if source is not None and (current.config.compact or key in source.cleaner_offsets):
                # Offsets may be missing from it, and nothing of it counts as compacted.
                directory.cleaner_offsets[key] = 0
                directory.write_cleaner_offsets()
        except OSError as error:
            self._manager.failed(path, error)
            raise
        self._logs[(current.topic_id, current.partition)] = future
        return future

    def _unique(self) -> str:
        return self._randomness.randbytes(16).hex()

    def delete(self, future: Log) -> None:
        """The move is called off. The new name is durable: no start may take the move up again."""
        if future not in self:
            return
        self._forget(future)
        try:
            path = self._rename_for_deletion(future)
        except OSError as error:
            self._manager.failed(future.parent_directory, error)
            return
        self._settle_deleted(future, path)

    def _forget(self, future: Log) -> None:
        del self._logs[(future.topic_id or ZERO, future.partition)]

    def abandon_in(self, path: str) -> None:
        """A directory failed."""
        for log in self:
            if log.parent_directory == path:
                self._forget(log)
                log.abandon()

    def clear(self) -> None:
        self._logs.clear()

    def promote(self, future: Log, current: Log | None) -> None:
        """Let a complete future log take its partition's place. Both logs must be at rest: nobody
        syncs or compacts them. OSError if a directory fails; it is then offline."""
        aside: str | None = None
        if current is not None:
            assert future.log_end_offset == current.log_end_offset
            try:
                aside = self._rename_for_deletion(current)
            except OSError as error:
                self._manager.failed(current.parent_directory, error)
                raise
        plain = file_names.partition_directory(future.topic, future.partition)
        path = f"{future.parent_directory}/{plain}"
        try:
            self._rename(future, path)
        except OSError as error:
            if current is not None and aside is not None:
                with contextlib.suppress(OSError):
                    self._disk.rename(aside, current.directory)
                    self._disk.sync_directory(current.parent_directory)
            self._manager.failed(future.parent_directory, error)
            raise
        future.moved(path)
        self._forget(future)
        self._manager.replace(future)
        if current is not None and aside is not None:
            self._settle_deleted(current, aside)

    def _rename_for_deletion(self, log: Log) -> str:
        name = file_names.delete_directory(log.topic, log.partition, self._unique())
        path = f"{log.parent_directory}/{name}"
        self._rename(log, path)
        return path

    def _rename(self, log: Log, path: str) -> None:
        log.release()
        self._disk.rename(log.directory, path)
        self._disk.sync_directory(log.parent_directory)

    def _settle_deleted(self, log: Log, path: str) -> None:
        log.moved(path)
        self._manager.forget_checkpoints(log)
        self._manager.doom(path, log.config.file_delete_delay_ms)
