"""SyncGroup: a classic group's leader hands over the assignment, and each member gets its part.

Version 3 adds static members, 4 is flexible, 5 repeats protocol type and name so that a mismatch
is noticed.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, binary, int16, int32, string
from barnabas.wire.message import Message, Struct


class SyncGroupRequestAssignment(Struct):
    member_id: str = string()
    assignment: bytes = binary()


class SyncGroupRequest(Message):
    API_KEY = ApiKey.SYNC_GROUP
    VERSIONS = (0, 5)
    FLEXIBLE = (4, 5)

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable=True, default=None)
    protocol_type: str | None = string("5+", nullable=True, default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable=True, default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


class SyncGroupResponse(Message):
    API_KEY = ApiKey.SYNC_GROUP
    VERSIONS = (0, 5)
    FLEXIBLE = (4, 5)

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable=True, default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable=True, default=None, ignorable=True)
    assignment: bytes = binary()
