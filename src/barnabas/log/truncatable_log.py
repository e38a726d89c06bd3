"""A log that gets shorter: at its end, since another leader wrote something else, or at its front,
since what is there is too old, too much or was deleted.

At the end batches go as a whole and at once, durably, and what was known of the epochs and producers
after that point goes with them. At the front the log start offset moves at once, and only whole
segments go.
"""

from __future__ import annotations

import logging
from bisect import bisect_right

from barnabas.log.readable_log import ReadableLog
from barnabas.log.recovery import load_producers
from barnabas.log.retention import breached_segments
from barnabas.wire.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)


class TruncatableLog(ReadableLog):
    __slots__ = ()

    # -- at the end

    def truncate_to(self, offset: int) -> bool:
        """Remove everything from `offset` on, durably; False if there was nothing."""
        if offset >= self.log_end_offset:
            # One that led and wrote nothing has an epoch at its end that nobody else knows.
            self.epochs.truncate_from_end(self.log_end_offset)
            return False
        if offset < self._bases[0]:
            self.truncate_fully_and_start_at(offset)
            return True
        logger.info("truncating %s from %d to %d", self.name, self.log_end_offset, offset)
        self.truncations += 1
        keep = bisect_right(self._bases, offset)
        for segment in reversed(self._segments[keep:]):
            self._discard(segment)
        del self._segments[keep:]
        del self._bases[keep:]
        self._active = self._segments[-1]
        # A batch goes as a whole: the log never ends inside one.
        below_start = min(offset, self.log_start_offset)
        offset = max(self._active.truncate_to(offset), below_start)
        self._disk.sync_directory(self.directory)
        self._ends_at(offset)
        load_producers(
            self.producers,
            self.snapshots,
            self._segments,
            self.log_start_offset,
            offset,
            now_ms=0,
        )
        self.update_high_watermark(min(self.high_watermark, offset))
        return True

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0) -> None:
        """Drop everything; the next record gets `offset`."""
        logger.info("removing all of %s and starting it at %d", self.name, offset)
        self.truncations += 1
        for segment in reversed(self._segments):
            self._discard(segment)
        self._segments.clear()
        self._bases.clear()
        self._start_segment(offset, now_ms)
        self.log_start_offset = offset
        self.epochs.clear()
        self.producers.clear()
        self._ends_at(offset)
        self.flushed_offset = self.recovery_point = offset
        self.high_watermark = offset

    def _ends_at(self, offset: int) -> None:
        self.log_end_offset = offset
        self.flushed_offset = min(self.flushed_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        self._recent = {}
        self._older = {}
        self.epochs.truncate_from_end(offset)
        self.snapshots.remove_above(offset)
        self._directory_version += 1

    # -- at the front

    def increment_log_start_offset(self, offset: int) -> bool:
        """Nothing below `offset` is part of the log any more; True if that is news."""
        if offset > self.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} of partition {self.name} since "
                f"it is larger than the high watermark {self.high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        self.producers.on_log_start(offset)
        return True

    def delete_old_segments(self, now_ms: int) -> int:
        """Remove what retention by time, size and start offset lets go; how many segments."""
        count, reason = breached_segments(self, now_ms)
        if count == 0:
            return 0
        if count == len(self._segments):
            self.roll(now_ms)
            count = min(count, len(self._segments) - 1)
        doomed = self._segments[:count]
        if not doomed:
            return 0
        logger.info(
            "%s: removing %d segments up to offset %d: %s",
            self.name,
            count,
            self._bases[count] - 1,
            reason,
        )
        self.increment_log_start_offset(self._bases[count])
        self.doom(doomed, now_ms)
        del self._segments[:count]
        del self._bases[:count]
        return count
