"""BrokerHeartbeat (63): a broker is alive, and says whether it wants to serve or to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, ControllerNode

KEY = ApiKey.BROKER_HEARTBEAT
VERSIONS = (0, 2)


async def handle(
    node: ControllerNode, context: Context, request: BrokerHeartbeatRequest
) -> BrokerHeartbeatResponse:
    return await node.controller.heartbeat_broker(request)


def error_response(
    request: BrokerHeartbeatRequest, code: ErrorCode, version: int
) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(error_code=code)
