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


_NO_PROTOCOL_NAME_SINCE = 7


def handle(node: Node, context: Context, request: JoinGroupRequest) -> Answer:
    version = context.api_version
    response = node.groups.join_group(
        request,
        ClientInfo(context.client_id or "", f"/{context.client_address[0]}"),
        version,
        lambda later: context.respond(_with_protocol_name(later, version)),
    )
    return DEFERRED if response is None else _with_protocol_name(response, version)


def _with_protocol_name(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """No protocol is null since version 7; before, it is an empty name."""
    if not response.protocol_name:
        response.protocol_name = None if version >= _NO_PROTOCOL_NAME_SINCE else ""
    return response


def error_response(request: JoinGroupRequest, code: ErrorCode, version: int) -> JoinGroupResponse:
    response = JoinGroupResponse(error_code=code, member_id=request.member_id)
    return _with_protocol_name(response, version)
