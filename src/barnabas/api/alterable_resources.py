"""What a broker refuses to alter before the controller is asked.

The settings of one broker can be altered through that broker alone, as only it can tell whether they
fit what it was started with; a controller is told of them by that broker. Loggers are no part of the
metadata, and this broker has none that can be changed at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.api.describe_cluster import BROKERS
from barnabas.metadata.image import ResourceType

if TYPE_CHECKING:
    from barnabas.api.types import Node

_ALTERABLE = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


def refusal(node: Node, resource_type: int, resource_name: str) -> str | None:
    """Why a request for this resource is invalid here, in Kafka's words; None if it is not."""
    if resource_type not in _ALTERABLE:
        return f"Unknown resource type {resource_type}"
    if resource_type != ResourceType.BROKER or resource_name == "":
        return None
    if not resource_name.removeprefix("-").isdecimal():
        return f"Node id must be an integer, but it is: {resource_name}"
    if int(resource_name) != node.node_id and node.endpoint_type == BROKERS:
        return f"Unexpected broker id, expected {node.node_id}, but received {resource_name}"
    return None
