"""BrokerHeartbeat: a broker stays registered and asks to be unfenced or to shut down.

Version 1 reports failed log directories, 2 cordoned ones.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, boolean, int16, int32, int64, uuid
from barnabas.wire.message import Message


class BrokerHeartbeatRequest(Message):
    API_KEY = ApiKey.BROKER_HEARTBEAT
    VERSIONS = (0, 2)
    FLEXIBLE = (0, 2)

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    current_metadata_offset: int = int64()
    want_fence: bool = boolean()
    want_shut_down: bool = boolean()
    offline_log_dirs: list[bytes] = array(uuid, "1+", tag=0)
    cordoned_log_dirs: list[bytes] | None = array(uuid, "2+", nullable=True, default=None, tag=1)


class BrokerHeartbeatResponse(Message):
    API_KEY = ApiKey.BROKER_HEARTBEAT
    VERSIONS = (0, 2)
    FLEXIBLE = (0, 2)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    is_caught_up: bool = boolean()
    is_fenced: bool = boolean(default=True)
    should_shut_down: bool = boolean()
