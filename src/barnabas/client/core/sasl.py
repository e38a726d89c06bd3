"""SASL: how a client proves who it is, as steps without I/O.

A mechanism is a small machine: `first` gives the bytes that begin it, `next` takes what the broker
answered and gives the bytes to send then, or None when the mechanism has nothing more to say. It
raises `SaslError` when the broker's bytes are wrong or prove that it does not know the password.

- PLAIN (RFC 4616) sends user and password; only to be used inside TLS.
- SCRAM-SHA-256 and -512 (RFC 5802, 7677) send proofs: nobody who listens learns the password, and the
  broker proves that it knows it too. As Kafka does, passwords are taken as UTF-8 without SASLprep.
- OAUTHBEARER (RFC 7628) sends a token that somebody else issued.

`Authentication` wraps them into Kafka's requests: SaslHandshake agrees on the mechanism, then
SaslAuthenticate carries the bytes of both sides. The last answer may limit the lifetime of the session
(KIP-368); after `lifetime_ms` the broker ends a connection that has not authenticated again, which
is the same exchange once more on the same connection.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from barnabas.client.errors import AuthenticationError, MechanismNotEnabled
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest

LEAST_ITERATIONS = 4_096
MOST_ITERATIONS = 1_000_000
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_EXTENSION = re.compile(r"[A-Za-z]+")
_SEPARATOR = "\x01"


class SaslError(Exception):
    """The broker's side of a mechanism is wrong; the message is for a sentence."""


class Mechanism(Protocol):
    name: str

    def first(self) -> bytes: ...

    def next(self, challenge: bytes) -> bytes | None: ...


class Plain:
    """RFC 4616."""

    name = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        self._message = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        return self._message

    def next(self, challenge: bytes) -> bytes | None:
        if challenge:
            raise SaslError("it asks for more than a password")
        return None


class Scram:
    """RFC 5802. `nonce` must be printable, without commas, and never used before."""

    def __init__(self, name: str, username: str, password: str, nonce: str) -> None:
        assert nonce.isascii()
        assert nonce.isprintable()
        assert "," not in nonce
        self.name = name
        self._hash = _HASHES[name]
        self._password = password.encode()
        self._nonce = nonce
        quoted = username.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={quoted},r={nonce}"
        self._signature: bytes | None = None
        self._finished = False

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def next(self, challenge: bytes) -> bytes | None:
        if self._finished:
            raise SaslError("it goes on after the end")
        if self._signature is None:
            return self._prove(challenge)
        self._verify(challenge)
        self._finished = True
        return None

    def _prove(self, challenge: bytes) -> bytes:
        found = self._attributes(challenge)
        nonce, salt_text, count_text = (found.get(name, "") for name in "rsi")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise SaslError("its answer is to another login")
        try:
            salt = base64.b64decode(salt_text, validate=True)
            iterations = int(count_text)
        except (binascii.Error, ValueError):
            raise SaslError("its salt or its number of iterations is malformed") from None
        if not salt or not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
            raise SaslError(
                f"it asks for {iterations} iterations, and {LEAST_ITERATIONS} to {MOST_ITERATIONS} "
                "are accepted"
            )
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash, client_key).digest()
        without_proof = f"c=biws,r={nonce}"
        signed = f"{self._bare},{challenge.decode()},{without_proof}".encode()
        proof = bytes(
            a ^ b for a, b in zip(client_key, self._hmac(stored_key, signed), strict=True)
        )
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _verify(self, challenge: bytes) -> None:
        found = self._attributes(challenge)
        try:
            signature = base64.b64decode(found.get("v", ""), validate=True)
        except (binascii.Error, ValueError):
            signature = b""
        assert self._signature is not None
        if not hmac.compare_digest(signature, self._signature):
            raise SaslError("it does not prove that it knows the password")

    def _attributes(self, challenge: bytes) -> dict[str, str]:
        try:
            text = challenge.decode()
        except UnicodeDecodeError:
            raise SaslError("its answer is not text") from None
        found = {part[:1]: part[2:] for part in text.split(",") if part[1:2] == "="}
        if "e" in found:
            raise SaslError(f"it says {found['e']!r}")
        if "m" in found:
            raise SaslError("it demands an extension that this client does not know")
        return found

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash)


