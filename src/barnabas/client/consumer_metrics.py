"""What a consumer counts, under Kafka's names.

Fed once a request and once a poll, never once a record. Lags are not stored: they are read from the
positions when somebody looks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.client.core.fetcher import Fetcher, NodeFetch
from barnabas.client.core.metadata import TopicPartition
from barnabas.client.metrics import Metrics

if TYPE_CHECKING:
    from barnabas.client.core.partition_state import PartitionState

FETCH = "consumer-fetch-manager-metrics"
COORDINATOR = "consumer-coordinator-metrics"
CONSUMER = "consumer-metrics"


class ConsumerMetrics:
    def __init__(self, metrics: Metrics, fetcher: Fetcher) -> None:
        self.metrics = metrics
        self._fetcher = fetcher
        self._partitions: set[TopicPartition] = set()
        self._fetch_latency = metrics.latency(
            FETCH, "fetch-latency", "Milliseconds from a fetch to its answer."
        )
        self._fetches = metrics.meter(FETCH, "fetch", "Answers to fetches.")
        self._fetch_size = metrics.distribution(FETCH, "fetch-size", "Bytes of records an answer.")
        self._bytes = metrics.meter(FETCH, "bytes-consumed", "Bytes of fetched batches.")
        self._records = metrics.meter(FETCH, "records-consumed", "Records handed out.")
        self._a_poll = metrics.distribution(
            FETCH, "records-per-poll", "Records that one poll handed out."
        )
        metrics.gauge(
            FETCH, "records-lag-max", "The largest lag of a partition.", read=self._largest_lag
        )
        self._commit_latency = metrics.latency(
            COORDINATOR, "commit-latency", "Milliseconds from a commit to its answer."
        )
        self._commits = metrics.meter(COORDINATOR, "commit", "Commits that were answered.")
        metrics.gauge(
            COORDINATOR,
            "assigned-partitions",
            "Partitions this consumer reads.",
            read=lambda: len(fetcher.partitions),
        )
        self._between_polls = metrics.latency(
            CONSUMER, "time-between-poll", "Milliseconds between the ends of polls."
        )
        self._idle_ratio = metrics.distribution(
            CONSUMER, "poll-idle-ratio", "The share of time that was spent in poll."
        )
        self._poisoned = metrics.meter(
            FETCH, "records-poisoned", "Records that no deserializer took."
        )
        self._began_at = -1.0
        self._ended_at = -1.0

    # -- fetches

    def fetched(self, fetch: NodeFetch, response: Any, now: float) -> None:
        size = 0
        for topic in response.responses:
            for answer in topic.partitions:
                if answer.records is not None:
                    size += len(answer.records)
        self._fetches.add(1, now)
        self._fetch_latency.observe((now - fetch.sent_at) * 1000, now)
        if size:
            self._fetch_size.observe(size, now)
            self._bytes.add(size, now)

    # -- polls

    def poll_began(self, now: float) -> None:
        self._began_at = now

    def poll_ended(self, records: int, now: float) -> None:
        before = self._ended_at
        self._ended_at = now
        if before >= 0:
            self._between_polls.observe((now - before) * 1000, now)
            if now > before:
                self._idle_ratio.observe((now - self._began_at) / (now - before), now)
        if records:
            self._records.add(records, now)
            self._a_poll.observe(records, now)

    def poisoned(self, now: float) -> None:
        self._poisoned.add(1, now)

    # -- commits

    def committed(self, sent_at: float, now: float) -> None:
        self._commits.add(1, now)
        self._commit_latency.observe((now - sent_at) * 1000, now)

    # -- lags

    def assigned(self) -> None:
        """The assignment changed: each partition has gauges of its own while it is there."""
        present = set(self._fetcher.partitions)
        for topic, index in self._partitions - present:
            self.metrics.remove(topic=topic, partition=index)
        for place in sorted(present - self._partitions):
            self._add_gauges(self._fetcher.partitions[place])
        self._partitions = present

    def _add_gauges(self, state: PartitionState) -> None:
        topic, index = state.partition
        self.metrics.gauge(
            FETCH,
            "records-lag",
            "Records between the position and the end.",
            read=lambda: max(self._lag(state), 0),
            topic=topic,
            partition=index,
        )
        self.metrics.gauge(
            FETCH,
            "records-lead",
            "Records between the start of the log and the position.",
            read=lambda: max(state.position - max(state.log_start_offset, 0), 0),
            topic=topic,
            partition=index,
        )

    def _lag(self, state: PartitionState) -> int:
        return lag_of(state, read_committed=self._fetcher.read_committed)

    def _largest_lag(self) -> int:
        return max((self._lag(s) for s in self._fetcher.partitions.values()), default=0)


def lag_of(state: PartitionState, *, read_committed: bool) -> int:
    """How many offsets lie between the position and the end that this reader may see; -1 while
    that is not known."""
    end = state.last_stable_offset if read_committed else state.high_watermark
    if end < 0 or state.position < 0:
        return -1
    return max(end - state.position, 0)
