"""LeaveGroup (13): members go, or an administrator removes them.

Since version 3 a request names several members and each has its own error; before, there is one
member and its error is the response's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.api import DEFERRED, Answer
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.LEAVE_GROUP
VERSIONS = (0, 5)

_SEVERAL_MEMBERS_SINCE = 3


def handle(node: Node, context: Context, request: LeaveGroupRequest) -> Answer:
    if context.api_version >= _SEVERAL_MEMBERS_SINCE:
        response = node.groups.leave_group(request.group_id, request.members, context.respond)
        return DEFERRED if response is None else response
    response = node.groups.leave_group(
        request.group_id,
        [MemberIdentity(member_id=request.member_id)],
        lambda later: context.respond(_of_one_member(later)),
    )
    return DEFERRED if response is None else _of_one_member(response)


def _of_one_member(response: LeaveGroupResponse) -> LeaveGroupResponse:
    code = response.error_code
    if code == 0 and response.members:
        code = response.members[0].error_code
    return LeaveGroupResponse(error_code=code)
