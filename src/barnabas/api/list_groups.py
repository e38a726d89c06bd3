"""ListGroups (16): the groups this node coordinates; 4 filters by state, 5 by type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node
    from barnabas.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

KEY = ApiKey.LIST_GROUPS
VERSIONS = (0, 5)


def handle(node: Node, context: Context, request: ListGroupsRequest) -> ListGroupsResponse:
    return node.groups.list_groups(request.states_filter, request.types_filter)
