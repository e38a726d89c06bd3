"""Which of a log's oldest segments may go, by start offset, by age and by size.

Only whole segments go, only from the front, and never one that reaches above the high watermark.
The empty active segment stays: a log always has one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.log.segment import Segment

if TYPE_CHECKING:
    from barnabas.log.readable_log import ReadableLog


def breached_segments(log: ReadableLog, now_ms: int) -> tuple[int, str]:
    """How many of the first segments must go, and why."""
    config = log.config
    below_start = _count(log, lambda segment, end: end <= log.log_start_offset)
    best = below_start, f"below the log start offset {log.log_start_offset}"
    if not config.delete:
        return best
    if config.retention_ms >= 0:
        oldest_ms = now_ms - config.retention_ms
        count = _count(log, lambda segment, end: segment.largest_timestamp < oldest_ms)
        if count > best[0]:
            best = count, f"older than retention.ms={config.retention_ms}"
    if config.retention_bytes >= 0:
        excess = log.size - config.retention_bytes

        def too_much(segment: Segment, end: int) -> bool:
            nonlocal excess
            if excess < segment.size:
                return False
            excess -= segment.size
            return True

        if excess >= 0:
            count = _count(log, too_much)
            if count > best[0]:
                best = count, f"above retention.bytes={config.retention_bytes}"
    return best


def _count(log: ReadableLog, breaches: Callable[[Segment, int], bool]) -> int:
    segments = log.segments
    for slot, segment in enumerate(segments):
        is_last = slot + 1 == len(segments)
        end = log.log_end_offset if is_last else segments[slot + 1].base_offset
        if end > log.high_watermark or (is_last and not segment.size):
            return slot
        if not breaches(segment, end):
            return slot
    return len(segments)
