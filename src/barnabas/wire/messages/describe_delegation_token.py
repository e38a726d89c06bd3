"""DescribeDelegationToken: the tokens that the asker may see.

Version 2 is flexible, 3 adds who requested each token.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, binary, int16, int32, int64, string
from barnabas.wire.message import Message, Struct


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = string()
    principal_name: str = string()


class DescribeDelegationTokenRequest(Message):
    API_KEY = ApiKey.DESCRIBE_DELEGATION_TOKEN
    VERSIONS = (1, 3)
    FLEXIBLE = (2, 3)

    owners: list[DescribeDelegationTokenOwner] | None = array(
        DescribeDelegationTokenOwner, nullable=True
    )


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = string()
    principal_name: str = string()


class DescribedDelegationToken(Struct):
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: bytes = binary()
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


class DescribeDelegationTokenResponse(Message):
    API_KEY = ApiKey.DESCRIBE_DELEGATION_TOKEN
    VERSIONS = (1, 3)
    FLEXIBLE = (2, 3)

    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()
