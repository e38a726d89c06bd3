"""DescribeGroups (15): state and members of classic groups.

Until version 5 a group that does not exist is shown as Dead and without an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.api import authorized_operations
from barnabas.api.repeats import check_repeats
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.DESCRIBE_GROUPS
VERSIONS = (0, 6)

_NOT_FOUND_SINCE = 6


def handle(node: Node, context: Context, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    check_repeats(request.groups)
    described = []
    for group_id in request.groups:
        group = node.groups.describe_group(group_id)
        if context.api_version < _NOT_FOUND_SINCE:
            group.error_message = None
            if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                group.error_code = ErrorCode.NONE
        if group.error_code == ErrorCode.NONE and request.include_authorized_operations:
            group.authorized_operations = authorized_operations.GROUP
        described.append(group)
    return DescribeGroupsResponse(groups=described)


def error_response(
    request: DescribeGroupsRequest, code: ErrorCode, version: int
) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[DescribedGroup(group_id=group_id, error_code=code) for group_id in request.groups]
    )
