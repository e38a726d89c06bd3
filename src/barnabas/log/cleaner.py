"""Which log to compact next, and keeping account of how far each has come.

A log is due when its policy is compact and its dirty part (sealed, decided, older than
`min.compaction.lag.ms`) is a large enough share of what compaction would look at, or has waited for
`max.compaction.lag.ms`. One log is compacted at a time, the dirtiest first. How far a log has been
compacted is in `cleaner-offset-checkpoint`.

A round runs in the background, in turns: when it has moved more bytes than it may in the time, the
turn ends and a timer starts the next one, so that neither the loop nor a thread waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass

from barnabas.log.compaction import Compacted, Compaction, CompactionJob, LastOfProducer
from barnabas.log.directory import LogDirectory
from barnabas.log.index import CorruptIndex
from barnabas.log.io_throttle import IoThrottle
from barnabas.log.log import Log
from barnabas.log.segment import Segment
from barnabas.log.transaction_index import AbortedTransaction
from barnabas.record.errors import BadRecords
from barnabas.seams import Background, Clock, Disk

logger = logging.getLogger(__name__)

DEDUPE_BUFFER_BYTES = 134_217_728


@dataclass(frozen=True, slots=True)
class Candidate:
    """A log that could be compacted, `segments` being all up to where that may go."""

    log: Log
    segments: list[Segment]
    first_dirty: int
    end: int
    ratio: float
    overdue: bool

    @property
    def is_due(self) -> bool:
        return self.overdue or self.ratio > self.log.config.min_cleanable_dirty_ratio


def candidate(log: Log, first_dirty: int | None, now_ms: int) -> Candidate | None:
    """What compaction could do for a log; None if there is nothing."""
    segments = log.segments
    start = max(log.log_start_offset, segments[0].base_offset)
    if first_dirty is None or not start <= first_dirty <= segments[-1].base_offset:
        first_dirty = start
    end = min(segments[-1].base_offset, log.last_stable_offset)
    sealed: list[Segment] = []
    dirty_bytes = clean_bytes = 0
    earliest_dirty_ms: int | None = None
    for slot, segment in enumerate(segments[:-1]):
        following = segments[slot + 1].base_offset
        if segment.base_offset >= end:
            break
        is_dirty = following > first_dirty
        lag_ms = log.config.min_compaction_lag_ms
        if is_dirty and lag_ms > 0 and segment.largest_timestamp > now_ms - lag_ms:
            end = max(segment.base_offset, first_dirty)
            break
        sealed.append(segment)
        if not is_dirty:
            clean_bytes += segment.size
            continue
        dirty_bytes += segment.size
        timestamp = segment.first_timestamp
        if timestamp >= 0 and (earliest_dirty_ms is None or timestamp < earliest_dirty_ms):
            earliest_dirty_ms = timestamp
    if end <= first_dirty or dirty_bytes == 0:
        return None
    overdue = (
        earliest_dirty_ms is not None
        and now_ms - earliest_dirty_ms > log.config.max_compaction_lag_ms
    )
    ratio = dirty_bytes / (clean_bytes + dirty_bytes)
    return Candidate(log, sealed, first_dirty, end, ratio, overdue)


Schedule = Callable[[int, Callable[[], object]], object]
"""Call back after so many milliseconds."""


class Cleaner:
    """Whoever owns timers hands in `schedule`, which pauses need, and may look for more work as soon
    as a round has made progress."""

    def __init__(
        self,
        disk: Disk,
        background: Background,
        *,
        clock: Clock,
        dedupe_buffer_bytes: int,
        io_max_bytes_per_second: float,
        directory_of: Callable[[Log], LogDirectory | None],
        is_current: Callable[[Log], bool],
        failed: Callable[[str, OSError], None],
    ) -> None:
        self._disk = disk
        self._background = background
        self._clock = clock
        self.throttle = IoThrottle(io_max_bytes_per_second)
        self.map_bytes = dedupe_buffer_bytes
        self._directory_of = directory_of
        self._is_current = is_current
        self._failed = failed
        self._uncleanable: set[Log] = set()
        self.schedule: Schedule | None = None
        self.on_progress: Callable[[], object] | None = None
        self.busy = False
        self.rounds = 0

    @property
    def uncleanable(self) -> int:
        """Logs that compaction gave up on, because what it read made no sense."""
        return len(self._uncleanable)

    def clean_once(self, logs: Iterable[Log], now_ms: int) -> bool:
        """Start compacting the log that needs it most; False if none does or one is running."""
        if self.busy:
            return False
        best: Candidate | None = None
        for log in logs:
            if not log.config.compact or log in self._uncleanable:
                continue
            directory = self._directory_of(log)
            if directory is None:
                continue
            try:
                found = candidate(
                    log, directory.cleaner_offsets.get((log.topic, log.partition)), now_ms
                )
            except OSError as error:
                self._failed(log.parent_directory, error)
                continue
            if found is None or not found.is_due:
                continue
            if best is None or (found.overdue, found.ratio) > (best.overdue, best.ratio):
                best = found
        if best is None:
            return False
        try:
            aborted = best.log.aborted_transactions(best.segments[0].base_offset, best.end)
        except OSError as error:
            self._failed(best.log.parent_directory, error)
        except CorruptIndex as error:
            self._give_up(best.log, error)
        else:
            self._start(best, aborted, now_ms)
        return True

    def _give_up(self, log: Log, error: Exception) -> None:
        logger.error("%s cannot be compacted: %s", log.name, error)
        self._uncleanable.add(log)

    def _start(self, chosen: Candidate, aborted: list[AbortedTransaction], now_ms: int) -> None:
        log = chosen.log
        job = CompactionJob(
            disk=self._disk,
            directory=log.directory,
            config=log.config,
            segments=chosen.segments,
            first_dirty=chosen.first_dirty,
            end=chosen.end,
            now_ms=now_ms,
            map_bytes=self.map_bytes,
            aborted=aborted,
            last_of_producers={
                state.producer_id: LastOfProducer(
                    state.epoch, state.batches[-1].last_offset if state.batches else None
                )
                for state in log.producers
            },
        )
        self.busy = log.cleaning = True
        self._turn(log, Compaction(job).steps(), log.truncations, now_ms)

    def _turn(
        self, log: Log, steps: Generator[int, None, Compacted], truncations: int, now_ms: int
    ) -> None:
        """Let a round go on until it must pause or is at its end."""

        def go_on() -> None:
            if self._has_gone_on(log, truncations):
                self._ended(log)
                return
            pause_ms = self.throttle.pause_ms(self._clock.monotonic_ms())
            if pause_ms and self.schedule is not None:
                self.schedule(pause_ms, go_on)
            else:
                self._turn(log, steps, truncations, now_ms)

        def done(result: Compacted | None, error: Exception | None) -> None:
            if result is None and error is None:
                go_on()
                return
            self._ended(log)
            if self._has_gone_on(log, truncations):
                return
            try:
                if error is not None:
                    raise error
                if result is not None:
                    self._finish(log, result, now_ms)
            except OSError as failure:
                self._failed(log.parent_directory, failure)
            except BadRecords as failure:
                self._give_up(log, failure)
            else:
                if self.on_progress is not None:
                    self.on_progress()

        self._background.submit(lambda: self._run(steps), done)

    def _run(self, steps: Generator[int, None, Compacted]) -> Compacted | None:
        """In a thread: None if the disk is to be spared for a while."""
        throttle, clock = self.throttle, self._clock
        while True:
            try:
                byte_count = next(steps)
            except StopIteration as end:
                result: Compacted = end.value
                return result
            now_ms = clock.monotonic_ms()
            throttle.moved(byte_count, now_ms)
            if self.schedule is not None and throttle.must_pause(now_ms):
                return None

    def _has_gone_on(self, log: Log, truncations: int) -> bool:
        """Is what a round began with no longer so? What it wrote goes at the next start."""
        return not self._is_current(log) or log.truncations != truncations

    def _ended(self, log: Log) -> None:
        self.busy = log.cleaning = False
        self.rounds += 1

    def _finish(self, log: Log, result: Compacted, now_ms: int) -> None:
        for old, new in result.replacements:
            log.replace_segments(old, new, now_ms)
        logger.info(
            "compacted %s up to offset %d: from %d to %d bytes",
            log.name,
            result.first_dirty - 1,
            result.bytes_before,
            result.bytes_after,
        )
        directory = self._directory_of(log)
        if directory is not None:
            directory.cleaner_offsets[log.topic, log.partition] = result.first_dirty
            directory.write_cleaner_offsets()
