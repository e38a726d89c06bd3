"""CreateDelegationToken: a token that lets its holder act as its owner.

Version 2 is flexible, 3 lets a superuser create one for somebody else.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, binary, int16, int32, int64, string
from barnabas.wire.message import Message, Struct


class CreatableRenewers(Struct):
    principal_type: str = string()
    principal_name: str = string()


class CreateDelegationTokenRequest(Message):
    API_KEY = ApiKey.CREATE_DELEGATION_TOKEN
    VERSIONS = (1, 3)
    FLEXIBLE = (2, 3)

    owner_principal_type: str | None = string("3+", nullable=True)
    owner_principal_name: str | None = string("3+", nullable=True)
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()


class CreateDelegationTokenResponse(Message):
    API_KEY = ApiKey.CREATE_DELEGATION_TOKEN
    VERSIONS = (1, 3)
    FLEXIBLE = (2, 3)

    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = binary()
    throttle_time_ms: int = int32()
