"""AddRaftVoter: make a controller a voter of the metadata quorum.

Version 1 can ask for an answer before the new set of voters is committed.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, boolean, int16, int32, string, uint16, uuid
from barnabas.wire.message import Message, Struct


class Listener(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()


class AddRaftVoterRequest(Message):
    API_KEY = ApiKey.ADD_RAFT_VOTER
    VERSIONS = (0, 1)
    FLEXIBLE = (0, 1)

    cluster_id: str | None = string(nullable=True)
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    listeners: list[Listener] = array(Listener)
    ack_when_committed: bool = boolean("1+", default=True)


class AddRaftVoterResponse(Message):
    API_KEY = ApiKey.ADD_RAFT_VOTER
    VERSIONS = (0, 1)
    FLEXIBLE = (0, 1)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, ignorable=True)
