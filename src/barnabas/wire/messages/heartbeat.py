"""Heartbeat: a member of a classic group says that it is alive.

Version 3 adds static members, 4 is flexible.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import int16, int32, string
from barnabas.wire.message import Message


class HeartbeatRequest(Message):
    API_KEY = ApiKey.HEARTBEAT
    VERSIONS = (0, 4)
    FLEXIBLE = (4, 4)

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable=True, default=None)


class HeartbeatResponse(Message):
    API_KEY = ApiKey.HEARTBEAT
    VERSIONS = (0, 4)
    FLEXIBLE = (4, 4)

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
