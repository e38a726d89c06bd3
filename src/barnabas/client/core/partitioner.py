"""Which partition records without a key go to, and for how long (KIP-794).

They stick to one partition until a batch worth of bytes went there, then another is drawn: full
batches, and the same number of bytes for every partition over time, whatever the pace of the sender
or of the brokers. Adaptively, a partition is drawn the likelier the fewer batches wait for it, so that
a slow broker gets less instead of holding up the rest; and a partition whose leader has not taken
anything for `partitioner.availability.timeout.ms` is not drawn at all while there are others.

Keys are hashed in the kernel, as Apache's Java client does it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

LOAD_AGE_S = 0.005
"""For how long the loads of a topic are not looked at anew: with many partitions that takes time."""


class StickyPartitioner:
    """The partition for keyless records of one topic. `loads` says how many batches wait for each
    partition, or None for those that are not available."""

    __slots__ = ("_loads", "_random", "_seen_at", "_stick_bytes", "_sums", "_used", "current")

    def __init__(
        self,
        stick_bytes: int,
        loads: Callable[[], Sequence[int | None]],
        random: Callable[[], float],
    ) -> None:
        self._stick_bytes = max(stick_bytes, 1)
        self._loads = loads
        self._random = random
        self._seen_at = float("-inf")
        self._sums: list[int] = []
        self._used = 0
        self.current = 0

    def used(self, size: int, now: float) -> int:
        """A batch of `size` bytes of the current partition is complete; gives the partition to use
        from now on. A full batch counts as much as it could hold."""
        self._used += size
        if self._used >= self._stick_bytes:
            self.draw(now)
        return self.current

    def draw(self, now: float) -> int:
        self._used = 0
        if now - self._seen_at >= LOAD_AGE_S:
            self._seen_at = now
            self._sums = list(accumulate(weights(self._loads())))
        sums = self._sums
        self.current = bisect_right(sums, int(self._random() * sums[-1]))
        return self.current


def weights(loads: Sequence[int | None]) -> list[int]:
    """How likely each partition is drawn: the shorter its queue the likelier, never not at all; the
    unavailable ones not at all, unless all are."""
    known = [load for load in loads if load is not None]
    if not known:
        return [1] * len(loads)
    most = max(known) + 1
    return [0 if load is None else most - load for load in loads]
