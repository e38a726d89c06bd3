"""DescribeGroups: state, protocol and members of classic groups.

Version 3 adds authorized operations, 4 static members, 5 is flexible, 6 answers
GROUP_ID_NOT_FOUND with a message for unknown groups.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, binary, boolean, int16, int32, string
from barnabas.wire.message import Message, Struct


class DescribeGroupsRequest(Message):
    API_KEY = ApiKey.DESCRIBE_GROUPS
    VERSIONS = (0, 6)
    FLEXIBLE = (5, 6)

    groups: list[str] = array(string)
    include_authorized_operations: bool = boolean("3+")


class DescribedGroupMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable=True, default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = binary()
    member_assignment: bytes = binary()


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string("6+", nullable=True, default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=-0x80000000)


class DescribeGroupsResponse(Message):
    API_KEY = ApiKey.DESCRIBE_GROUPS
    VERSIONS = (0, 6)
    FLEXIBLE = (5, 6)

    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup)
