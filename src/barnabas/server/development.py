"""The node of `barnabas up` and of tests: one broker that needs no file and no format step.

Its defaults differ from Kafka's only where one developer on one machine is better served: groups start
without the initial delay, internal topics have as many partitions as one machine needs, topic
directories that are copied in are adopted. Every one of them can be overridden.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.config.broker import BrokerConfig
from barnabas.server.node import Node, real_world

DEFAULTS = {
    "group.initial.rebalance.delay.ms": "0",
    "barnabas.adopt.topic.directories": "true",
    "barnabas.format.if.empty": "true",
}


def development_config(
    *, data: str, port: int, host: str = "localhost", overrides: Mapping[str, str] | None = None
) -> BrokerConfig:
    bracketed = f"[{host}]" if ":" in host else host
    given = {
        **DEFAULTS,
        "listeners": f"PLAINTEXT://{bracketed}:{port}",
        "log.dirs": data,
        **(overrides or {}),
    }
    return BrokerConfig(given)


def development_node(
    *, data: str, port: int, host: str = "localhost", overrides: Mapping[str, str] | None = None
) -> Node:
    """Must be called on the event loop that the node is to run on."""
    config = development_config(data=data, port=port, host=host, overrides=overrides)
    return Node(config, real_world())
