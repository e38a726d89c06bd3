"""What of a log survives a power cut.

    recovery_point <= flushed_offset <= log_end_offset

Everything below the flushed offset does; below the recovery point the indexes do so too, and a start
after a crash looks at nothing there.

`sync` may run in threads, also in several at once: it looks at the end first and at the segments
then, changes nothing, and gives what it has made durable; `note_flushed` takes that over on the
loop. A log that was truncated meanwhile takes over nothing of its offsets.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from barnabas.config.topic import LogConfig
from barnabas.log.local_log import LocalLog
from barnabas.log.recovery import LoadedLog
from barnabas.log.segment import OpenSegments
from barnabas.seams import Disk, Randomness


class FlushPoint(NamedTuple):
    """What a sync has made durable, unless the log was truncated meanwhile."""

    truncations: int
    end_offset: int
    recovery_point: int
    directory_version: int
    epochs_version: int


class DurableLog(LocalLog):
    __slots__ = ("flushed_offset", "recovery_point", "truncations", "unflushed_since_ms")

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        loaded: LoadedLog,
        *,
        open_segments: OpenSegments | None,
        randomness: Randomness | None,
    ) -> None:
        super().__init__(
            disk, directory, config, loaded, open_segments=open_segments, randomness=randomness
        )
        self.flushed_offset = loaded.log_end_offset
        self.recovery_point = loaded.log_end_offset
        self.unflushed_since_ms: int | None = None
        self.truncations = 0

    def flush(self) -> None:
        """Make everything that is in the log now survive a power cut."""
        self.note_flushed(self.sync())

    def sync(self, *, active: bool = True) -> FlushPoint:
        """Make everything durable, or only what is sealed. Safe in a thread."""
        truncations = self.truncations
        end = self.log_end_offset
        segments = list(self._segments)
        last = segments[-1]
        directory_version = self._directory_version
        epochs_version = self.epochs.version
        first = max(
            bisect_right([each.base_offset for each in segments], self.recovery_point) - 1, 0
        )
        for segment in segments[first:-1]:
            segment.sync()
        for segment in segments[first + 1 :]:
            self.snapshots.sync(segment.base_offset)
        if active:
            # Its indexes are built anew after a crash, so they need no sync.
            last.sync(indexes=False)
        else:
            end = last.base_offset
        new_epochs = epochs_version != self.epochs.synced_version
        if new_epochs:
            self.epochs.sync()
        if new_epochs or directory_version != self._directory_synced:
            self._disk.sync_directory(self.directory)
        return FlushPoint(truncations, end, last.base_offset, directory_version, epochs_version)

    def note_flushed(self, point: FlushPoint) -> None:
        self._directory_synced = max(self._directory_synced, point.directory_version)
        self.epochs.synced_version = max(self.epochs.synced_version, point.epochs_version)
        if point.truncations != self.truncations:
            return
        self.flushed_offset = max(self.flushed_offset, point.end_offset)
        self.recovery_point = max(self.recovery_point, point.recovery_point)
        if self.flushed_offset >= self.log_end_offset:
            self.unflushed_since_ms = None

    def sync_sealed(self) -> FlushPoint:
        """Make all segments but the active one durable. Safe in a thread."""
        return self.sync(active=False)

    def flush_sealed(self) -> None:
        self.note_flushed(self.sync_sealed())

    # -- an orderly end

    def close(self) -> None:
        """An orderly end: everything is written and durable, a snapshot stands at the log's end."""
        if self.finish():
            self.sync_all()
        self.release()

    def finish(self) -> bool:
        """Write what an orderly end needs; False if all of it is durable already."""
        end = self.log_end_offset
        changed = (
            self.recovery_point < end
            or self._directory_version != self._directory_synced
            or self.epochs.version != self.epochs.synced_version
            or end not in self.snapshots.offsets
        )
        if changed:
            self._active.close()
            self.snapshots.write(end, self.producers)
            self._directory_version += 1
        return changed

    def sync_all(self) -> None:
        """After `finish`: make all of it durable, the active segment's indexes too. Safe in a
        thread."""
        self._active.sync()
        self.snapshots.sync(self.log_end_offset)
        self.flush()
        self.recovery_point = self.log_end_offset
