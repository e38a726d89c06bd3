"""RemoveRaftVoter: make a voter of the metadata quorum an observer."""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import int16, int32, string, uuid
from barnabas.wire.message import Message


class RemoveRaftVoterRequest(Message):
    API_KEY = ApiKey.REMOVE_RAFT_VOTER
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    cluster_id: str | None = string(nullable=True)
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()


class RemoveRaftVoterResponse(Message):
    API_KEY = ApiKey.REMOVE_RAFT_VOTER
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, ignorable=True)
