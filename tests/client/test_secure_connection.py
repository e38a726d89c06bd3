"""A connection that shakes hands and logs in, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.connection import MAX_IN_FLIGHT, Connection, Step
from barnabas.client.errors import (
    AuthenticationError,
    CertificateNotTrusted,
    ClientError,
    ClosedError,
    ConnectionLost,
    ConnectTimeout,
    MechanismNotEnabled,
    QueueFull,
    RequestTimeout,
    VersionError,
)
from barnabas.client.security import Security
from barnabas.client.settings import ClientSettings, load
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.heartbeat import HeartbeatResponse
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from barnabas.wire.messages.sasl_handshake import SaslHandshakeResponse
from tests.client.certificates import Certificates
from tests.client.fake_broker import offer, respond
from tests.client.test_connection import HEARTBEAT
from tests.client.tls_server import TlsServer
from tests.client.virtual import VirtualReactor, VirtualStream

PLAIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "me",
    "sasl_password": "secret",
}
OFFERED = (ApiKey.HEARTBEAT, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
HANDSHAKE, AUTHENTICATE, HEART = 17, 36, 12


class Peer:
    """The broker's end of one connection: what was asked in clear text, and answers."""

    def __init__(self, *, attempt: int = 1, **options: Any) -> None:
        self.reactor = VirtualReactor(lambda host, port: self.stream)
        self.stream = VirtualStream(self.reactor)
        self.opened: list[ClientError | None] = []
        self.closed: list[ClientError] = []
        self.answers: list[tuple[Any, ClientError | None]] = []
        self.clear = bytearray()
        settings = load(ClientSettings, {"request_timeout_ms": 10_000, **options})
        self.connection = Connection(
            "localhost",
            9092,
            settings,
            self.reactor,
            opened=self.opened.append,
            closed=self.closed.append,
            attempt=attempt,
            security=Security(settings),
        )
        self.connection.open()
        self.reactor.settle()

    def asked(self) -> list[tuple[int, int, int, bytes]]:
        """Key, version, correlation id and frame of what was sent since the last call."""
        self.clear += self.stream.sent
        self.stream.sent.clear()
        found = []
        while self.clear:
            size = int.from_bytes(self.clear[:4], "big")
            frame = bytes(self.clear[4 : 4 + size])
            del self.clear[: 4 + size]
            key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
            found.append((key, version, int.from_bytes(frame[4:8], "big"), frame))
        return found

    def answer(self, response: Any, key: int) -> bytes:
        ((asked, version, correlation_id, frame),) = self.asked()
        assert asked == key
        self.stream.receive(respond(response, version, correlation_id))
        self.reactor.settle()
        return frame

    def log_in(self, lifetime_ms: int = 0) -> Peer:
        self.answer(offer(*OFFERED), ApiKey.API_VERSIONS)
        self.answer(SaslHandshakeResponse(mechanisms=["PLAIN"]), HANDSHAKE)
        frame = self.answer(SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms), AUTHENTICATE)
        assert b"\0me\0secret" in frame
        return self

    def beat(self) -> None:
        self.connection.send(HEARTBEAT, 4, lambda *it: self.answers.append(it))
        self.reactor.settle()


def test_nothing_else_is_sent_before_the_login() -> None:
    peer = Peer(**PLAIN)
    assert peer.connection.step == Step.NEGOTIATING
    peer.answer(offer(*OFFERED), ApiKey.API_VERSIONS)
    assert peer.connection.step == Step.AUTHENTICATING
    assert peer.opened == []
    peer.answer(SaslHandshakeResponse(mechanisms=["PLAIN"]), HANDSHAKE)
    assert peer.opened == []
    peer.answer(SaslAuthenticateResponse(), AUTHENTICATE)
    assert peer.opened == [None]
    assert peer.connection.ready
    peer.reactor.advance(10**6)
    assert peer.asked() == []


