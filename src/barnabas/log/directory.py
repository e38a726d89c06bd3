"""One of the `log.dirs`: its lock, its clean-shutdown marker and its checkpoint files.

A directory is online until the first OSError from it; then it stays offline until the node starts
again, and its partitions with it. Checkpoints only save time or restore what segments cannot tell
(a log start offset inside a segment), so an unreadable one is reported and passed over.
"""

from __future__ import annotations

import contextlib
import logging
import posixpath
from collections.abc import Callable, Iterable

from barnabas.log import file_names
from barnabas.log.checkpoints import (
    CleanShutdown,
    CorruptCheckpoint,
    TopicPartition,
    read_clean_shutdown,
    read_offsets,
    write_clean_shutdown,
    write_offsets,
)
from barnabas.log.log import Log
from barnabas.seams import Disk

logger = logging.getLogger(__name__)


class DirectoryInUse(OSError):
    """Somebody else works in this directory: a second writer would ruin it, so nobody starts."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} is in use by another broker: its {file_names.LOCK} file is locked. "
            "Stop that broker or choose another directory."
        )


class LogDirectory:
    def __init__(self, disk: Disk, path: str) -> None:
        self.path = path
        self.error: OSError | None = None
        self.shutdown: CleanShutdown | None = None
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        self._disk = disk
        self._lock: object | None = None

    def __repr__(self) -> str:
        return f"LogDirectory({self.path})"

    @property
    def is_online(self) -> bool:
        return self.error is None

    @property
    def was_clean(self) -> bool:
        """Did the node stop in order the last time?"""
        return self.shutdown is not None

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def open(self) -> list[str]:
        """Lock it, take its checkpoints and its marker; gives the names in it."""
        if not self._disk.exists(self.path):
            self._disk.make_directory(self.path)
            with contextlib.suppress(PermissionError):
                self._disk.sync_directory(posixpath.dirname(self.path.rstrip("/")) or ".")
        self._lock = self._disk.lock(self._file(file_names.LOCK))
        if self._lock is None:
            raise DirectoryInUse(self.path)
        marker = self._file(file_names.CLEAN_SHUTDOWN)
        self.shutdown = read_clean_shutdown(self._disk, marker)
        if self.shutdown is not None:
            self._disk.remove(marker)
            self._disk.sync_directory(self.path)
        self.recovery_points = self._read(file_names.RECOVERY_POINT_CHECKPOINT)
        self.log_start_offsets = self._read(file_names.LOG_START_CHECKPOINT)
        self.high_watermarks = self._read(file_names.REPLICATION_CHECKPOINT)
        self.cleaner_offsets = self._read(file_names.CLEANER_CHECKPOINT)
        return list(self._disk.list(self.path))

    def _read(self, name: str) -> dict[TopicPartition, int]:
        try:
            return read_offsets(self._disk, self._file(name))
        except CorruptCheckpoint as error:
            logger.warning("going on without a checkpoint: %s", error)
            return {}

    def checkpointed(self) -> set[TopicPartition]:
        """All partitions that some checkpoint names, whether they are still here or not."""
        return {
            *self.recovery_points,
            *self.log_start_offsets,
            *self.high_watermarks,
            *self.cleaner_offsets,
        }

    def checkpoint(self, logs: Iterable[Log]) -> Callable[[], None]:
        """Look at the offsets of the logs now; gives what writes them, perhaps in a thread."""
        recovery_points: dict[TopicPartition, int] = {}
        log_start_offsets: dict[TopicPartition, int] = {}
        high_watermarks: dict[TopicPartition, int] = {}
        for log in logs:
            key = (log.topic, log.partition)
            recovery_points[key] = log.recovery_point
            high_watermarks[key] = log.high_watermark
            if log.log_start_offset > log.segments[0].base_offset:
                log_start_offsets[key] = log.log_start_offset

        def write() -> None:
            self._write(file_names.RECOVERY_POINT_CHECKPOINT, recovery_points)
            self._write(file_names.LOG_START_CHECKPOINT, log_start_offsets)
            self._write(file_names.REPLICATION_CHECKPOINT, high_watermarks)

        return write

    def write_cleaner_offsets(self) -> None:
        self._write(file_names.CLEANER_CHECKPOINT, self.cleaner_offsets)

    def _write(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        write_offsets(self._disk, self._file(name), offsets)

    def mark_clean(self, broker_epoch: int) -> None:
        marker = self._file(file_names.CLEAN_SHUTDOWN)
        write_clean_shutdown(self._disk, marker, CleanShutdown(broker_epoch))

    def unlock(self) -> None:
        self._lock = None
