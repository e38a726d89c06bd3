"""Sends what the fetcher decides and takes in what comes back.

`drive` is called whenever something may have changed; it asks for positions, sends fetches, and sets
the one timer that comes back when a backoff has passed. Requests and answers are callbacks: no task is
made for them, and an answer is in the fetcher before the call that received it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from barnabas.client.cluster import Cluster
from barnabas.client.consumer_metrics import ConsumerMetrics
from barnabas.client.core.fetch_session import SessionRequest
from barnabas.client.core.fetcher import READ_COMMITTED, Fetcher, NodeFetch
from barnabas.client.errors import ClientError
from barnabas.client.positioning import Positioning
from barnabas.client.reactor import Timer
from barnabas.client.settings import ConsumerSettings

PURPOSE: Final = "fetch"
LAST_VERSION_BY_NAME: Final = 12
NEVER: Final = float("inf")


class Fetching:
    """`arrived` is called after every answer and failure."""

    def __init__(
        self,
        settings: ConsumerSettings,
        cluster: Cluster,
        fetcher: Fetcher,
        positioning: Positioning,
        metrics: ConsumerMetrics,
        arrived: Callable[[], object],
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._fetcher = fetcher
        self._positioning = positioning
        self._metrics = metrics
        self._arrived = arrived
        self._timer: Timer | None = None
        self._timer_at = NEVER
        self._isolation_level = READ_COMMITTED if fetcher.read_committed else 0

    def drive(self) -> None:
        cluster, fetcher = self._cluster, self._fetcher
        if cluster.closed:
            return
        now = cluster.reactor.now()
        wake_at = NEVER
        if not fetcher.all_fetch:
            self._positioning.start(now)
            wake_at = self._positioning.wake_at()
        for fetch in fetcher.plan(now):
            self._send(fetch)
        if fetcher.needs_metadata:
            fetcher.needs_metadata = False
            cluster.request_update()
        wake_at = min(wake_at, fetcher.wake_at())
        if wake_at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = max(wake_at, now)
            self._timer = cluster.reactor.call_at(self._timer_at, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._timer_at = NEVER
        self.drive()

    def _send(self, fetch: NodeFetch) -> None:
        def done(response: Any, error: ClientError | None) -> None:
            now = self._cluster.reactor.now()
            if error is not None:
                self._fetcher.failed(fetch, error, now)
            else:
                self._metrics.fetched(fetch, response, now)
                self._fetcher.answered(fetch, response, now)
            self.drive()
            self._arrived()

        self._cluster.send(
            fetch.node_id,
            fetch_request(self._settings, fetch, self._isolation_level),
            done,
            purpose=PURPOSE,
            highest=None if fetch.session.by_id else LAST_VERSION_BY_NAME,
            timeout_ms=self._settings.request_timeout_ms + fetch.max_wait_ms,
            what="records",
        )

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def fetch_request(settings: ConsumerSettings, fetch: NodeFetch, isolation_level: int) -> Any:
    """The message of a request that the fetcher decided on."""
    from barnabas.wire.messages import fetch as api

    session: SessionRequest = fetch.session
    topics: dict[str, Any] = {}
    for (name, index), wanted in session.changed.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = api.FetchTopic(
                topic=name, topic_id=wanted.topic_id, partitions=[]
            )
        topic.partitions.append(
            api.FetchPartition(
                partition=index,
                current_leader_epoch=wanted.leader_epoch,
                fetch_offset=wanted.offset,
                partition_max_bytes=wanted.max_bytes,
            )
        )
    forgotten: dict[tuple[str, bytes], list[int]] = {}
    for (name, index), topic_id in session.forgotten.items():
        forgotten.setdefault((name, topic_id), []).append(index)
    return api.FetchRequest(
        replica_id=-1,
        max_wait_ms=fetch.max_wait_ms,
        min_bytes=settings.fetch_min_bytes,
        max_bytes=fetch.max_bytes,
        isolation_level=isolation_level,
        session_id=session.session_id,
        session_epoch=session.epoch,
        topics=list(topics.values()),
        forgotten_topics_data=[
            api.ForgottenTopic(topic=name, topic_id=topic_id, partitions=indexes)
            for (name, topic_id), indexes in forgotten.items()
        ],
        rack_id=settings.client_rack,
    )
