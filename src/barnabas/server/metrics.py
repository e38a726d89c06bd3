"""What a node tells about itself, in Prometheus' text format.

Numbers are kept where they arise, in plain attributes; nothing here is touched on a hot path. At
scrape time this module walks over them and makes metric families, named as users of Kafka's JMX
exporter know them (`docs/metrics.md` has the list). Other layers add theirs with `gauge` and
`counter`, as functions that are called at scrape time.

`prometheus_client` is imported at the first scrape: a node that nobody scrapes does not pay for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.delayed.purgatory import Purgatory
from barnabas.server.api_metrics import BOUNDS_MS, ApiMetrics, Histogram
from barnabas.server.network import Network
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import HistogramMetricFamily, Metric

logger = logging.getLogger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]
Samples = Callable[[], float | Mapping[Labels, float]]

_TIMES = (
    ("queue", "requestqueuetimems", "Time a request waited to be handled"),
    ("local", "localtimems", "Time the handler took"),
    ("remote", "remotetimems", "Time a request waited for replicas, records or other members"),
    ("throttle", "throttletimems", "Time a client was slowed down by a quota"),
    ("response_queue", "responsequeuetimems", "Time an answer waited for the answers before it"),
    ("send", "responsesendtimems", "Time to encode and send an answer"),
    ("total", "totaltimems", "Time from receiving a request to having sent its answer"),
)
_BOUND_TEXTS = [*(format(bound, "g") for bound in BOUNDS_MS), "+Inf"]


class Metrics:
    """All metrics of one node."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._purgatories: list[Purgatory] = []
        self._registered: list[tuple[str, str, str, Labels, Samples]] = []
        self._registry: CollectorRegistry | None = None

    def watch_purgatory(self, purgatory: Purgatory) -> None:
        self._purgatories.append(purgatory)

    def gauge(self, name: str, documentation: str, samples: Samples, labels: Labels = ()) -> None:
        """`samples()` gives a number, or numbers by label values."""
        self._registered.append(("gauge", name, documentation, labels, samples))

    def counter(self, name: str, documentation: str, samples: Samples, labels: Labels = ()) -> None:
        """Like `gauge`, for what only grows. `name` comes without `_total`."""
        self._registered.append(("counter", name, documentation, labels, samples))

    def render(self) -> bytes:
        """The text of a scrape. Safe to call from another thread."""
        from prometheus_client import (
            CollectorRegistry,
            GCCollector,
            PlatformCollector,
            ProcessCollector,
            generate_latest,
        )

        if self._registry is None:
            self._registry = registry = CollectorRegistry(auto_describe=False)
            ProcessCollector(registry=registry)
            PlatformCollector(registry=registry)
            GCCollector(registry=registry)
            registry.register(_Collector(self))
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        yield from self._requests()
        yield from self._connections()
        yield from self._delayed()
        yield from self._others()

    def _requests(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        used = [
            metrics
            for metrics in _merged(pipeline.metrics for pipeline in self._network.pipelines)
            if metrics.requests or metrics.errors
        ]
        requests = CounterMetricFamily(
            "kafka_network_requestmetrics_requests",
            "Requests received",
            labels=("request", "version"),
        )
        for pipeline in self._network.pipelines:
            for route in tuple(pipeline.routes.values()):
                requests.add_metric((route.name, str(route.version)), route.requests)
        yield requests
        errors = CounterMetricFamily(
            "kafka_network_requestmetrics_errors",
            "Error codes in answers, one for each topic or partition that has one",
            labels=("request", "error"),
        )
        for metrics in used:
            for code, count in tuple(metrics.errors.items()):
                errors.add_metric((metrics.name, _error_name(code)), count)
        yield errors
        for attribute, name, documentation in (
            ("request_bytes", "requestbytes", "Bytes of requests"),
            ("response_bytes", "responsebytes", "Bytes of answers"),
        ):
            family = CounterMetricFamily(
                f"kafka_network_requestmetrics_{name}", documentation, labels=("request",)
            )
            for metrics in used:
                family.add_metric((metrics.name,), getattr(metrics, attribute))
            yield family
        for attribute, name, documentation in _TIMES:
            histogram = HistogramMetricFamily(
                f"kafka_network_requestmetrics_{name}",
                f"{documentation}, in milliseconds",
                labels=("request",),
            )
            for metrics in used:
                _add(histogram, metrics.name, getattr(metrics, attribute), metrics.requests)
            yield histogram

    def _connections(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        network = self._network
        count = GaugeMetricFamily(
            "kafka_server_socketservermetrics_connection_count",
            "Open connections",
            labels=("listener",),
        )
        accepted = CounterMetricFamily(
            "kafka_server_socketservermetrics_connection_creation",
            "Connections accepted",
            labels=("listener",),
        )
        unsent = GaugeMetricFamily(
            "kafka_server_socketservermetrics_unsent_bytes",
            "Bytes of answers that wait for slow clients",
            labels=("listener",),
        )
        held = GaugeMetricFamily(
            "kafka_server_socketservermetrics_held_connections",
            "Connections that are not read from, because of back-pressure or a quota",
            labels=("listener",),
        )
        for listener in network.listeners:
            connections = tuple(listener.connections)
            count.add_metric((listener.name,), len(connections))
            accepted.add_metric((listener.name,), listener.accepted_total)
            unsent.add_metric((listener.name,), sum(each.unsent_bytes for each in connections))
            held.add_metric((listener.name,), sum(each.held for each in connections))
        yield from (count, accepted, unsent, held)
        yield CounterMetricFamily(
            "kafka_server_socketservermetrics_connection_refused",
            "Connections refused because of max.connections.per.ip",
            value=network.limits.refused_total,
        )
        yield CounterMetricFamily(
            "kafka_server_socketservermetrics_malformed",
            "Connections closed because of what was received",
            value=sum(pipeline.peers.malformed_total for pipeline in network.pipelines),
        )
        yield GaugeMetricFamily(
            "kafka_network_requestchannel_requestqueuesize",
            "Requests that are not answered yet",
            value=sum(pipeline.requests_in_flight for pipeline in network.pipelines),
        )

    def _delayed(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        prefix = "kafka_server_delayedoperationpurgatory"
        label = ("delayedoperation",)
        watched = GaugeMetricFamily(
            f"{prefix}_purgatorysize", "Watches: an operation has one for each key", labels=label
        )
        waiting = GaugeMetricFamily(
            f"{prefix}_numdelayedoperations", "Operations that wait", labels=label
        )
        expired = CounterMetricFamily(
            f"{prefix}_expired", "Operations that ended by their deadline", labels=label
        )
        for purgatory in self._purgatories:
            watched.add_metric((purgatory.name,), purgatory.watched)
            waiting.add_metric((purgatory.name,), len(purgatory))
            expired.add_metric((purgatory.name,), purgatory.expired_total)
        yield from (watched, waiting, expired)

    def _others(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for kind, name, documentation, labels, samples in self._registered:
            try:
                values = samples()
            except Exception:
                logger.exception("The metric %s cannot be told", name)
                continue
            family: Any = (GaugeMetricFamily if kind == "gauge" else CounterMetricFamily)(
                name, documentation, labels=labels
            )
            for label_values, value in (
                values.items() if isinstance(values, Mapping) else [((), values)]
            ):
                family.add_metric(label_values, value)
            yield family


class _Collector:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics.collect()


def _merged(tables: Iterable[Mapping[int, ApiMetrics]]) -> Iterator[ApiMetrics]:
    """The metrics of all pipelines, those of the same API added up."""
    by_key: dict[int, list[ApiMetrics]] = {}
    for table in tables:
        for key, metrics in table.items():
            by_key.setdefault(key, []).append(metrics)
    for several in by_key.values():
        yield several[0] if len(several) == 1 else ApiMetrics.added(several)


def _add(family: HistogramMetricFamily, name: str, histogram: Histogram, requests: int) -> None:
    counts = list(histogram.counts)
    counts[0] += max(0, requests - sum(counts))
    cumulative = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip(_BOUND_TEXTS, counts, strict=True):
        cumulative += count
        buckets.append((bound, cumulative))
    family.add_metric((name,), buckets=buckets, sum_value=histogram.sum_ns / 1_000_000)


_ERROR_NAMES = {int(code): code.name for code in ErrorCode}


def _error_name(code: int) -> str:
    return _ERROR_NAMES.get(code, str(code))
