"""Group commit: fsync before any acknowledgement, many appends per fsync.

With `barnabas.flush.before.ack` every append marks its partition here. One round of fsyncs runs at a
time, in a thread; whatever is appended meanwhile shares the next round. When a round is over, the high
watermarks of its partitions move up to what had been flushed, and that is what waiting producers and
consumers see. The cost of an fsync is so shared by all requests that arrived during the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.log.log import FlushPoint
    from barnabas.replica.partition import Partition
    from barnabas.seams import Background


class GroupFlush:
    def __init__(
        self,
        background: Background,
        flushed: Callable[[Partition], None],
        failed: Callable[[Partition, OSError], None],
    ) -> None:
        self._background = background
        self._flushed = flushed
        self._failed = failed
        self._dirty: dict[Partition, None] = {}
        self._busy = False
        self.rounds = 0

    def mark(self, partition: Partition) -> None:
        self._dirty[partition] = None
        if not self._busy:
            self._start()

    def _start(self) -> None:
        batch = [(partition, partition.log) for partition in self._dirty]
        self._dirty.clear()
        self._busy = True
        points: list[FlushPoint | OSError | None] = []

        def sync_all() -> None:
            for _, log in batch:
                try:
                    points.append(None if log is None else log.sync())
                except OSError as error:
                    points.append(error)

        def finished(_: None, error: Exception | None) -> None:
            self._busy = False
            self.rounds += 1
            if error is not None:
                raise error
            for (partition, log), point in zip(batch, points, strict=True):
                if log is None or partition.log is not log:
                    continue  # deleted, or offline, meanwhile
                if isinstance(point, OSError):
                    self._failed(partition, point)
                elif point is not None:
                    log.note_flushed(point)
                    self._flushed(partition)
            if self._dirty and not self._busy:
                self._start()

        self._background.submit(sync_all, finished)
