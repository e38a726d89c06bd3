"""TLS as a stream over a stream: fragments, back-pressure, wakeups, ends; contexts from options."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from barnabas.client.errors import (
    CertificateNotTrusted,
    ClientCertificateRefused,
    ConnectionLost,
    HostNameMismatch,
    OptionError,
    PlaintextPeer,
    TlsError,
)
from barnabas.client.pump import Pump
from barnabas.client.settings import ClientSettings, load
from barnabas.client.tls import LINGER_S, MOST_AT_ONCE, TlsStream, explain, make_context
from barnabas.streams import SocketStream
from tests.client.certificates import PASSWORD, Certificates
from tests.client.tls_server import TlsServer
from tests.client.virtual import VirtualReactor, VirtualStream


def context_for(certificates: Certificates, **options: Any) -> ssl.SSLContext:
    given = {"security_protocol": "SSL", "ssl_ca_location": certificates.authority, **options}
    return make_context(load(ClientSettings, given))


class Pair:
    """A client's TLS stream and its server, in virtual time; bytes come in pieces of `piece`."""

    def __init__(
        self,
        certificates: Certificates,
        *,
        piece: int = 1 << 20,
        server: Any = None,
        **options: Any,
    ) -> None:
        self.reactor = VirtualReactor()
        self.below = VirtualStream(self.reactor)
        context = context_for(certificates, **options)
        self.stream = TlsStream(self.below, context, "localhost", self.reactor)
        self.server = TlsServer(self.below, server or certificates.server_context())
        self.piece = piece
        self.finished: list[OSError | None] = []
        self.received = bytearray()
        self.ended = False
        self.buffer = 10_000

    def exchange(self) -> None:
        """Everything that both ends have to say to each other."""
        for _ in range(1_000):
            self.reactor.settle()
            said = self.server.turn()
            if not said and not self.below.sent:
                return
            for at in range(0, len(said), self.piece):
                self.below.receive(said[at : at + self.piece])
        raise AssertionError("they never stop talking")

    def shake(self) -> Pair:
        self.stream.handshake(self.finished.append)
        assert self.finished == []
        self.exchange()
        assert self.finished == [None]
        return self

    def read(self) -> None:
        """A reader that takes one buffer each time it is called."""
        buffer = memoryview(bytearray(self.buffer))
        try:
            count = self.stream.recv_into(buffer)
        except BlockingIOError:
            return
        self.received += buffer[:count]
        if count == 0:
            self.ended = True
            self.stream.on_readable(None)

    def say(self, data: bytes) -> None:
        self.server.to_send += data
        self.exchange()


