"""JoinGroup (11): become a member of a classic group, or take part in its rebalance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.api import DEFERRED, Answer
from barnabas.coordinator.group.coordinator import ClientInfo
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.JOIN_GROUP
VERSIONS = (0, 9)


def handle(node: Node, context: Context, request: JoinGroupRequest) -> Answer:
    response = node.groups.join_group(
        request,
        ClientInfo(context.client_id or "", f"/{context.client_address[0]}"),
        context.api_version,
        context.respond,
    )
    return DEFERRED if response is None else response


def error_response(request: JoinGroupRequest, code: ErrorCode, version: int) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=request.member_id)
