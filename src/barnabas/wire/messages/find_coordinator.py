"""FindCoordinator: which broker coordinates a group, a transactional id or a share partition.

Version 1 adds the key type and the error message, 3 is flexible, 4 takes several keys at once, 5
answers TRANSACTION_ABORTABLE, 6 knows share groups.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int8, int16, int32, string
from barnabas.wire.message import Message, Struct


class FindCoordinatorRequest(Message):
    API_KEY = ApiKey.FIND_COORDINATOR
    VERSIONS = (0, 6)
    FLEXIBLE = (3, 6)

    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array(string, "4+")


class Coordinator(Struct):
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, ignorable=True)


class FindCoordinatorResponse(Message):
    API_KEY = ApiKey.FIND_COORDINATOR
    VERSIONS = (0, 6)
    FLEXIBLE = (3, 6)

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable=True, ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")