def test_a_handshake_and_both_directions(certificates: Certificates) -> None:
    pair = Pair(certificates).shake()
    pair.stream.on_readable(pair.read)
    assert pair.stream.send(b"hello") == 5
    assert pair.stream.sendmsg([b"a", bytearray(b"b"), memoryview(b"c")], False) == 3
    pair.say(b"answer")
    assert bytes(pair.server.got) == b"helloabc"
    assert bytes(pair.received) == b"answer"
    assert pair.stream.version == "TLSv1.3"
    assert pair.stream.peer_address == ("there", 2)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@hypothesis_settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    piece=st.integers(1, 3_000),
    buffer=st.integers(1, 70_000),
    sizes=st.lists(st.integers(0, 50_000), min_size=1, max_size=5),
)
def test_fragments_of_any_size_with_any_buffer(
    certificates: Certificates, version: str, piece: int, buffer: int, sizes: list[int]
) -> None:
    """However the bytes come and however few a reader takes at once, all arrive without a new
    wakeup from below."""
    pair = Pair(certificates, piece=piece, ssl_enabled_protocols=[version]).shake()
    assert pair.stream.version == version
    pair.buffer = max(buffer, sum(sizes) // 500 + 1)
    pair.stream.on_readable(pair.read)
    said = b"".join(bytes([number % 256]) * size for number, size in enumerate(sizes))
    pair.say(said)
    assert bytes(pair.received) == said


def test_a_reader_that_comes_later_finds_what_was_decrypted_before(
    certificates: Certificates,
) -> None:
    pair = Pair(certificates).shake()
    pair.buffer = 10

    def once() -> None:
        before = len(pair.received)
        pair.read()
        if len(pair.received) > before:
            pair.stream.on_readable(None)

    pair.stream.on_readable(once)
    pair.say(b"0123456789abcdefghij")
    assert bytes(pair.received) == b"0123456789"
    pair.stream.on_readable(once)
    assert bytes(pair.received) == b"0123456789", "never within the call"
    pair.reactor.settle()
    assert bytes(pair.received) == b"0123456789abcdefghij"


def test_less_than_a_full_buffer_means_that_nothing_is_left(certificates: Certificates) -> None:
    pair = Pair(certificates).shake()
    for part in (b"x" * 20_000, b"y" * 20_000, b"z" * 500):
        pair.server.to_send += part
        pair.below.receive(pair.server.turn())
    buffer = memoryview(bytearray(100_000))
    assert pair.stream.recv_into(buffer) == 40_500
    with pytest.raises(BlockingIOError):
        pair.stream.recv_into(buffer)


def test_back_pressure_reaches_the_sender_and_nothing_is_lost(certificates: Certificates) -> None:
    pair = Pair(certificates).shake()
    data = bytes(range(256)) * 4_096
    position = 0
    pair.below.room = 0

    def write() -> None:
        nonlocal position
        try:
            while position < len(data):
                position += pair.stream.send(data[position:])
        except BlockingIOError:
            pair.stream.on_writable(write)
            return
        pair.stream.on_writable(None)

    write()
    assert 0 < position <= MOST_AT_ONCE
    before = position
    with pytest.raises(BlockingIOError):
        pair.stream.send(b"more")
    assert position == before
    while len(pair.server.got) < len(data):
        pair.below.give_room(100_000)
        pair.exchange()
    assert bytes(pair.server.got) == data
    assert position == len(data)


def test_sendmsg_takes_a_bounded_part(certificates: Certificates) -> None:
    pair = Pair(certificates).shake()
    count = pair.stream.sendmsg([b"x" * 200_000, b"y" * 200_000], False)
    assert count == MOST_AT_ONCE
    pair.exchange()
    assert bytes(pair.server.got) == b"x" * 200_000 + b"y" * (MOST_AT_ONCE - 200_000)


def test_sendfile(certificates: Certificates, tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_bytes(b"0123456789")
    pair = Pair(certificates).shake()
    with place.open("rb") as file:
        assert pair.stream.sendfile(file.fileno(), 2, 5) == 5
        assert pair.stream.sendfile(file.fileno(), 10, 5) == 0
    pair.exchange()
    assert bytes(pair.server.got) == b"23456"


@pytest.mark.parametrize("polite", [True, False])
def test_the_peer_ends(certificates: Certificates, polite: bool) -> None:
    pair = Pair(certificates).shake()
    pair.stream.on_readable(pair.read)
    pair.server.to_send += b"last words"
    said = pair.server.turn()
    if polite:
        with pytest.raises(ssl.SSLWantReadError):
            pair.server.tls.unwrap()
        said += pair.server.outgoing.read()
    pair.below.receive(said)
    pair.below.end()
    pair.reactor.settle()
    assert bytes(pair.received) == b"last words"
    assert pair.ended


def test_close_says_goodbye_and_lets_go_what_was_sent(certificates: Certificates) -> None:
    pair = Pair(certificates).shake()
    pair.below.room = 0
    pair.stream.send(b"z" * 1_000)
    pair.stream.close()
    pair.stream.close()
    assert not pair.below.closed
    pair.below.give_room(100_000)
    pair.exchange()
    assert bytes(pair.server.got) == b"z" * 1_000
    assert pair.server.goodbye
    assert pair.below.closed
    pair.reactor.advance(2 * LINGER_S)


def test_close_does_not_wait_forever(certificates: Certificates) -> None:
    pair = Pair(certificates).shake()
    pair.below.room = 0
    pair.stream.send(b"z")
    pair.stream.close()
    pair.reactor.advance(LINGER_S - 1)
    assert not pair.below.closed
    pair.reactor.advance(2)
    assert pair.below.closed


def test_a_broken_stream_is_told_to_the_reader(certificates: Certificates) -> None:
    pair = Pair(certificates).shake()
    errors: list[OSError] = []

    def read() -> None:
        try:
            pair.stream.recv_into(memoryview(bytearray(10)))
        except BlockingIOError:
            pass
        except OSError as error:
            errors.append(error)
            pair.stream.on_readable(None)

    pair.stream.on_readable(read)
    pair.below.room = 0
    pair.stream.send(b"x")
    broken = ConnectionResetError("gone")

    def refuse(_data: Any) -> int:
        raise broken

    pair.below.send = refuse  # type: ignore[method-assign]
    pair.below.give_room(10)
    pair.reactor.settle()
    assert errors == [broken]
    with pytest.raises(ConnectionResetError):
        pair.stream.send(b"y")


def test_garbage_instead_of_tls_after_the_handshake(certificates: Certificates) -> None:
    pair = Pair(certificates).shake()
    errors: list[OSError] = []

    def read() -> None:
        try:
            pair.stream.recv_into(memoryview(bytearray(10)))
        except OSError as error:
            errors.append(error)
            pair.stream.on_readable(None)

    pair.stream.on_readable(read)
    pair.below.receive(b"\x17\x03\x03\x00\x20" + b"?" * 32)
    pair.reactor.settle()
    assert isinstance(errors[0], ssl.SSLError)
    pair.stream.close()
    assert pair.below.closed


# -- handshakes that fail

Prepare = Callable[[Certificates], dict[str, Any]]


@pytest.mark.parametrize(
    ("prepare", "cls", "words"),
    [
        (lambda c: {"ssl_ca_location": c.stranger}, CertificateNotTrusted, ["ssl.ca.location"]),
        (
            lambda c: {"server": c.server_context("elsewhere")},
            HostNameMismatch,
            ["localhost", "ssl.endpoint.identification.algorithm"],
        ),
        (
            lambda c: {
                "server": older(c.server_context()),
                "ssl_enabled_protocols": "TLSv1.3",
            },
            TlsError,
            ["ssl.enabled.protocols"],
        ),
    ],
)
def test_handshakes_that_fail(
    certificates: Certificates, prepare: Prepare, cls: type[TlsError], words: list[str]
) -> None:
    pair = Pair(certificates, **prepare(certificates))
    pair.stream.handshake(pair.finished.append)
    try:
        pair.exchange()
    except ssl.SSLError:  # the server's own view
        pair.below.receive(pair.server.outgoing.read())
        pair.reactor.settle()
    (error,) = pair.finished
    assert isinstance(error, OSError)
    said = explain("b:9093", error, 2)
    assert type(said) is cls
    for word in ["b:9093", "attempt 2", *words]:
        assert word in str(said)
    pair.stream.close()
    assert pair.below.closed


def older(context: ssl.SSLContext) -> ssl.SSLContext:
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


def test_an_empty_algorithm_does_not_look_at_the_name(certificates: Certificates) -> None:
    server = certificates.server_context("elsewhere")
    Pair(certificates, server=server, ssl_endpoint_identification_algorithm="").shake()


@pytest.mark.parametrize(
    ("greeting", "cls"),
    [(b"HTTP/1.1 400 Bad Request\r\n\r\n", PlaintextPeer), (b"", ConnectionLost)],
)
def test_a_peer_without_tls(certificates: Certificates, greeting: bytes, cls: type) -> None:
    pair = Pair(certificates)
    pair.stream.handshake(pair.finished.append)
    pair.reactor.settle()
    pair.below.receive(greeting)
    pair.below.end()
    pair.reactor.settle()
    (error,) = pair.finished
    assert isinstance(error, OSError)
    said = explain("b:9092", error, 1)
    assert type(said) is cls
    assert "PLAINTEXT" in str(said)


def test_other_failures_are_not_of_tls() -> None:
    assert explain("b:1", ConnectionResetError("gone"), 1) is None


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_server_that_asks_for_a_certificate(certificates: Certificates, version: str) -> None:
    """Under TLS 1.3 the refusal comes after the client's handshake is over."""
    pair = Pair(
        certificates, server=certificates.server_context(ask=True), ssl_enabled_protocols=[version]
    )
    errors: list[OSError] = []

    def read() -> None:
        try:
            pair.stream.recv_into(memoryview(bytearray(10)))
        except BlockingIOError:
            pass
        except OSError as error:
            errors.append(error)
            pair.stream.on_readable(None)

    def done(error: OSError | None) -> None:
        if error is None:
            pair.stream.on_readable(read)
        else:
            errors.append(error)

    pair.stream.handshake(done)
    with pytest.raises(ssl.SSLError):
        pair.exchange()
    pair.below.receive(pair.server.outgoing.read())
    pair.reactor.settle()
    said = explain("b:1", errors[0], 1)
    if version == "TLSv1.3":
        assert isinstance(said, ClientCertificateRefused)
    else:
        assert isinstance(said, TlsError)


@pytest.mark.parametrize(
    "options",
    [
        lambda c: {
            "ssl_certificate_location": c.certificate("client"),
            "ssl_key_location": c.key("client"),
        },
        lambda c: {"ssl_certificate_location": c.both("client")},
        lambda c: {"ssl_keystore_location": c.both("client"), "ssl_keystore_type": "PEM"},
        lambda c: {
            "ssl_certificate_location": c.certificate("locked"),
            "ssl_key_location": c.key("locked"),
            "ssl_key_password": PASSWORD,
        },
        lambda c: {
            "ssl_keystore_certificate_chain": Path(c.certificate("client")).read_text(),
            "ssl_keystore_key": Path(c.key("client")).read_text().replace("\n", " "),
        },
    ],
)
def test_a_clients_certificate_in_all_its_forms(certificates: Certificates, options: Any) -> None:
    asking = certificates.server_context(ask=True)
    pair = Pair(certificates, server=asking, **options(certificates)).shake()
    pair.exchange()
    found = pair.server.tls.getpeercert()
    assert found is not None
    assert found["subject"] == ((("commonName", "client"),),)


@pytest.mark.parametrize(
    "options",
    [
        lambda c: {"ssl_truststore_location": c.authority, "ssl_truststore_type": "PEM"},
        lambda c: {"ssl_truststore_certificates": Path(c.authority).read_text()},
        lambda c: {"ssl_truststore_certificates": Path(c.authority).read_text().replace("\n", " ")},
        lambda c: {"ssl_ca_location": str(c.directory)},
        lambda c: {"ssl_context": ssl.create_default_context(cafile=c.authority)},
    ],
)
def test_trust_in_all_its_forms(certificates: Certificates, options: Any) -> None:
    Pair(certificates, **{"ssl_ca_location": None, **options(certificates)}).shake()


def test_authorities_of_the_operating_system(certificates: Certificates) -> None:
    context = context_for(certificates, ssl_ca_location=None)
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_versions_between_are_left_out(certificates: Certificates) -> None:
    context = context_for(certificates, ssl_enabled_protocols="TLSv1.3,TLSv1.1")
    assert context.minimum_version == ssl.TLSVersion.TLSv1_1
    assert context.maximum_version == ssl.TLSVersion.TLSv1_3
    assert context.options & ssl.OP_NO_TLSv1_2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (lambda c: {"ssl_ca_location": "/no/such.pem"}, "ssl.ca.location=/no/such.pem cannot be r"),
        (lambda c: {"ssl_ca_location": c.key("client")}, "holds no certificate in PEM form"),
        (
            lambda c: {"ssl_ca_location": None, "ssl_truststore_certificates": "nonsense"},
            "ssl.truststore.certificates holds no certificate",
        ),
        (lambda c: {"ssl_cipher_suites": "rot13"}, "ssl.cipher.suites=rot13 names no cipher"),
        (lambda c: {"ssl_certificate_location": "/no.pem"}, "/no.pem cannot be read"),
        (
            lambda c: {"ssl_certificate_location": c.certificate("client")},
            "The private key of ssl.certificate.location cannot be used",
        ),
        (
            lambda c: {
                "ssl_certificate_location": c.certificate("client"),
                "ssl_key_location": c.key("server"),
            },
            "is not the key of this certificate",
        ),
        (
            lambda c: {
                "ssl_certificate_location": c.certificate("locked"),
                "ssl_key_location": c.key("locked"),
            },
            "is encrypted, and ssl.key.password is not set",
        ),
        (
            lambda c: {
                "ssl_certificate_location": c.certificate("locked"),
                "ssl_key_location": c.key("locked"),
                "ssl_key_password": "guess",
            },
            "cannot be decrypted with ssl.key.password",
        ),
    ],
)
def test_files_that_cannot_be_used_are_named(
    certificates: Certificates, options: Any, text: str
) -> None:
    with pytest.raises(OptionError, match=text):
        context_for(certificates, **options(certificates))


