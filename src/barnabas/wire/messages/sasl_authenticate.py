"""SaslAuthenticate: one step of the SASL exchange.

Version 1 adds the lifetime of the session, 2 is flexible.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import binary, int16, int64, string
from barnabas.wire.message import Message


class SaslAuthenticateRequest(Message):
    API_KEY = ApiKey.SASL_AUTHENTICATE
    VERSIONS = (0, 2)
    FLEXIBLE = (2, 2)

    auth_bytes: bytes = binary()


class SaslAuthenticateResponse(Message):
    API_KEY = ApiKey.SASL_AUTHENTICATE
    VERSIONS = (0, 2)
    FLEXIBLE = (2, 2)

    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    auth_bytes: bytes = binary()
    session_lifetime_ms: int = int64("1+", ignorable=True)
