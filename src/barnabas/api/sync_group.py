"""SyncGroup (14): the leader brings everyone's assignment, the others fetch theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.api import DEFERRED, Answer
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.SYNC_GROUP
VERSIONS = (0, 5)

_PROTOCOL_MANDATORY_SINCE = 5


def handle(node: Node, context: Context, request: SyncGroupRequest) -> Answer:
    if context.api_version >= _PROTOCOL_MANDATORY_SINCE and (
        request.protocol_type is None or request.protocol_name is None
    ):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    response = node.groups.sync_group(request, context.respond)
    return DEFERRED if response is None else response