@pytest.mark.parametrize(
    ("response", "cause"),
    [
        (
            SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM),
            MechanismNotEnabled,
        ),
        (SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE), AuthenticationError),
    ],
)
def test_a_login_that_fails_ends_the_connection(response: Any, cause: type[ClientError]) -> None:
    peer = Peer(attempt=2, **PLAIN)
    peer.answer(offer(*OFFERED), ApiKey.API_VERSIONS)
    peer.answer(response, HANDSHAKE)
    (error,) = peer.opened
    assert type(error) is cause
    assert "localhost:9092" in str(error)
    assert "(attempt 2)" in str(error)
    assert peer.stream.closed
    assert peer.closed == []


def test_a_broker_without_sasl() -> None:
    peer = Peer(**PLAIN)
    peer.answer(offer(ApiKey.HEARTBEAT), ApiKey.API_VERSIONS)
    assert isinstance(peer.opened[0], VersionError)


def test_a_login_without_an_answer() -> None:
    peer = Peer(**PLAIN)
    peer.answer(offer(*OFFERED), ApiKey.API_VERSIONS)
    peer.reactor.advance(11)
    assert isinstance(peer.opened[0], RequestTimeout)
    assert "its SASL handshake" in str(peer.opened[0])


def test_a_session_is_renewed_in_time_and_requests_wait_for_that() -> None:
    peer = Peer(**PLAIN).log_in(lifetime_ms=10_000)
    assert peer.connection.ready
    peer.beat()
    ((_, _, first, _),) = peer.asked()
    peer.reactor.advance(8.4)
    assert peer.asked() == []
    peer.reactor.advance(1.2)
    ((key, version, again, _),) = peer.asked()
    assert (key, version) == (HANDSHAKE, 1)
    peer.beat()
    peer.beat()
    assert peer.asked() == []
    assert peer.connection.in_flight == 4
    beating = HeartbeatResponse()
    peer.stream.receive(respond(beating, 4, first))
    assert [error for _, error in peer.answers] == [None]
    peer.stream.receive(respond(SaslHandshakeResponse(mechanisms=["PLAIN"]), 1, again))
    peer.reactor.settle()
    peer.answer(SaslAuthenticateResponse(session_lifetime_ms=10_000), AUTHENTICATE)
    sent = peer.asked()
    assert [key for key, *_ in sent] == [HEART, HEART]
    for _, version, correlation_id, _ in sent:
        peer.stream.receive(respond(beating, version, correlation_id))
    assert [error for _, error in peer.answers] == [None] * 3
    assert peer.opened == [None]
    assert peer.closed == []
    peer.reactor.advance(9.6)
    assert [key for key, *_ in peer.asked()] == [HANDSHAKE]


def test_a_renewal_that_fails_is_told_to_all_who_wait() -> None:
    peer = Peer(**PLAIN).log_in(lifetime_ms=1_000)
    peer.reactor.advance(1)
    peer.beat()
    refused = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    peer.answer(refused, HANDSHAKE)
    ((_, told),) = peer.answers
    assert isinstance(told, MechanismNotEnabled)
    assert peer.closed == [told]
    assert peer.opened == [None]


def test_a_connection_that_closes_during_a_renewal() -> None:
    peer = Peer(**PLAIN).log_in(lifetime_ms=1_000)
    peer.reactor.advance(1)
    peer.beat()
    peer.connection.close()
    peer.reactor.settle()
    ((_, told),) = peer.answers
    assert isinstance(told, ClosedError)
    peer.reactor.advance(100)


def test_what_waits_for_a_renewal_is_bounded() -> None:
    peer = Peer(**PLAIN).log_in(lifetime_ms=1_000)
    peer.reactor.advance(1)
    for _ in range(MAX_IN_FLIGHT):
        peer.connection.send(HEARTBEAT, 4, lambda *it: peer.answers.append(it))
    peer.reactor.settle()
    ((_, told),) = peer.answers
    assert isinstance(told, QueueFull)


def test_a_token_that_comes_after_the_connection_was_closed() -> None:
    waiting: list[Any] = []

    class Slow(VirtualReactor):
        async def call_user(self, function: Any, *args: Any) -> Any:
            waiting.append(self.future())
            return await waiting[0]

    options = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token": lambda: "t",
    }
    peer = Peer(**options)
    slow = Slow()
    peer.connection._reactor.call_user = slow.call_user  # type: ignore[method-assign]
    peer.answer(offer(*OFFERED), ApiKey.API_VERSIONS)
    peer.connection.close()
    waiting[0].set_result("t")
    peer.reactor.settle()
    assert len(peer.opened) == 1
    assert peer.asked() == []


