"""The login of a connection: SASL's exchange, carried by Kafka's requests."""

from __future__ import annotations

from typing import Any, Protocol

from barnabas.client.core.sasl import Authentication, SaslError
from barnabas.client.core.versions import BrokerVersions
from barnabas.client.errors import AuthenticationError
from barnabas.client.security import Caller, Security
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest

HANDSHAKE_VERSION = 1  # what follows it is SaslAuthenticate, not bare bytes


class Asked(Protocol):
    """The connection."""

    address: str
    versions: BrokerVersions

    async def ask(self, request: Any, version: int, what: str) -> Any: ...


async def log_in(connection: Asked, security: Security, caller: Caller, attempt: int) -> int:
    """Authenticate, or again; for how many ms that holds, 0 for as long as the connection."""
    name = security.settings.sasl_mechanism or ""
    try:
        mechanism = await security.mechanism(caller)
    except SaslError as error:
        raise AuthenticationError(
            connection.address,
            name,
            str(error),
            attempt=attempt,
            next_step="sasl.oauth.token must be a function that returns a valid token.",
        ) from error
    exchange = Authentication(mechanism, connection.address, attempt)
    connection.versions.choose_for(SaslHandshakeRequest(), HANDSHAKE_VERSION)
    answer = await connection.ask(exchange.begin(), HANDSHAKE_VERSION, "its SASL handshake")
    request = exchange.handshaken(answer)
    version = connection.versions.choose_for(request)
    while True:
        answer = await connection.ask(request, version, "its SASL authentication")
        following = exchange.answered(answer)
        if following is None:
            return exchange.lifetime_ms
        request = following
