"""DeleteGroups: remove empty groups with their offsets.

Version 2 is flexible.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int16, int32, string
from barnabas.wire.message import Message, Struct


class DeleteGroupsRequest(Message):
    API_KEY = ApiKey.DELETE_GROUPS
    VERSIONS = (0, 2)
    FLEXIBLE = (2, 2)

    groups_names: list[str] = array(string)


class DeletableGroupResult(Struct):
    group_id: str = string()
    error_code: int = int16()


class DeleteGroupsResponse(Message):
    API_KEY = ApiKey.DELETE_GROUPS
    VERSIONS = (0, 2)
    FLEXIBLE = (2, 2)

    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
