"""DeleteGroups (42): empty groups go, with their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.api import DEFERRED, Answer
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.DELETE_GROUPS
VERSIONS = (0, 2)


def handle(node: Node, context: Context, request: DeleteGroupsRequest) -> Answer:
    results = node.groups.delete_groups(
        list(dict.fromkeys(request.groups_names)),
        lambda later: context.respond(DeleteGroupsResponse(results=later)),
    )
    return DEFERRED if results is None else DeleteGroupsResponse(results=results)


def error_response(
    request: DeleteGroupsRequest, code: ErrorCode, version: int
) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=code)
            for group_id in request.groups_names
        ]
    )
