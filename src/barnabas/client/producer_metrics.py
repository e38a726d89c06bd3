"""What a producer counts, under the names of Kafka's JMX beans. Fed once a request or a batch."""

from __future__ import annotations

from typing import Any

from barnabas.client.core.accumulator import Accumulator
from barnabas.client.core.batch import ProducerBatch
from barnabas.client.core.sender import Outgoing, Sender
from barnabas.client.metrics import Distribution, Meter, Metrics

GROUP = "producer-metrics"
TOPIC_GROUP = "producer-topic-metrics"
NODE_GROUP = "producer-node-metrics"


class _Topic:
    __slots__ = ("errors", "records", "size")

    def __init__(self, metrics: Metrics, topic: str) -> None:
        self.records = metrics.meter(TOPIC_GROUP, "record-send", "Records sent.", topic=topic)
        self.size = metrics.meter(TOPIC_GROUP, "byte", "Bytes sent.", topic=topic)
        self.errors = metrics.meter(TOPIC_GROUP, "record-error", "Records failed.", topic=topic)


class ProducerMetrics:
    def __init__(self, metrics: Metrics, accumulator: Accumulator, sender: Sender) -> None:
        self._metrics = metrics
        self._sender = sender
        self._topics: dict[str, _Topic] = {}
        self._latencies: dict[int, Distribution] = {}
        self._retries = 0
        self._splits = 0
        make = metrics.meter
        self._records = make(GROUP, "record-send", "Records acknowledged.")
        self._bytes = make(GROUP, "outgoing-byte", "Bytes of batches sent.")
        self._errors = make(GROUP, "record-error", "Records that failed.")
        self._retry = make(GROUP, "batch-retry", "Batches sent again.")
        self._split = make(GROUP, "batch-split", "Batches too large for their broker.")
        self._requests = make(GROUP, "request", "Produce requests.")
        self._batch_size = metrics.distribution(GROUP, "batch-size", "Bytes of a batch.")
        self._batch_records = metrics.distribution(
            GROUP, "records-per-batch", "Records of a batch."
        )
        self._queue_time = metrics.latency(GROUP, "record-queue-time", "From first record to sent.")
        self._latency = metrics.latency(GROUP, "request-latency", "From request to answer.")
        self._throttle = metrics.distribution(GROUP, "produce-throttle-time", "Told by brokers.")
        self._blocked: Meter = make(GROUP, "buffer-exhausted-time-ms", "Waited for memory.")
        pool = accumulator.pool
        metrics.gauge(GROUP, "buffer-total-bytes", read=lambda: pool.total)
        metrics.gauge(GROUP, "buffer-available-bytes", read=lambda: pool.available)
        metrics.gauge(GROUP, "waiting-threads", read=lambda: pool.waiting)
        metrics.gauge(GROUP, "requests-in-flight", read=lambda: sender.in_flight)

    def sent(self, outgoing: Outgoing, now: float) -> None:
        self._requests.add(1, now)
        size = 0
        for batch in outgoing.batches:
            size += batch.size
            self._batch_size.observe(batch.size, now)
            self._batch_records.observe(batch.record_count, now)
            if not batch.attempts:
                self._queue_time.observe((now - batch.created_at) * 1000, now)
        self._bytes.add(size, now)
        if self._sender.retries != self._retries or self._sender.splits != self._splits:
            self._retry.add(self._sender.retries - self._retries, now)
            self._split.add(self._sender.splits - self._splits, now)
            self._retries, self._splits = self._sender.retries, self._sender.splits

    def answered(self, outgoing: Outgoing, response: Any, now: float) -> None:
        latency_ms = (now - outgoing.sent_at) * 1000
        self._latency.observe(latency_ms, now)
        node = self._latencies.get(outgoing.node)
        if node is None:
            node = self._metrics.latency(
                NODE_GROUP, "request-latency", "From request to answer.", node=outgoing.node
            )
            self._latencies[outgoing.node] = node
        node.observe(latency_ms, now)
        if response is not None and response.throttle_time_ms:
            self._throttle.observe(response.throttle_time_ms, now)

    def completed(self, batches: list[ProducerBatch], now: float) -> None:
        for batch in batches:
            if batch.parts is not None:
                continue
            topic = self._topics.get(batch.topic)
            if topic is None:
                topic = self._topics[batch.topic] = _Topic(self._metrics, batch.topic)
            count = batch.record_count
            if batch.error is None:
                self._records.add(count, now)
                topic.records.add(count, now)
                topic.size.add(batch.size, now)
            else:
                self._errors.add(count, now)
                topic.errors.add(count, now)

    def forget(self, topic: str) -> None:
        if self._topics.pop(topic, None) is not None:
            self._metrics.remove(topic=topic)

    def blocked(self, seconds: float, now: float) -> None:
        self._blocked.add(seconds * 1000, now)