# -- on real sockets


def test_an_ordinary_server_over_a_socketpair(certificates: Certificates) -> None:
    """Small socket buffers, a server that blocks, and 4 MB each way at the same time."""
    near, far = socket.socketpair()
    for end in (near, far):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    size = 4 << 20
    heard = bytearray()

    def serve() -> None:
        with certificates.server_context().wrap_socket(far, server_side=True) as tls:
            while len(heard) < size:
                data = tls.recv(10_000)
                heard.extend(data)
                tls.sendall(data.upper())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    pump = Pump()

    async def talk() -> bytes:
        near.setblocking(False)
        stream = TlsStream(
            SocketStream(near, pump.reactor), context_for(certificates), "localhost", pump.reactor
        )
        finished = pump.reactor.future()
        stream.handshake(finished.set_result)
        assert await finished is None
        said = memoryview(b"abcdefgh" * (size // 8))
        back = bytearray()
        sent = 0
        over = pump.reactor.future()

        def write() -> None:
            nonlocal sent
            try:
                while sent < size:
                    sent += stream.send(said[sent:])
            except BlockingIOError:
                return
            stream.on_writable(None)

        def read() -> None:
            buffer = memoryview(bytearray(50_000))
            try:
                back.extend(buffer[: stream.recv_into(buffer)])
            except BlockingIOError:
                return
            if len(back) == size:
                over.set_result(None)

        stream.on_readable(read)
        stream.on_writable(write)
        await over
        stream.close()
        return bytes(back)

    try:
        assert pump.run(talk()) == b"ABCDEFGH" * (size // 8)
    finally:
        pump.close()
    thread.join(30)
    assert not thread.is_alive()
    assert bytes(heard) == b"abcdefgh" * (size // 8)
