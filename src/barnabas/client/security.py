"""What all connections of one client need to be secure: made once, from its options.

The TLS context is read from files when the client is made, so that a wrong file is an error there.
SASL has one new mechanism for each exchange, since proofs must never be used twice. A client that
uses neither does not import them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from barnabas.client.errors import ClientError, ConnectionFailure
from barnabas.client.security_options import SecuritySettings
from barnabas.seams import Stream

if TYPE_CHECKING:
    import ssl

    from barnabas.client.core.sasl import Mechanism
    from barnabas.client.tls import Scheduler, TlsStream


class Caller(Protocol):
    async def call_user(self, function: Any, *args: Any) -> Any: ...


class Security:
    def __init__(self, settings: SecuritySettings) -> None:
        self.settings = settings
        self.uses_sasl = settings.uses_sasl
        self._context: ssl.SSLContext | None = None
        if settings.uses_tls:
            from barnabas.client.tls import make_context

            self._context = make_context(settings)

    @property
    def uses_tls(self) -> bool:
        return self._context is not None

    def wrap(self, stream: Stream, host: str, scheduler: Scheduler) -> TlsStream:
        """TLS on a connection that was just made."""
        from barnabas.client.tls import TlsStream

        assert self._context is not None
        return TlsStream(stream, self._context, host, scheduler)

    def explain(self, address: str, error: OSError, attempt: int) -> ConnectionFailure | None:
        """The cause of a failure of TLS; None for one of the connection itself."""
        if self._context is None:
            return None
        from barnabas.client.tls import explain

        return explain(address, error, attempt)

    async def mechanism(self, caller: Caller) -> Mechanism:
        """A new one; SaslError when the user's function gives no token."""
        import secrets

        from barnabas.client.core.sasl import OAuthBearer, OAuthToken, Plain, SaslError, Scram

        settings = self.settings
        name = settings.sasl_mechanism
        assert name is not None
        if name == "OAUTHBEARER":
            try:
                token = await caller.call_user(settings.sasl_oauth_token)
            except ClientError:
                raise
            except Exception as error:
                raise SaslError(
                    f"sasl.oauth.token raised {type(error).__name__}: {error}"
                ) from error
            if not isinstance(token, (str, OAuthToken)):
                raise SaslError(f"sasl.oauth.token returned {type(token).__name__}, not a token")
            return OAuthBearer(token)
        assert settings.sasl_username is not None
        assert settings.sasl_password is not None
        if name == "PLAIN":
            return Plain(settings.sasl_username, settings.sasl_password)
        nonce = secrets.token_urlsafe(24)
        return Scram(name, settings.sasl_username, settings.sasl_password, nonce)
