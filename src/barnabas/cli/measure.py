"""The measuring loops behind `barnabas perf` and the Apache-style perf scripts.

Each takes a `watch` callback for progress and returns plain numbers. Latencies go into a histogram
with bounded relative error, so that a run of any length needs constant memory.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.client.consumer import Consumer
    from barnabas.client.core.batch import ProducerBatch

_PRECISION_BITS = 6
WINDOW_S = 1.0
SAMPLES_A_BATCH = 8


class Latencies:
    """Counts of latencies in buckets about 1.5 % wide, in microseconds."""

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self.count = 0
        self.total_us = 0
        self.max_us = 0

    def add(self, latency_us: int, times: int = 1) -> None:
        latency_us = max(latency_us, 0)
        shift = max(latency_us.bit_length() - _PRECISION_BITS - 1, 0)
        bucket = (shift << 32) | (latency_us >> shift)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + times
        self.count += times
        self.total_us += latency_us * times
        self.max_us = max(self.max_us, latency_us)

    def percentile_ms(self, fraction: float) -> float:
        wanted = max(1, round(fraction * self.count))
        seen = 0
        for bucket in sorted(self._buckets, key=_upper_us):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return min(_upper_us(bucket), self.max_us) / 1000
        return 0.0

    @property
    def mean_ms(self) -> float:
        return self.total_us / self.count / 1000 if self.count else 0.0

    @property
    def max_ms(self) -> float:
        return self.max_us / 1000

    def summary(self) -> dict[str, float]:
        return {
            "mean_ms": round(self.mean_ms, 3),
            "p50_ms": round(self.percentile_ms(0.5), 3),
            "p95_ms": round(self.percentile_ms(0.95), 3),
            "p99_ms": round(self.percentile_ms(0.99), 3),
            "p999_ms": round(self.percentile_ms(0.999), 3),
            "max_ms": round(self.max_ms, 3),
        }


def _upper_us(bucket: int) -> int:
    shift = bucket >> 32
    return (((bucket & 0xFFFFFFFF) + 1) << shift) - 1


@dataclass(slots=True)
class Progress:
    """What was done since the start and since the last look."""

    records: int = 0
    size: int = 0
    elapsed_s: float = 0.0
    window_records: int = 0
    window_bytes: int = 0
    window_s: float = 0.0
    window: Latencies = field(default_factory=Latencies)
    total: Latencies = field(default_factory=Latencies)
    steady: Latencies = field(default_factory=Latencies)
    warm_at_s: float = 0.0
    failed: int = 0
    last_error: BaseException | None = None


Watch = Callable[[Progress], None]


def produce_load(
    options: dict[str, Any],
    topic: str,
    count: int,
    payloads: Iterator[bytes],
    rate: float,
    watch: Watch,
    *,
    warmup: int = 0,
) -> Progress:
    """Send `count` records, at most `rate` a second if that is positive."""
    from barnabas.client.producer import Producer

    progress = Progress()
    waiting: deque[tuple[ProducerBatch, list[int], int]] = deque()
    open_batches: dict[int, tuple[ProducerBatch, list[int]]] = {}
    with Producer(options) as producer:
        producer.partitions_for(topic)
        started = window_started = time.perf_counter()
        for index in range(count):
            payload = next(payloads)
            sent_at = time.monotonic_ns()
            if index == warmup:
                progress.warm_at_s = time.perf_counter() - started
            delivery = producer.send(topic, payload)
            batch = delivery.batch
            known = open_batches.get(batch.partition)
            if known is not None and known[0] is batch:
                known[1].append(sent_at)
            else:
                times = [sent_at]
                open_batches[batch.partition] = (batch, times)
                waiting.append((batch, times, len(payload)))
            if index & 63 == 0:
                _collect(waiting, progress, warmup)
                now = time.perf_counter()
                if now - window_started >= WINDOW_S:
                    _close_window(progress, now - started, now - window_started, watch)
                    window_started = now
            if rate > 0:
                ahead = index / rate - (time.perf_counter() - started)
                if ahead > 0:
                    time.sleep(ahead)
        producer.flush()
        progress.elapsed_s = time.perf_counter() - started
        _collect(waiting, progress, warmup)
    return progress


def _collect(
    waiting: deque[tuple[ProducerBatch, list[int], int]], progress: Progress, warmup: int
) -> None:
    """Take in the batches that were acknowledged; a few records stand for each batch."""
    while waiting and waiting[0][0].done:
        batch, times, size = waiting.popleft()
        if batch.error is not None:
            progress.failed += len(times)
            progress.last_error = batch.error
            continue
        records = len(times)
        progress.records += records
        progress.size += size * records
        progress.window_records += records
        progress.window_bytes += size * records
        samples = min(records, SAMPLES_A_BATCH)
        for sample in range(samples):
            at = sample * (records - 1) // max(samples - 1, 1)
            weight = (sample + 1) * records // samples - sample * records // samples
            latency_us = (int(batch.done_at * 1e9) - times[at]) // 1000
            progress.window.add(latency_us, weight)
            progress.total.add(latency_us, weight)
            if progress.records > warmup:
                progress.steady.add(latency_us, min(weight, progress.records - warmup))


def _close_window(progress: Progress, elapsed_s: float, window_s: float, watch: Watch) -> None:
    progress.elapsed_s = elapsed_s
    progress.window_s = window_s
    watch(progress)
    progress.window_records = 0
    progress.window_bytes = 0
    progress.window = Latencies()


def consume_load(
    options: dict[str, Any],
    topics: list[str],
    count: int,
    timeout_ms: int,
    watch: Watch,
    *,
    columns: bool = False,
    pattern: str | None = None,
) -> tuple[Progress, float, bool]:
    """Read `count` records; the time until the first, and whether time ran out before all came."""
    from barnabas.client.consumer import Consumer

    progress = Progress()
    with Consumer({"max.poll.records": 50_000, **options}) as consumer:
        started = window_started = time.perf_counter()
        if pattern is not None:
            consumer.subscribe(re.compile(f"\\A(?:{pattern})\\Z"))
        elif consumer.settings.group_id is not None:
            consumer.subscribe(topics)
        else:
            consumer.assign([(n, i) for n in topics for i in consumer.partitions_for(n)])
        first_s = 0.0
        last = time.perf_counter()
        while progress.records < count:
            records, size = _poll(consumer, columns)
            now = time.perf_counter()
            if records:
                first_s = first_s or now - started
                last = now
                progress.records += records
                progress.size += size
                progress.window_records += records
                progress.window_bytes += size
            elif (now - last) * 1000 > timeout_ms:
                progress.elapsed_s = now - started
                return progress, first_s, True
            if now - window_started >= WINDOW_S:
                _close_window(progress, now - started, now - window_started, watch)
                window_started = now
        progress.elapsed_s = time.perf_counter() - started
    return progress, first_s, False


def _poll(consumer: Consumer, columns: bool) -> tuple[int, int]:
    if columns:
        batch = consumer.poll_arrow(0.2)
        return batch.num_rows, sum(batch.column(name).nbytes for name in ("key", "value"))
    records = consumer.poll(0.2)
    size = sum(max(r.serialized_key_size, 0) + max(r.serialized_value_size, 0) for r in records)
    return len(records), size


def round_trips(
    options: dict[str, Any], topic: str, count: int, payload: bytes, watch: Watch
) -> Progress:
    """Send one record, read it back, and so on: the latency from send to receipt."""
    from barnabas.client.consumer import Consumer
    from barnabas.client.producer import Producer

    progress = Progress()
    with Producer({**options, "linger.ms": 0}) as producer, Consumer(options) as consumer:
        producer.partitions_for(topic)
        places = [(topic, index) for index in consumer.partitions_for(topic)]
        consumer.assign(places)
        consumer.seek_to_end()
        for place in places:
            consumer.position(place)
        consumer.poll(0.0)
        started = window_started = time.perf_counter()
        for _ in range(count):
            sent_at = time.perf_counter_ns()
            delivery = producer.send(topic, payload)
            records: list[Any] = []
            while not records:
                records = consumer.poll(10.0)
                if delivery.done():
                    delivery.result()
            latency_us = (time.perf_counter_ns() - sent_at) // 1000
            progress.records += 1
            progress.size += len(payload)
            progress.window_records += 1
            progress.window_bytes += len(payload)
            progress.window.add(latency_us)
            progress.total.add(latency_us)
            now = time.perf_counter()
            if now - window_started >= WINDOW_S:
                _close_window(progress, now - started, now - window_started, watch)
                window_started = now
        progress.elapsed_s = time.perf_counter() - started
    return progress
