"""Heartbeat (12): a member is alive, and learns whether it must rejoin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node
    from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

KEY = ApiKey.HEARTBEAT
VERSIONS = (0, 4)


def handle(node: Node, context: Context, request: HeartbeatRequest) -> HeartbeatResponse:
    return node.groups.heartbeat(request)
