"""TLS as a stream over a stream, and the context that a client's options describe.

`TlsStream` has the interface of the stream below it and adds `handshake`. OpenSSL works on two
memory buffers: what came from the peer and is not decrypted yet, and what is encrypted and not sent
yet. Nothing here waits; everything moves when the stream below is readable or writable.

Three things need care, because what is readable is no longer the same as what the socket says:

- Bytes may be decrypted, or may wait to be, while the socket has nothing more. `recv_into` therefore
  fills the caller's buffer as far as it can: less than a full buffer means that nothing is left. When
  a reader stops although there is more, it is called again by `call_soon`, as a socket that is
  still readable would do.
- What was encrypted cannot be taken back. `send` takes new bytes only when everything before them
  was accepted below, so at most `MOST_AT_ONCE` bytes wait here, and back-pressure arrives at the caller.
- A failure of the stream below that nobody's call can raise is kept, and raised by the next call;
  the reader is told to make one.

`close` says goodbye to the peer and lets what was sent before go out, for at most `LINGER_S`.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from barnabas.client.errors import (
    CertificateNotTrusted,
    ClientCertificateRefused,
    ConnectionFailure,
    ConnectionLost,
    HostNameMismatch,
    OptionError,
    PlaintextPeer,
    TlsError,
)
from barnabas.client.reactor import Timer
from barnabas.client.security_options import TLS_VERSIONS, SecuritySettings
from barnabas.seams import Buffer, Stream

RECEIVE_BYTES = 64 * 1024
MOST_AT_ONCE = 256 * 1024
LINGER_S = 5.0

_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)

HandshakeDone = Callable[[OSError | None], object]


class Scheduler(Protocol):
    """What a TLS stream needs of a reactor."""

    def now(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer: ...

    def call_soon(self, callback: Callable[[], object]) -> None: ...


class TlsStream:
    """The client's side of TLS on `stream`, which belongs to this object from now on."""

    def __init__(
        self,
        stream: Stream,
        context: ssl.SSLContext,
        server_hostname: str | None,
        scheduler: Scheduler,
    ) -> None:
        self.local_address = stream.local_address
        self.peer_address = stream.peer_address
        self._stream = stream
        self._scheduler = scheduler
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_hostname=server_hostname
        )
        self._scratch = memoryview(bytearray(RECEIVE_BYTES))
        self._sealed = memoryview(b"")
        self._established = False
        self._handshake_done: HandshakeDone | None = None
        self._reader: Callable[[], object] | None = None
        self._writer: Callable[[], object] | None = None
        self._starved = True
        self._ended = False
        self._broken: OSError | None = None
        self._again_due = False
        self._closed = False
        self._linger: Timer | None = None

    @property
    def version(self) -> str | None:
        """The version of TLS that was agreed on."""
        return self._tls.version()

    # -- the handshake

    def handshake(self, done: HandshakeDone) -> None:
        """Begin it; `done(None)` or `done(error)` is called once, and not before this returns.

        An error is OpenSSL's or the stream's; `explain` makes sentences of it.
        """
        assert self._handshake_done is None
        assert not self._established
        self._handshake_done = done
        self._stream.on_readable(self._readable)
        self._scheduler.call_soon(self._go_on)

    def _go_on(self) -> None:
        """As much of the handshake as is possible now."""
        if self._handshake_done is None or self._closed:
            return
        try:
            while True:
                try:
                    self._tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    self._flush()
                    if not self._fill():
                        return
            self._flush()
        except OSError as error:
            self._say_why()
            self._finish_handshake(error)
            return
        self._established = True
        self._starved = False
        self._finish_handshake(None)

    def _say_why(self) -> None:
        """The alert that tells the peer, if it still listens."""
        try:
            self._flush()
        except OSError:
            pass

    def _finish_handshake(self, error: OSError | None) -> None:
        done, self._handshake_done = self._handshake_done, None
        assert done is not None
        if error is not None:
            self._broken = error
        self.on_readable(self._reader)
        done(error)

    # -- receiving

    def recv_into(self, buffer: memoryview, /) -> int:
        room = len(buffer)
        count = 0
        while count < room and self._broken is None and not self._ended and self._established:
            try:
                got: int = self._tls.read(room - count, buffer[count:])  # type: ignore[assignment]
            except ssl.SSLWantReadError:
                self._starved = True
                try:
                    self._flush()
                    if not self._fill():
                        break
                except OSError as error:
                    self._broken = error
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                self._ended = True
            except OSError as error:
                self._broken = error
            else:
                count += got
                self._ended = self._ended or got == 0
        if count:
            return count
        if self._broken is not None:
            raise self._broken
        if self._ended:
            return 0
        raise BlockingIOError

    def _fill(self) -> bool:
        """Take in what the stream has; False when that is nothing."""
        try:
            count = self._stream.recv_into(self._scratch)
        except (BlockingIOError, InterruptedError):
            return False
        if count:
            self._incoming.write(self._scratch[:count])
        else:
            self._incoming.write_eof()
        self._starved = False
        return True

    def on_readable(self, callback: Callable[[], object] | None, /) -> None:
        self._reader = callback
        if self._closed or self._handshake_done is not None:
            return
        self._stream.on_readable(None if callback is None else self._readable)
        self._call_again_if_more()

    def _readable(self) -> None:
        if self._handshake_done is not None:
            self._go_on()
        elif self._reader is not None:
            try:
                self._reader()
            finally:
                self._call_again_if_more()

    def _has_more(self) -> bool:
        if self._broken is not None or self._ended:
            return True
        return not self._starved and bool(self._tls.pending() or self._incoming.pending)

    def _call_again_if_more(self) -> None:
        if self._again_due or self._reader is None or not self._has_more():
            return
        self._again_due = True
        self._scheduler.call_soon(self._again)

    def _again(self) -> None:
        self._again_due = False
        if not self._closed and self._has_more():
            self._readable()

    # -- sending

    def send(self, data: Buffer, /) -> int:
        if self._broken is not None:
            raise self._broken
        if not self._established or not self._flush():
            raise BlockingIOError
        try:
            count = self._tls.write(memoryview(data)[:MOST_AT_ONCE])
        except ssl.SSLWantReadError:
            raise BlockingIOError from None
        self._flush()
        return count

    def sendmsg(self, buffers: Sequence[Buffer], more: bool, /) -> int:
        taken: list[Buffer] = []
        room = MOST_AT_ONCE
        for buffer in buffers:
            taken.append(buffer if len(buffer) <= room else memoryview(buffer)[:room])
            room -= len(taken[-1])
            if not room:
                break
        return self.send(taken[0] if len(taken) == 1 else b"".join(taken))

    def sendfile(self, fileno: int, position: int, count: int, /) -> int:
        data = os.pread(fileno, min(count, MOST_AT_ONCE), position)
        return self.send(data) if data else 0

    def _flush(self) -> bool:
        """Hand encrypted bytes to the stream; False when some must wait."""
        while self._sealed or self._outgoing.pending:
            if not self._sealed:
                self._sealed = memoryview(self._outgoing.read())
            try:
                count = self._stream.send(self._sealed)
            except (BlockingIOError, InterruptedError):
                self._stream.on_writable(self._writable)
                return False
            self._sealed = self._sealed[count:]
        if self._writer is None:
            self._stream.on_writable(None)
        return True

    def on_writable(self, callback: Callable[[], object] | None, /) -> None:
        self._writer = callback
        if self._closed:
            return
        wanted = callback is not None or bool(self._sealed)
        self._stream.on_writable(self._writable if wanted else None)

    def _writable(self) -> None:
        try:
            flushed = self._flush()
        except OSError as error:
            self._stream.on_writable(None)
            if self._handshake_done is not None:
                self._finish_handshake(error)
            elif self._closed:
                self._end()
            else:
                self._broken = self._broken or error
                self._call_again_if_more()
            return
        if not flushed:
            return
        if self._closed:
            self._end()
        elif self._established and self._writer is not None:
            self._writer()

    # -- the end

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._reader = self._writer = None
        self._handshake_done = None
        self._stream.on_readable(None)
        if self._established and self._broken is None:
            try:
                self._tls.unwrap()
            except OSError:
                pass  # the peer's goodbye is not waited for
        try:
            if not self._flush():
                when = self._scheduler.now() + LINGER_S
                self._linger = self._scheduler.call_at(when, self._end)
                return
        except OSError:
            pass
        self._end()

    def _end(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        self._stream.on_writable(None)
        self._stream.close()


# -- what an error means

_HOST_CODES = (62, 63, 64)  # host name, e-mail, IP address mismatch
_PLAINTEXT = (
    *("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"),
    "RECORD_LAYER_FAILURE",
)
_CLIENT_CERTIFICATE = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")


def explain(address: str, error: OSError, attempt: int) -> ConnectionFailure | None:
    """The cause of a failure of TLS; None for one of the connection itself."""
    if isinstance(error, ssl.SSLCertVerificationError):
        message = error.verify_message.rstrip(".")
        if error.verify_code in _HOST_CODES:
            return HostNameMismatch(address, message, attempt=attempt)
        return CertificateNotTrusted(address, message, attempt=attempt)
    if isinstance(error, ssl.SSLEOFError):
        return ConnectionLost(
            address,
            "the TLS handshake",
            "end of stream",
            attempt=attempt,
            next_step="A listener without TLS ends a connection like this: check the port, or "
            "use security.protocol=PLAINTEXT or SASL_PLAINTEXT.",
        )
    if not isinstance(error, ssl.SSLError):
        return None
    reason = error.reason or str(error)
    if reason in _PLAINTEXT:
        return PlaintextPeer(address, "it answers in plain text", attempt=attempt)
    words = reason.replace("_", " ").lower()
    if "ALERT" in reason and any(word in reason for word in _CLIENT_CERTIFICATE):
        return ClientCertificateRefused(address, words, attempt=attempt)
    return TlsError(address, words, attempt=attempt)


# -- the context


def make_context(settings: SecuritySettings) -> ssl.SSLContext:
    """What the ssl options describe; OptionError names the one that cannot be used."""
    if settings.ssl_context is not None:
        given: ssl.SSLContext = settings.ssl_context
        return given
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.ssl_endpoint_identification_algorithm == "https"
    _choose_versions(context, settings.ssl_enabled_protocols)
    if settings.ssl_cipher_suites:
        try:
            context.set_ciphers(":".join(settings.ssl_cipher_suites))
        except ssl.SSLError:
            raise OptionError(
                f"ssl.cipher.suites={','.join(settings.ssl_cipher_suites)} names no cipher that "
                "this OpenSSL has.",
                next_step="'openssl ciphers' shows the names.",
            ) from None
    _load_authorities(context, settings)
    _load_certificate(context, settings)
    return context


def _choose_versions(context: ssl.SSLContext, names: Sequence[str]) -> None:
    versions = {name: getattr(ssl.TLSVersion, name.replace(".", "_")) for name in TLS_VERSIONS}
    chosen = [versions[name] for name in names]
    context.minimum_version, context.maximum_version = min(chosen), max(chosen)
    for name, version in versions.items():
        if min(chosen) < version < max(chosen) and version not in chosen:
            context.options |= getattr(ssl, f"OP_NO_{name.replace('.', '_')}")


def _load_authorities(context: ssl.SSLContext, settings: SecuritySettings) -> None:
    inline = settings.ssl_truststore_certificates
    option = "ssl.ca.location" if settings.ssl_ca_location else "ssl.truststore.location"
    place = settings.ssl_ca_location or settings.ssl_truststore_location
    if inline is None and place is None:
        context.load_default_certs()
        return
    try:
        if inline is not None:
            option = "ssl.truststore.certificates"
            context.load_verify_locations(cadata=_pem(inline))
        elif place is not None and Path(place).is_dir():
            for file in sorted(Path(place).iterdir()):
                if file.suffix in (".pem", ".crt", ".cer"):
                    context.load_verify_locations(file)
        else:
            context.load_verify_locations(place)
    except (ssl.SSLError, ValueError):
        raise OptionError(
            f"{option}{'' if place is None else '=' + place} holds no certificate in PEM form.",
            next_step="It begins with -----BEGIN CERTIFICATE-----.",
        ) from None
    except OSError as error:
        raise OptionError(f"{option}={place} cannot be read: {error.strerror}.") from None


def _load_certificate(context: ssl.SSLContext, settings: SecuritySettings) -> None:
    chain, key = settings.ssl_keystore_certificate_chain, settings.ssl_keystore_key
    if chain and key:
        with tempfile.TemporaryDirectory(prefix="barnabas-tls-") as directory:
            # OpenSSL reads these from files only; nobody else can look into this directory.
            file = Path(directory) / "client.pem"
            file.write_text(f"{_pem(key)}\n{_pem(chain)}\n")
            _load_chain(context, settings, "ssl.keystore.certificate.chain", str(file), None)
    elif settings.ssl_certificate_location:
        certificate = settings.ssl_certificate_location
        _load_chain(
            context, settings, "ssl.certificate.location", certificate, settings.ssl_key_location
        )
    elif settings.ssl_keystore_location:
        place = settings.ssl_keystore_location
        _load_chain(context, settings, "ssl.keystore.location", place, None)


def _load_chain(
    context: ssl.SSLContext,
    settings: SecuritySettings,
    option: str,
    certificate: str,
    key: str | None,
) -> None:
    asked = False

    def password() -> str:
        nonlocal asked
        asked = True
        return settings.ssl_key_password or ""

    try:
        context.load_cert_chain(certificate, key, password)
    except ssl.SSLError as error:
        if asked and settings.ssl_key_password is None:
            what = "is encrypted, and ssl.key.password is not set"
        elif asked:
            what = "cannot be decrypted with ssl.key.password"
        elif error.reason == "KEY_VALUES_MISMATCH":
            what = "is not the key of this certificate"
        else:
            what = f"cannot be used ({(error.reason or str(error)).replace('_', ' ').lower()})"
        raise OptionError(
            f"The private key of {option} {what}.",
            next_step="A certificate and its key are needed, both in PEM form.",
        ) from None
    except OSError as error:
        places = certificate if key is None else f"{certificate} or {key}"
        raise OptionError(f"{option}: {places} cannot be read: {error.strerror}.") from None


def _pem(text: str) -> str:
    """PEM text whose line ends may have been lost, as happens in properties files."""
    return _PEM_BLOCK.sub(_wrapped, text)


def _wrapped(block: re.Match[str]) -> str:
    if ":" in block[2]:  # the headers of an encrypted key are lines
        return block[0]
    body = "".join(block[2].split())
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    return "\n".join([f"-----BEGIN {block[1]}-----", *lines, f"-----END {block[1]}-----\n"])
