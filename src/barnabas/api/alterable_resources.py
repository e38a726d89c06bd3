"""What AlterConfigs and IncrementalAlterConfigs share: a broker refuses some resources before the
controller is asked, and every resource has an answer of its own.

The settings of one broker can be altered through that broker alone, as only it can tell whether they
fit what it was started with; a controller is told of them by that broker. Loggers are no part of the
metadata at all (`broker_loggers.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

from barnabas.api.describe_cluster import BROKERS
from barnabas.metadata.image import ResourceType
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.api.types import Node

_ALTERABLE = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


class Resource(Protocol):
    resource_type: int
    resource_name: str


Asked = TypeVar("Asked", bound=Resource)
Answer = TypeVar("Answer")


def take_refused(
    node: Node, resources: list[Asked], answer_class: Callable[..., Answer]
) -> list[Answer]:
    """Take those out of `resources` that the controller must not be asked about; their answers."""
    refused: list[Answer] = []
    asked: list[Asked] = []
    for resource in resources:
        reason = refusal(node, resource.resource_type, resource.resource_name)
        if reason is None:
            asked.append(resource)
        else:
            refused += answers((resource,), answer_class, ErrorCode.INVALID_REQUEST, reason)
    resources[:] = asked
    return refused


def answers(
    resources: Iterable[Resource],
    answer_class: Callable[..., Answer],
    code: ErrorCode,
    message: str | None = None,
) -> list[Answer]:
    """The same answer for each of the resources."""
    return [
        answer_class(
            error_code=code,
            error_message=message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource in resources
    ]


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