def test_a_token_that_never_comes() -> None:
    class Never(VirtualReactor):
        async def call_user(self, function: Any, *args: Any) -> Any:
            return await self.future()

    peer = Peer(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token=lambda: "t",
    )
    peer.connection._reactor.call_user = Never().call_user  # type: ignore[method-assign]
    peer.answer(offer(*OFFERED), ApiKey.API_VERSIONS)
    peer.reactor.advance(9)
    assert peer.opened == []
    peer.reactor.advance(2)
    (error,) = peer.opened
    assert isinstance(error, RequestTimeout)
    assert "sasl.oauth.token" in str(error)
    assert peer.stream.closed


def test_a_listener_that_demands_a_login_is_guessed() -> None:
    peer = Peer()
    peer.answer(offer(ApiKey.HEARTBEAT), ApiKey.API_VERSIONS)
    peer.beat()
    peer.stream.end()
    ((_, told),) = peer.answers
    assert isinstance(told, ConnectionLost)
    assert "demands authentication" in str(told)


def test_a_listener_that_answered_before_is_not() -> None:
    peer = Peer()
    peer.answer(offer(ApiKey.HEARTBEAT), ApiKey.API_VERSIONS)
    peer.beat()
    peer.answer(HeartbeatResponse(), HEART)
    peer.beat()
    peer.stream.end()
    assert "demands authentication" not in str(peer.answers[1][1])


# -- TLS


def test_tls_comes_before_everything(certificates: Certificates) -> None:
    peer = Peer(security_protocol="SSL", ssl_ca_location=certificates.authority)
    assert peer.connection.step == Step.SECURING
    server = TlsServer(peer.stream, certificates.server_context())
    for _ in range(10):
        peer.stream.receive(server.turn())
        peer.reactor.settle()
    assert peer.connection.step == Step.NEGOTIATING
    (size,) = {int.from_bytes(server.got[:4], "big")}
    assert len(server.got) == 4 + size
    correlation_id = int.from_bytes(server.got[8:12], "big")
    server.to_send += respond(offer(ApiKey.HEARTBEAT), 4, correlation_id)
    peer.stream.receive(server.turn())
    peer.reactor.settle()
    assert peer.opened == [None]
    peer.connection.close()
    server.turn()
    assert server.goodbye
    assert peer.stream.closed


def test_a_handshake_that_fails_is_explained(certificates: Certificates) -> None:
    peer = Peer(security_protocol="SSL", ssl_ca_location=certificates.stranger, attempt=3)
    server = TlsServer(peer.stream, certificates.server_context())
    peer.stream.receive(server.turn())
    peer.reactor.settle()
    (error,) = peer.opened
    assert isinstance(error, CertificateNotTrusted)
    assert "localhost:9092" in str(error)
    assert "(attempt 3)" in str(error)
    assert peer.stream.closed


def test_a_handshake_that_never_ends(certificates: Certificates) -> None:
    peer = Peer(security_protocol="SSL", ssl_ca_location=certificates.authority)
    peer.reactor.advance(9)
    assert peer.opened == []
    peer.reactor.advance(2)
    (error,) = peer.opened
    assert isinstance(error, ConnectTimeout)
    assert "did not finish the TLS handshake within 10000 ms" in str(error)
    assert peer.stream.closed


def test_a_connection_closed_during_the_handshake(certificates: Certificates) -> None:
    peer = Peer(security_protocol="SSL", ssl_ca_location=certificates.authority)
    peer.connection.close()
    peer.reactor.advance(100)
    assert [type(error) for error in peer.opened] == [ClosedError]
    assert peer.stream.closed


@pytest.mark.parametrize(
    ("attempt", "limit_ms"), [(1, 10_000), (2, 20_000), (3, 30_000), (9, 30_000)]
)
def test_each_attempt_is_given_more_time(attempt: int, limit_ms: int) -> None:
    peer = Peer(attempt=attempt, security_protocol="PLAINTEXT")
    failure = peer.connection._connect_failure(TimeoutError())
    assert f"within {limit_ms} ms" in str(failure)
