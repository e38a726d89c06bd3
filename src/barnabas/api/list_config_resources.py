"""ListConfigResources (74): which resources have settings, or can have them (KIP-1142)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.metadata.image import ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.LIST_CONFIG_RESOURCES
VERSIONS = (0, 1)

LISTABLE = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


def handle(
    node: Node, context: Context, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    if context.api_version == 0:
        asked = {ResourceType.CLIENT_METRICS}
    else:
        asked = set(request.resource_types) or set(LISTABLE)
    if not asked <= set(LISTABLE):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = node.metadata.image
    names: dict[int, list[str]] = {
        ResourceType.TOPIC: list(image.topics),
        ResourceType.BROKER: [str(broker_id) for broker_id in image.brokers],
        ResourceType.BROKER_LOGGER: [str(broker_id) for broker_id in image.brokers],
    }
    for kind, name in image.configs:
        if kind in (ResourceType.CLIENT_METRICS, ResourceType.GROUP):
            names.setdefault(kind, []).append(name)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in LISTABLE
            if kind in asked
            for name in names.get(kind, ())
        ]
    )
