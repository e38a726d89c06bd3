"""The times and counts that Kafka keeps for each API, accumulated as cheaply as Python can.

A histogram is a list of counts and a sum; a zero (no remote time, no throttle) is the usual case
and only counted when it is not one. Prometheus sees them through `metrics.py` at scrape time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

BOUNDS_MS = (
    0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0,
    2500.0, 5000.0, 10000.0, 30000.0, 60000.0,
)  # fmt: skip
BOUNDS_NS = [int(bound * 1_000_000) for bound in BOUNDS_MS]

TIMES = ("queue", "local", "remote", "throttle", "response_queue", "send", "total")


class Histogram:
    """Durations. `counts` has one place more than there are bounds; zeros are told by the owner."""

    __slots__ = ("counts", "sum_ns")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_NS) + 1)
        self.sum_ns = 0

    def observe(self, duration_ns: int) -> None:
        self.counts[bisect_left(BOUNDS_NS, duration_ns)] += 1
        self.sum_ns += duration_ns

    def count(self) -> int:
        return sum(self.counts)


class ApiMetrics:
    """One API. A time that is not observed for a request was zero for it."""

    __slots__ = (
        "errors",
        "local",
        "name",
        "queue",
        "remote",
        "request_bytes",
        "requests",
        "response_bytes",
        "response_queue",
        "send",
        "throttle",
        "total",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests = 0
        self.request_bytes = 0
        self.response_bytes = 0
        self.errors: dict[int, int] = {}
        self.queue = Histogram()
        self.local = Histogram()
        self.remote = Histogram()
        self.throttle = Histogram()
        self.response_queue = Histogram()
        self.send = Histogram()
        self.total = Histogram()

    def record(self, context: RequestContext, sent_ns: int) -> None:
        """Account for a request whose answer has left, or that needs none."""
        bounds = BOUNDS_NS
        received_ns = context.received_ns
        started_ns = context.started_ns
        local_done_ns = context.local_done_ns
        self.requests += 1
        self.request_bytes += context.request_bytes
        self.response_bytes += context.response_bytes

        histogram = self.queue
        duration_ns = started_ns - received_ns
        histogram.counts[bisect_left(bounds, duration_ns)] += 1
        histogram.sum_ns += duration_ns

        histogram = self.local
        duration_ns = local_done_ns - started_ns
        histogram.counts[bisect_left(bounds, duration_ns)] += 1
        histogram.sum_ns += duration_ns

        if context.responded_ns:
            self.remote.observe(max(0, context.responded_ns - local_done_ns))
            self.response_queue.observe(max(0, context.queued_ns - context.responded_ns))
            local_done_ns = context.queued_ns
        if context.throttle_ms:
            self.throttle.observe(context.throttle_ms * 1_000_000)

        histogram = self.send
        duration_ns = sent_ns - local_done_ns
        histogram.counts[bisect_left(bounds, duration_ns)] += 1
        histogram.sum_ns += duration_ns

        histogram = self.total
        duration_ns = sent_ns - received_ns
        histogram.counts[bisect_left(bounds, duration_ns)] += 1
        histogram.sum_ns += duration_ns

    @classmethod
    def added(cls, several: Sequence[ApiMetrics]) -> ApiMetrics:
        """The sum of the same API's metrics on several kinds of listener."""
        result = cls(several[0].name)
        for one in several:
            result.requests += one.requests
            result.request_bytes += one.request_bytes
            result.response_bytes += one.response_bytes
            for code, count in one.errors.items():
                result.errors[code] = result.errors.get(code, 0) + count
            for name in TIMES:
                total, part = getattr(result, name), getattr(one, name)
                total.counts = [a + b for a, b in zip(total.counts, part.counts, strict=True)]
                total.sum_ns += part.sum_ns
        return result

    def count_errors(self, codes: Sequence[int]) -> None:
        errors = self.errors
        for code in codes:
            errors[code] = errors.get(code, 0) + 1
