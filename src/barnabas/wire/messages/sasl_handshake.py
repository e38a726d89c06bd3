"""SaslHandshake: the client picks a SASL mechanism.

After version 0 the tokens follow raw on the connection, after version 1 in SaslAuthenticate
requests. Never flexible.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int16, string
from barnabas.wire.message import Message


class SaslHandshakeRequest(Message):
    API_KEY = ApiKey.SASL_HANDSHAKE
    VERSIONS = (0, 1)
    FLEXIBLE = None

    mechanism: str = string()


class SaslHandshakeResponse(Message):
    API_KEY = ApiKey.SASL_HANDSHAKE
    VERSIONS = (0, 1)
    FLEXIBLE = None

    error_code: int = int16()
    mechanisms: list[str] = array(string)
