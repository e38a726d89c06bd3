"""ListGroups: the groups that this broker coordinates.

Version 3 is flexible, 4 filters by state, 5 by type (classic, consumer, share, streams).
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int16, int32, string
from barnabas.wire.message import Message, Struct


class ListGroupsRequest(Message):
    API_KEY = ApiKey.LIST_GROUPS
    VERSIONS = (0, 5)
    FLEXIBLE = (3, 5)

    states_filter: list[str] = array(string, "4+")
    types_filter: list[str] = array(string, "5+")


class ListedGroup(Struct):
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+", ignorable=True)
    group_type: str = string("5+", ignorable=True)


class ListGroupsResponse(Message):
    API_KEY = ApiKey.LIST_GROUPS
    VERSIONS = (0, 5)
    FLEXIBLE = (3, 5)

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
