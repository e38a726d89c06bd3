"""Settings that take hold while the node runs: who must be told what when they change.

Topic defaults (retention, segment sizes, compression, `message.max.bytes`, …) reach the logs as their
new `LogConfig`; limits of connections, the cleaner's memory, the life of producer ids and the request
log are told to those who act on them. Whatever else may change is read from `node.config` when it is
needed. A change that does nothing here is told in a line.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from barnabas.config.broker import dynamic_broker_def
from barnabas.config.support import dynamic_warnings
from barnabas.config.topic import topic_def
from barnabas.metadata.image import ResourceType
from barnabas.server.real import addresses_of
from barnabas.server.request_log import RequestLog

if TYPE_CHECKING:
    from barnabas.config.broker import BrokerConfig
    from barnabas.metadata.image import MetadataImage
    from barnabas.server.node import Node

logger = logging.getLogger(__name__)


def apply_dynamic_config(node: Node) -> None:
    """The settings of brokers have changed in the metadata."""
    image = node.metadata.image
    try:
        config = node.static_config.with_dynamic(
            image.config(ResourceType.BROKER, ""),
            image.config(ResourceType.BROKER, str(node.node_id)),
        )
    except ValueError as error:
        logger.error("the dynamic broker settings cannot be used: %s", error)
        return
    node.config = config
    for quota, name in (
        (node.replicas.leader_quota, "leader.replication.throttled.rate"),
        (node.replicas.follower_quota, "follower.replication.throttled.rate"),
        (node.replicas.moves.quota, "replica.alter.log.dirs.io.max.bytes.per.second"),
    ):
        quota.rate = _dynamic_only(node, name)
    node.forget_log_configs()
    node.logs.update_broker_config(config)
    for log in node.logs.all_logs():
        log.update_config(node.log_config(log.topic))
    node.network.limits.set(**limits_of(config))
    node.network.make_room()
    if node.pipeline is not None:
        node.pipeline.request_log = request_log_of(config)


def _dynamic_only(node: Node, name: str) -> Any:
    """A setting that no file can have: this broker's, that of all brokers, or the default."""
    row = dynamic_broker_def().keys[name]
    for broker in (str(node.node_id), ""):
        text = node.metadata.image.config(ResourceType.BROKER, broker).get(name)
        if text is not None:
            return row.parse(text)
    return row.default


def tell_ignored(
    resource_type: int, name: str, before: MetadataImage, after: MetadataImage
) -> None:
    """A line for each setting that was changed and does nothing here."""
    if resource_type == ResourceType.TOPIC:
        rows, where = topic_def().keys, f"topic {name}"
    elif resource_type == ResourceType.BROKER:
        rows, where = None, f"broker {name}" if name else "all brokers"
    else:
        return
    old, new = before.config(resource_type, name), after.config(resource_type, name)
    for warning in dynamic_warnings(rows, old, new):
        logger.warning("%s: %s", where, warning)


def limits_of(config: BrokerConfig) -> dict[str, Any]:
    """The limits of connections as `ConnectionLimits` takes them."""
    by_listener = config.of_listeners
    return {
        "max_connections": config.max_connections,
        "max_per_host": config.max_connections_per_ip,
        "overrides": _per_address(config.max_connections_per_ip_overrides),
        "max_per_listener": _each(by_listener, "max.connections"),
        "max_creation_rate": config.max_connection_creation_rate,
        "max_creation_rate_per_listener": _each(by_listener, "max.connection.creation.rate"),
    }


def request_log_of(config: BrokerConfig) -> RequestLog | None:
    return RequestLog() if config.barnabas_request_log_enable else None


def _each(by_listener: Mapping[str, Mapping[str, Any]], setting: str) -> dict[str, int]:
    return {name: own[setting] for name, own in by_listener.items() if setting in own}


def _per_address(text: str) -> dict[str, int]:
    """`host:count` pairs by address; a host name stands for all of its addresses."""
    limits: dict[str, int] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        host, _, limit = pair.rpartition(":")
        host = host.strip().removeprefix("[").removesuffix("]")
        for address in _addresses(host):
            limits[address] = int(limit)
    return limits


def _addresses(host: str) -> list[str]:
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        pass
    found = addresses_of(host)
    if not found:
        logger.warning("max.connections.per.ip.overrides: the host name %s has no address", host)
    return found
