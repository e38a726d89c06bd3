"""LeaveGroup: members leave a classic group.

Version 3 takes several members, static ones too, 4 is flexible, 5 adds the reason.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int16, int32, string
from barnabas.wire.message import Message, Struct


class MemberIdentity(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(nullable=True, default=None)
    reason: str | None = string("5+", nullable=True, default=None, ignorable=True)


class LeaveGroupRequest(Message):
    API_KEY = ApiKey.LEAVE_GROUP
    VERSIONS = (0, 5)
    FLEXIBLE = (4, 5)

    group_id: str = string()
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


class MemberResponse(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(nullable=True)
    error_code: int = int16()


class LeaveGroupResponse(Message):
    API_KEY = ApiKey.LEAVE_GROUP
    VERSIONS = (0, 5)
    FLEXIBLE = (4, 5)

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, "3+")
