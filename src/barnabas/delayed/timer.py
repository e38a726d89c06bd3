"""A hierarchical timing wheel: many timers, almost all of which are cancelled before they fire.

Every long-polled Fetch, every group member's session and every idle connection has a timer, so
adding and cancelling must cost next to nothing, whatever the number of timers. Level 0 has one
bucket per millisecond for the next ``size`` milliseconds; a bucket of level *n* spans
``size ** n`` milliseconds and, when the wheel reaches it, its timers move to a lower level. A heap
holds the start of each bucket in use (never more than ``size`` a level), so that a jump in time
costs nothing per millisecond and the owner knows when to wake up next.

The wheel has no thread and no loop. Its owner calls :meth:`TimingWheel.advance` with the present
time and asks :attr:`TimingWheel.next_deadline_ms` when to come again; ``on_earlier`` tells it
that a new timer is due before that. Times are milliseconds of a clock that never goes back.

Invariants:

* A timer never fires before its deadline, fires at most once, and never after ``cancel()``.
* Callbacks run only inside ``advance``, in order of their deadlines.
* A callback that raises does not lose the others: they run at the next ``advance``.
"""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush


class Timeout:
    """One timer. ``cancel()`` may be called at any time, any number of times."""

    __slots__ = ("_bucket", "callback", "deadline_ms")

    def __init__(self, deadline_ms: int, callback: Callable[[], object]) -> None:
        self.deadline_ms = deadline_ms
        self.callback: Callable[[], object] | None = callback
        self._bucket: dict[Timeout, None] | None = None

    @property
    def pending(self) -> bool:
        """True until the timer has fired or was cancelled."""
        return self.callback is not None

    def cancel(self) -> None:
        bucket = self._bucket
        if bucket is not None:
            del bucket[self]
            self._bucket = None
        self.callback = None


class TimingWheel:
    """See the module's text. ``clock`` gives the present in milliseconds, monotonic."""

    __slots__ = (
        "_clock",
        "_expired",
        "_levels",
        "_mask",
        "_now_ms",
        "_shift",
        "_starts",
        "on_earlier",
    )

    def __init__(self, clock: Callable[[], int], *, size: int = 1024) -> None:
        if size < 2 or size & (size - 1):
            raise ValueError(f"the size of a timing wheel is a power of two, not {size}")
        self._clock = clock
        self._mask = size - 1
        self._shift = size.bit_length() - 1
        self._now_ms = clock()
        self._levels: list[list[dict[Timeout, None] | None]] = [[None] * size]
        self._starts: list[tuple[int, int]] = []
        self._expired: deque[Timeout] = deque()
        self.on_earlier: Callable[[int], object] | None = None

    def __len__(self) -> int:
        """How many timers are waiting. Walks the buckets in use: for metrics, not for hot paths."""
        return len(self._expired) + sum(
            len(self._levels[level][self._slot(start, level)] or ())
            for start, level in self._starts
        )

    def add(self, delay_ms: int, callback: Callable[[], object]) -> Timeout:
        """Run ``callback`` after ``delay_ms``; a delay of 0 or less fires at the next tick."""
        now_ms = self._clock()
        starts = self._starts
        if now_ms > self._now_ms and (not starts or starts[0][0] > now_ms):
            self._now_ms = now_ms
        timeout = Timeout(now_ms + delay_ms, callback)
        self._insert(timeout)
        return timeout

    def add_at(self, deadline_ms: int, callback: Callable[[], object]) -> Timeout:
        """Run ``callback`` at ``deadline_ms``; a deadline in the past fires at the next tick."""
        timeout = Timeout(deadline_ms, callback)
        self._insert(timeout)
        return timeout

    def advance(self, now_ms: int) -> int:
        """Run everything due at ``now_ms``; gives the number of callbacks that ran."""
        starts = self._starts
        expired = self._expired
        while starts and starts[0][0] <= now_ms:
            start, level = heappop(starts)
            slots = self._levels[level]
            index = self._slot(start, level)
            bucket = slots[index]
            slots[index] = None
            self._now_ms = start
            if not bucket:
                continue
            for timeout in bucket:
                timeout._bucket = None
            if level == 0:
                expired.extend(bucket)
            else:
                for timeout in bucket:
                    if timeout.deadline_ms <= start:
                        expired.append(timeout)
                    else:
                        self._insert(timeout)
        self._now_ms = max(self._now_ms, now_ms)
        ran = 0
        while expired:
            timeout = expired.popleft()
            callback = timeout.callback
            if callback is not None:
                timeout.callback = None
                ran += 1
                callback()
        return ran

    @property
    def next_deadline_ms(self) -> int | None:
        """When ``advance`` must be called next, at the latest; None when no timer is waiting."""
        if self._expired:
            return self._now_ms
        starts = self._starts
        while starts:
            start, level = starts[0]
            slots = self._levels[level]
            index = self._slot(start, level)
            if slots[index]:
                return start
            slots[index] = None
            heappop(starts)
        return None

    def _slot(self, start_ms: int, level: int) -> int:
        return (start_ms >> (self._shift * level)) & self._mask

    def _insert(self, timeout: Timeout) -> None:
        now_ms = self._now_ms
        deadline_ms = timeout.deadline_ms
        if deadline_ms <= now_ms:
            deadline_ms = now_ms + 1
        mask = self._mask
        level = shift = 0
        while (deadline_ms >> shift) - (now_ms >> shift) > mask:
            level += 1
            shift += self._shift
        if level >= len(self._levels):
            self._levels.extend([None] * (mask + 1) for _ in range(len(self._levels), level + 1))
        slots = self._levels[level]
        index = (deadline_ms >> shift) & mask
        bucket = slots[index]
        if bucket is None:
            bucket = slots[index] = {}
            start = (deadline_ms >> shift) << shift
            starts = self._starts
            heappush(starts, (start, level))
            if self.on_earlier is not None and starts[0][0] == start:
                self.on_earlier(start)
        bucket[timeout] = None
        timeout._bucket = bucket
