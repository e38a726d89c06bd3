"""SASL mechanisms and their exchange, without a network."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.core.sasl import (
    Authentication,
    OAuthBearer,
    OAuthToken,
    Plain,
    SaslError,
    Scram,
)
from barnabas.client.errors import AuthenticationError, MechanismNotEnabled
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from barnabas.wire.messages.sasl_handshake import SaslHandshakeResponse

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def pencil() -> Scram:
    return Scram("SCRAM-SHA-256", "user", "pencil", NONCE)


def test_the_example_of_rfc_7677() -> None:
    scram = pencil()
    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert scram.next(SERVER_FIRST) == CLIENT_FINAL
    assert scram.next(SERVER_FINAL) is None
    with pytest.raises(SaslError, match="after the end"):
        scram.next(b"")


class ScramServer:
    """The other side, from the formulas of RFC 5802."""

    def __init__(self, name: str, user: str, password: str, iterations: int = 4096) -> None:
        self.hash = {"SCRAM-SHA-256": hashlib.sha256, "SCRAM-SHA-512": hashlib.sha512}[name]
        self.user = user
        self.salt = b"some salt"
        self.iterations = iterations
        salted = hashlib.pbkdf2_hmac(self.hash().name, password.encode(), self.salt, iterations)
        self.stored_key = self.hash(self.hmac(salted, b"Client Key")).digest()
        self.server_key = self.hmac(salted, b"Server Key")

    def hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.new(key, data, self.hash).digest()

    def challenge(self, first: bytes) -> bytes:
        gs2, self.bare = first[:3], first[3:]
        assert gs2 == b"n,,"
        quoted, nonce = self.bare.decode().removeprefix("n=").split(",r=")
        assert quoted.replace("=2C", ",").replace("=3D", "=") == self.user
        self.nonce = f"{nonce}more"
        salt = base64.b64encode(self.salt).decode()
        self.answer = f"r={self.nonce},s={salt},i={self.iterations}".encode()
        return self.answer

    def verify(self, final: bytes) -> bytes:
        without_proof, proof_text = final.rsplit(b",p=", 1)
        assert without_proof == f"c=biws,r={self.nonce}".encode()
        signed = b",".join([self.bare, self.answer, without_proof])
        proof = base64.b64decode(proof_text)
        signature = self.hmac(self.stored_key, signed)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if self.hash(client_key).digest() != self.stored_key:
            return b"e=invalid-proof"
        return b"v=" + base64.b64encode(self.hmac(self.server_key, signed))


@pytest.mark.parametrize("name", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@settings(max_examples=20)
@given(
    user=st.text(min_size=1, max_size=20).filter(lambda s: s.isprintable()),
    password=st.text(max_size=20).filter(lambda s: s.isprintable()),
)
def test_scram_with_any_user_and_password(name: str, user: str, password: str) -> None:
    client, server = Scram(name, user, password, "nonce"), ScramServer(name, user, password)
    challenge = server.challenge(client.first())
    final = client.next(challenge)
    assert final is not None
    assert client.next(server.verify(final)) is None


def test_a_wrong_password_is_said_by_the_server() -> None:
    client, server = pencil(), ScramServer("SCRAM-SHA-256", "user", "pen")
    final = client.next(server.challenge(client.first()))
    assert final is not None
    with pytest.raises(SaslError, match="it says 'invalid-proof'"):
        client.next(server.verify(final))


@pytest.mark.parametrize(
    ("challenge", "text"),
    [
        (b"r=other,s=W22Z,i=4096", "answer is to another login"),
        (b"r=%s,s=W22Z,i=4096" % NONCE.encode(), "answer is to another login"),
        (b"r=%sx,s=!,i=4096" % NONCE.encode(), "malformed"),
        (b"r=%sx,s=,i=4096" % NONCE.encode(), "iterations"),
        (b"r=%sx,s=W22Z,i=many" % NONCE.encode(), "malformed"),
        (b"r=%sx,s=W22Z,i=1" % NONCE.encode(), "asks for 1 iterations"),
        (b"r=%sx,s=W22Z,i=99999999" % NONCE.encode(), "asks for 99999999 iterations"),
        (b"m=x,r=%sx,s=W22Z,i=4096" % NONCE.encode(), "extension"),
        (b"e=unknown-user", "it says 'unknown-user'"),
        (b"\xff", "not text"),
        (b"", "answer is to another login"),
    ],
)
def test_servers_that_a_client_does_not_believe(challenge: bytes, text: str) -> None:
    with pytest.raises(SaslError, match=text):
        pencil().next(challenge)


@pytest.mark.parametrize("final", [b"v=AAAA", b"v=!", b"", b"x"])
def test_a_server_that_does_not_know_the_password_is_not_believed(final: bytes) -> None:
    scram = pencil()
    scram.next(SERVER_FIRST)
    with pytest.raises(SaslError, match="does not prove"):
        scram.next(final)


@given(st.binary(max_size=60))
def test_garbage_is_refused_and_nothing_else_is_raised(challenge: bytes) -> None:
    for scram in (pencil(), pencil()):
        with pytest.raises(SaslError):
            scram.next(challenge)


def test_plain() -> None:
    plain = Plain("mé", "päss")
    assert plain.first() == "\0mé\0päss".encode()
    assert plain.next(b"") is None
    with pytest.raises(SaslError):
        plain.next(b"more")


def test_oauthbearer() -> None:
    bearer = OAuthBearer("abc.def")
    assert bearer.first() == b"n,,\x01auth=Bearer abc.def\x01\x01"
    assert bearer.next(b"") is None
    more = OAuthBearer(OAuthToken("t", {"traceId": "123", "logicalCluster": "c"}))
    assert more.first() == b"n,,\x01auth=Bearer t\x01traceId=123\x01logicalCluster=c\x01\x01"
    assert more.next(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(SaslError, match="invalid_token"):
        more.next(b"again")
    assert "abc" not in repr(OAuthToken("abc"))


@pytest.mark.parametrize(
    "token",
    ["", "with\x01separator", "ü", OAuthToken("t", {"auth": "x"}), OAuthToken("t", {"a1": "x"})],
)
def test_what_no_token_is(token: Any) -> None:
    with pytest.raises(SaslError):
        OAuthBearer(token)


def test_the_exchange_with_a_broker() -> None:
    exchange = Authentication(pencil(), "b:1")
    assert exchange.begin().mechanism == "SCRAM-SHA-256"
    request = exchange.handshaken(SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256"]))
    assert request.auth_bytes.startswith(b"n,,n=user")
    following = exchange.answered(SaslAuthenticateResponse(auth_bytes=SERVER_FIRST))
    assert following is not None
    assert following.auth_bytes == CLIENT_FINAL
    end = SaslAuthenticateResponse(auth_bytes=SERVER_FINAL, session_lifetime_ms=60_000)
    assert exchange.answered(end) is None
    assert exchange.lifetime_ms == 60_000


@pytest.mark.parametrize(
    ("response", "cls", "words"),
    [
        (
            SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["GSSAPI", "X"]
            ),
            MechanismNotEnabled,
            ["it offers GSSAPI, X", "sasl.enabled.mechanisms"],
        ),
        (
            SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE),
            AuthenticationError,
            ["does not authenticate anybody", "security.protocol"],
        ),
        (
            SaslHandshakeResponse(error_code=ErrorCode.NOT_CONTROLLER),
            AuthenticationError,
            ["NOT_CONTROLLER"],
        ),
    ],
)
def test_a_handshake_that_fails(response: Any, cls: type[Exception], words: list[str]) -> None:
    exchange = Authentication(Plain("u", "p"), "b:1", attempt=2)
    with pytest.raises(AuthenticationError) as caught:
        exchange.handshaken(response)
    assert type(caught.value) is cls
    for word in ["b:1", "PLAIN", "(attempt 2)", *words]:
        assert word in str(caught.value)


def test_wrong_credentials_are_told_in_the_brokers_words() -> None:
    exchange = Authentication(Plain("u", "p"), "b:1")
    failed = SaslAuthenticateResponse(
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
        error_message="Authentication failed: Invalid username or password",
    )
    with pytest.raises(AuthenticationError) as caught:
        exchange.answered(failed)
    assert "Invalid username or password" in str(caught.value)
    assert "sasl.username" in str(caught.value)
    assert not caught.value.retriable
    bearer = Authentication(OAuthBearer("t"), "b:1")
    with pytest.raises(AuthenticationError, match=r"sasl\.oauth\.token"):
        bearer.answered(failed)


def test_a_broker_that_breaks_the_mechanism() -> None:
    exchange = Authentication(pencil(), "b:1")
    with pytest.raises(AuthenticationError, match="another login"):
        exchange.answered(SaslAuthenticateResponse(auth_bytes=b"r=x,s=W22Z,i=4096"))
