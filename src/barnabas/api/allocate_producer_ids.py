"""AllocateProducerIds (67): a block of producer ids that no other broker ever gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, ControllerNode

KEY = ApiKey.ALLOCATE_PRODUCER_IDS
VERSIONS = (0, 0)


async def handle(
    node: ControllerNode, context: Context, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    return await node.controller.allocate_producer_ids_for(request)