@dataclass(frozen=True, slots=True)
class OAuthToken:
    """A token with extensions for the broker (names of letters only)."""

    token: str = field(repr=False)
    extensions: Mapping[str, str] = field(default_factory=dict)


class OAuthBearer:
    """RFC 7628."""

    name = "OAUTHBEARER"

    def __init__(self, token: OAuthToken | str) -> None:
        given = token if isinstance(token, OAuthToken) else OAuthToken(token)
        if not given.token or not given.token.isascii() or not given.token.isprintable():
            raise SaslError("the token is empty or has characters that no token has")
        parts = ["n,,", f"auth=Bearer {given.token}"]
        for name, value in given.extensions.items():
            if not _EXTENSION.fullmatch(name) or name == "auth" or _SEPARATOR in value:
                raise SaslError(f"{name!r} cannot be the name of an extension")
            parts.append(f"{name}={value}")
        self._message = (_SEPARATOR.join(parts) + _SEPARATOR * 2).encode()
        self._refused = ""

    def first(self) -> bytes:
        return self._message

    def next(self, challenge: bytes) -> bytes | None:
        if not challenge:
            return None
        if self._refused:
            raise SaslError(f"it refused the token: {self._refused}")
        # The reason for a refusal; the broker ends the exchange once the client has acknowledged it.
        self._refused = challenge.decode(errors="replace")[:1_000]
        return _SEPARATOR.encode()


class Authentication:
    """One exchange with one broker: requests to send, until there is none.

    `begin` gives the first request, `handshaken` takes its response and gives the second; `answered`
    takes each response after that and gives the next request, or None when the broker has accepted.
    They raise `AuthenticationError`. Afterwards `lifetime_ms` is how long that holds, 0 for as long
    as the connection.
    """

    def __init__(self, mechanism: Mechanism, address: str, attempt: int = 1) -> None:
        self.lifetime_ms = 0
        self._mechanism = mechanism
        self._address = address
        self._attempt = attempt

    def begin(self) -> SaslHandshakeRequest:
        return SaslHandshakeRequest(mechanism=self._mechanism.name)

    def handshaken(self, response: Any) -> SaslAuthenticateRequest:
        """The answer to `begin`."""
        code = response.error_code
        if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise MechanismNotEnabled(
                self._address, self._mechanism.name, response.mechanisms, attempt=self._attempt
            )
        if code == ErrorCode.ILLEGAL_SASL_STATE:
            raise self._error(
                "its listener does not authenticate anybody",
                "Check the port, or set security.protocol to PLAINTEXT or SSL.",
            )
        if code != ErrorCode.NONE:
            raise self._error(_name(code), "The broker's log may say why.")
        return SaslAuthenticateRequest(auth_bytes=self._mechanism.first())

    def answered(self, response: Any) -> SaslAuthenticateRequest | None:
        """The answer to a SaslAuthenticate."""
        if response.error_code != ErrorCode.NONE:
            said = (response.error_message or _name(response.error_code)).strip().rstrip(".")
            raise self._error(f"it says {said!r}")
        try:
            following = self._mechanism.next(bytes(response.auth_bytes))
        except SaslError as error:
            raise self._error(str(error)) from None
        if following is not None:
            return SaslAuthenticateRequest(auth_bytes=following)
        self.lifetime_ms = max(response.session_lifetime_ms, 0)
        return None

    def _error(self, reason: str, next_step: str | None = None) -> AuthenticationError:
        if next_step is None and self._mechanism.name == "OAUTHBEARER":
            next_step = "Check what sasl.oauth.token returns, and which issuer the broker trusts."
        return AuthenticationError(
            self._address, self._mechanism.name, reason, attempt=self._attempt, next_step=next_step
        )


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name  # type: ignore[call-arg]
    except ValueError:
        return f"error code {code}"
