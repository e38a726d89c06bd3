"""Envelope: a broker forwards a client's request to the controller, with the client's principal.

The forwarded request and response travel as bytes, headers included. The principal is encoded as
`DefaultPrincipalData`, with its version in front.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import binary, boolean, int16, string
from barnabas.wire.message import Message


class EnvelopeRequest(Message):
    API_KEY = ApiKey.ENVELOPE
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    request_data: bytes = binary()
    request_principal: bytes | None = binary(nullable=True)
    client_host_address: bytes = binary()


class EnvelopeResponse(Message):
    API_KEY = ApiKey.ENVELOPE
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    response_data: bytes | None = binary(nullable=True, default=None)
    error_code: int = int16()


class DefaultPrincipalData(Message):
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()
