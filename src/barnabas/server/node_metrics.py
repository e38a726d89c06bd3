"""The node's own metrics beside those of its network, and the HTTP port they are served on."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.server.broker_state import BrokerState

if TYPE_CHECKING:
    from barnabas.server.http import HttpServer
    from barnabas.server.node import Node

logger = logging.getLogger(__name__)

NO_METRICS = -1


def serve_metrics(node: Node) -> HttpServer | None:
    """Start the HTTP port if one is configured. What it needs is imported only then."""
    port = node.config.barnabas_metrics_port
    if port == NO_METRICS:
        return None
    from barnabas.server.metrics import Metrics
    from barnabas.server.observability import serve_http

    metrics = Metrics(node.network)
    for purgatory in (
        node.replicas.produce_purgatory,
        node.replicas.fetch_purgatory,
        node.replicas.delete_records_purgatory,
    ):
        metrics.watch_purgatory(purgatory)
    metrics.gauge("kafka_server_brokerstate", "State of the broker.", lambda: node.lifecycle.state)
    metrics.gauge(
        "kafka_server_replicamanager_partitioncount",
        "Partitions on this broker.",
        lambda: len(node.replicas.partitions),
    )
    metrics.gauge(
        "kafka_server_replicamanager_offlinereplicacount",
        "Partitions whose log directory is offline.",
        lambda: len(node.replicas.offline),
    )
    metrics.gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        "Fetch sessions.",
        lambda: len(node.fetch_sessions),
    )
    metrics.gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
        "Partitions in all fetch sessions.",
        lambda: node.fetch_sessions.partition_count,
    )
    metrics.counter(
        "kafka_server_fetchsessioncache_incrementalfetchsessionevictions",
        "Fetch sessions that made room for another.",
        lambda: node.fetch_sessions.evictions,
    )
    metrics.gauge(
        "kafka_log_log_size",
        "Bytes of a partition's log.",
        lambda: {
            (log.topic, str(log.partition)): log.size for log in tuple(node.logs.logs.values())
        },
        ("topic", "partition"),
    )
    metrics.gauge(
        "kafka_log_log_logendoffset",
        "The offset of the next record.",
        lambda: {
            (log.topic, str(log.partition)): log.log_end_offset
            for log in tuple(node.logs.logs.values())
        },
        ("topic", "partition"),
    )
    metrics.gauge(
        "kafka_log_log_logstartoffset",
        "The offset of the first record.",
        lambda: {
            (log.topic, str(log.partition)): log.log_start_offset
            for log in tuple(node.logs.logs.values())
        },
        ("topic", "partition"),
    )

    def not_ready() -> str | None:
        state = node.lifecycle.state
        return None if state is BrokerState.RUNNING else f"the broker is {state.name}"

    return serve_http(node.config.barnabas_metrics_host, port, node.network, metrics, not_ready)
