"""JoinGroup: a member enters a classic group or takes part in its rebalance.

Version 1 separates the rebalance from the session timeout, 4 makes a new member ask again with
the id it is given, 5 adds static members, 6 is flexible, 7 returns the protocol type, 8 takes the
reason for joining, 9 lets the leader of a static group skip the assignment.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, binary, boolean, int16, int32, string
from barnabas.wire.message import Message, Struct


class JoinGroupRequestProtocol(Struct):
    name: str = string()
    metadata: bytes = binary()


class JoinGroupRequest(Message):
    API_KEY = ApiKey.JOIN_GROUP
    VERSIONS = (0, 9)
    FLEXIBLE = (6, 9)

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable=True, default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", nullable=True, default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable=True, default=None, ignorable=True)
    metadata: bytes = binary()


class JoinGroupResponse(Message):
    API_KEY = ApiKey.JOIN_GROUP
    VERSIONS = (0, 9)
    FLEXIBLE = (6, 9)

    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable=True, default=None, ignorable=True)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
