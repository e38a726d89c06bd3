"""ExpireDelegationToken: shorten or end the life of a delegation token.

Version 2 is flexible.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import binary, int16, int32, int64
from barnabas.wire.message import Message


class ExpireDelegationTokenRequest(Message):
    API_KEY = ApiKey.EXPIRE_DELEGATION_TOKEN
    VERSIONS = (1, 2)
    FLEXIBLE = (2, 2)

    hmac: bytes = binary()
    expiry_time_period_ms: int = int64()


class ExpireDelegationTokenResponse(Message):
    API_KEY = ApiKey.EXPIRE_DELEGATION_TOKEN
    VERSIONS = (1, 2)
    FLEXIBLE = (2, 2)

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
