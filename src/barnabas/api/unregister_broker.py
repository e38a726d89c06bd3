"""UnregisterBroker (64): a broker that will not come back is forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.UNREGISTER_BROKER
VERSIONS = (0, 0)


async def handle(
    node: Node, context: Context, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    return await node.controller.unregister_broker(request)
