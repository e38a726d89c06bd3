"""One blocking connection to one broker: frames, correlation, versions, time limits.

Requests may be pipelined: `send` returns at once, `receive` gives the answers in the order in which
the requests went out, which is the order Kafka guarantees. `request` does both. A connection is used
by one thread at a time; `request` takes a lock, so that a heartbeat thread may share one with the
caller. Reading and writing are plain socket calls with a deadline, so Ctrl-C interrupts them.

A response is read into a buffer of its own and records in it are views of that buffer.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import deque
from typing import Any

from barnabas.client.core.versions import BrokerVersions
from barnabas.client.errors import (
    ClosedError,
    ConnectionFailure,
    ConnectionLost,
    ConnectionRefused,
    ConnectTimeout,
    NameLookupError,
    OptionError,
    ProtocolMismatch,
    RequestTimeout,
    VersionError,
)
from barnabas.client.settings import ClientSettings
from barnabas.wire import codec
from barnabas.wire.api_keys import (
    ApiKey,
    request_header_version,
    response_class,
    response_header_version,
)
from barnabas.wire.errors import ErrorCode

MAX_RESPONSE_BYTES = 1 << 30
MAX_FIRST_RESPONSE_BYTES = 1 << 20
_SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">ihhih")

_FOREIGN = {
    b"HTTP": "it answers HTTP",
    b"\x15\x03\x01\x00": "it answers a TLS alert",
    b"\x15\x03\x03\x00": "it answers a TLS alert",
    b"\x16\x03\x01\x00": "it speaks TLS",
    b"SSH-": "it is an SSH server",
    b"220 ": "it is a mail or FTP server",
}


class Pending:
    """A request that was sent: what its answer must be decoded as."""

    __slots__ = ("context", "correlation_id", "key", "name", "sent_at", "version")

    def __init__(self, correlation_id: int, key: ApiKey, version: int, context: Any) -> None:
        self.correlation_id = correlation_id
        self.key = key
        self.version = version
        self.context = context
        self.name = key.name
        self.sent_at = time.monotonic()


class Connection:
    """`connect` opens it and asks for the broker's versions; any failure leaves it closed."""

    def __init__(self, host: str, port: int, settings: ClientSettings, *, attempt: int = 1) -> None:
        self.host = host
        self.port = port
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.settings = settings
        self.attempt = attempt
        self.lock = threading.Lock()
        self.pending: deque[Pending] = deque()
        self.versions = BrokerVersions(self.address, {})
        self.closed = False
        self.last_used_at = time.monotonic()
        self._client_id = settings.client_id.encode()
        self._correlation_id = 0
        self._socket: socket.socket | None = None
        self._head = bytearray(4)
        self._frame: bytearray | None = None
        self._filled = 0

    # -- opening and closing

    def connect(self) -> None:
        if self.settings.security_protocol != "PLAINTEXT":
            raise OptionError(
                f"security.protocol={self.settings.security_protocol} is not supported here yet."
            )
        self._socket = self._open()
        self._negotiate()

    def _open(self) -> socket.socket:
        limit_ms = self.settings.socket_connection_setup_timeout_ms
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except OSError as error:
            reason = error.strerror or str(error)
            raise NameLookupError(self.host, self.port, reason, attempt=self.attempt) from None
        failure: ConnectionFailure | None = None
        for family, kind, protocol, _name, place in found:
            opened = socket.socket(family, kind, protocol)
            try:
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self.settings.send_buffer_bytes > 0:
                    size = self.settings.send_buffer_bytes
                    opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
                if self.settings.receive_buffer_bytes > 0:
                    size = self.settings.receive_buffer_bytes
                    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
                opened.settimeout(limit_ms / 1000)
                opened.connect(place)
                return opened
            except BaseException as error:
                opened.close()
                if not isinstance(error, OSError):
                    raise
                failure = self._connect_failure(error, limit_ms)
        assert failure is not None
        raise failure

    def _connect_failure(self, error: OSError, limit_ms: int) -> ConnectionFailure:
        if isinstance(error, TimeoutError):
            return ConnectTimeout(self.address, limit_ms, attempt=self.attempt)
        if isinstance(error, ConnectionRefusedError):
            return ConnectionRefused(self.address, attempt=self.attempt)
        return ConnectionFailure(
            f"{self.address} could not be connected to: {error.strerror or error}.",
            address=self.address,
            attempt=self.attempt,
            next_step="Check the address and the route to it.",
        )

    def _negotiate(self) -> None:
        from barnabas.wire.messages.api_versions import ApiVersionsRequest

        request = ApiVersionsRequest(
            client_software_name="barnabas", client_software_version=_software_version()
        )
        version = ApiVersionsRequest.VERSIONS[1]
        while True:
            response = self.request(request, version=version, what="its API versions")
            offered = {
                entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys
            }
            if response.error_code == ErrorCode.NONE:
                break
            highest = offered.get(ApiKey.API_VERSIONS, (0, 0))[1]
            if response.error_code != ErrorCode.UNSUPPORTED_VERSION or highest >= version:
                self.close()
                raise VersionError(
                    self.address, "API_VERSIONS", f"answered error {response.error_code}"
                )
            version = highest
        versions = BrokerVersions(self.address, offered)
        versions.supported_features = {
            f.name: (f.min_version, f.max_version) for f in response.supported_features
        }
        versions.finalized_features = {
            f.name: (f.min_version_level, f.max_version_level) for f in response.finalized_features
        }
        versions.finalized_features_epoch = response.finalized_features_epoch
        self.versions = versions

    def close(self) -> None:
        self.closed = True
        opened, self._socket = self._socket, None
        if opened is not None:
            opened.close()

    def fileno(self) -> int:
        if self._socket is None:
            raise ClosedError(f"The connection to {self.address} is closed.")
        return self._socket.fileno()

    # -- requests

    def choose_version(self, request: Any, highest: int | None = None) -> int:
        low, high = type(request).VERSIONS
        if highest is not None:
            high = min(high, highest)
        return self.versions.choose(type(request).API_KEY, low, high)

    def request(
        self,
        request: Any,
        *,
        version: int | None = None,
        highest: int | None = None,
        timeout_ms: float | None = None,
        what: str | None = None,
    ) -> Any:
        """Send one request and wait for its answer."""
        limit_ms = self.settings.request_timeout_ms if timeout_ms is None else timeout_ms
        with self.lock:
            if version is None:
                version = self.choose_version(request, highest)
            sent = self.send(request, version)
            deadline = time.monotonic() + limit_ms / 1000
            while True:
                answer = self.receive(deadline, what)
                if answer is None:
                    self.close()
                    waited_for = f"{what or sent.name} from {self.address}"
                    raise RequestTimeout(waited_for, int(limit_ms))
                if answer[0] is sent:
                    return answer[1]

    def send(
        self, request: Any, version: int, context: Any = None, *, answered: bool = True
    ) -> Pending:
        """Write one request; `answered=False` is a Produce with acks=0."""
        key = ApiKey(type(request).API_KEY)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        client_id = self._client_id
        chunks: list[Any] = [b"", client_id]
        if request_header_version(key, version) >= 2:
            chunks.append(b"\x00")
        codec.writer(type(request), version)(request, chunks)
        size = sum(map(len, chunks)) + 10
        chunks[0] = _HEADER.pack(size, key, version, self._correlation_id, len(client_id))
        sent = Pending(self._correlation_id, key, version, context)
        self._write(chunks, sent)
        self.last_used_at = sent.sent_at
        if answered:
            self.pending.append(sent)
        return sent

    def _write(self, chunks: list[Any], sent: Pending) -> None:
        opened = self._socket
        if opened is None:
            raise ClosedError(f"The connection to {self.address} is closed.")
        try:
            opened.settimeout(self.settings.request_timeout_ms / 1000)
            if len(chunks) < 8 and sum(map(len, chunks)) > 65_536:
                self._write_apart(opened, chunks)
            else:
                opened.sendall(b"".join(chunks))
        except BaseException as error:
            self.close()
            if isinstance(error, TimeoutError):
                limit_ms = self.settings.request_timeout_ms
                raise RequestTimeout(f"{self.address} to accept {sent.name}", limit_ms) from None
            if isinstance(error, OSError):
                raise self._lost(f"the answer to {sent.name}", error) from None
            raise

    def _write_apart(self, opened: socket.socket, chunks: list[Any]) -> None:
        """Large records go out as they are; only the small parts around them are joined."""
        gathered: list[Any] = []
        for chunk in chunks:
            if len(chunk) < 16_384:
                gathered.append(chunk)
                continue
            if gathered:
                opened.sendall(b"".join(gathered))
                gathered = []
            opened.sendall(chunk)
        if gathered:
            opened.sendall(b"".join(gathered))

    def _lost(self, waiting_for: str, error: OSError | None) -> ConnectionFailure:
        reason = "end of stream" if error is None else (error.strerror or str(error))
        return ConnectionLost(self.address, waiting_for, reason, attempt=self.attempt)

    # -- answers

    def receive(self, deadline: float, what: str | None = None) -> tuple[Pending, Any] | None:
        """The next answer, or None when `deadline` (monotonic seconds) passes first."""
        opened = self._socket
        if opened is None:
            raise ClosedError(f"The connection to {self.address} is closed.")
        if not self.pending:
            raise AssertionError("receive without a request that awaits an answer")
        try:
            while True:
                remaining = deadline - time.monotonic()
                opened.settimeout(max(remaining, 0.0) or 0.0005)
                try:
                    if self._fill(opened):
                        break
                except TimeoutError:
                    return None
        except (OSError, EOFError) as error:
            oldest = self.pending[0].name if self.pending else "an answer"
            self.close()
            cause = error if isinstance(error, OSError) else None
            raise self._lost(what or f"the answer to {oldest}", cause) from None
        except ProtocolMismatch:
            self.close()
            raise
        return self._decode()

    def receive_available(self) -> list[tuple[Pending, Any]]:
        """The answers that can be read without waiting (for callers that watch several sockets)."""
        answers: list[tuple[Pending, Any]] = []
        opened = self._socket
        if opened is None:
            raise ClosedError(f"The connection to {self.address} is closed.")
        try:
            opened.settimeout(0.0)
            while self.pending and self._fill(opened):
                answers.append(self._decode())
        except (BlockingIOError, InterruptedError):
            pass
        except (OSError, EOFError) as error:
            oldest = self.pending[0].name if self.pending else "an answer"
            self.close()
            if answers:
                return answers
            cause = error if isinstance(error, OSError) else None
            raise self._lost(f"the answer to {oldest}", cause) from None
        return answers

    def _fill(self, opened: socket.socket) -> bool:
        """Read once; True when a whole frame is there."""
        if self._frame is None:
            count = opened.recv_into(memoryview(self._head)[self._filled :])
            if count == 0:
                raise EOFError
            self._filled += count
            if self._filled < 4:
                return False
            (size,) = _SIZE.unpack(self._head)
            limit = MAX_RESPONSE_BYTES if self.versions.ranges else MAX_FIRST_RESPONSE_BYTES
            if not 4 <= size <= limit:
                raise ProtocolMismatch(self.address, _describe_foreign(bytes(self._head), size))
            self._frame = bytearray(size)
            self._filled = 0
            return False
        count = opened.recv_into(memoryview(self._frame)[self._filled :])
        if count == 0:
            raise EOFError
        self._filled += count
        return self._filled == len(self._frame)

    def _decode(self) -> tuple[Pending, Any]:
        frame, self._frame, self._filled = self._frame, None, 0
        assert frame is not None
        sent = self.pending.popleft()
        (correlation_id,) = _SIZE.unpack_from(frame, 0)
        if correlation_id != sent.correlation_id:
            self.close()
            raise ProtocolMismatch(
                self.address,
                f"it answered request {correlation_id} when {sent.correlation_id} was due",
            )
        version = sent.version
        view = memoryview(frame)
        if (
            sent.key == ApiKey.API_VERSIONS
            and version > 0
            and len(frame) >= 6
            and int.from_bytes(frame[4:6], "big") == ErrorCode.UNSUPPORTED_VERSION
        ):
            version = 0
        try:
            position = 4
            if response_header_version(sent.key, version) >= 1:
                position = _skip_tags(frame, position)
            message, _ = codec.reader(response_class(sent.key), version)(view, position, len(frame))
        except (codec.DecodeError, IndexError) as error:
            self.close()
            raise ProtocolMismatch(
                self.address, f"its answer to {sent.name} v{version} is malformed ({error})"
            ) from None
        return sent, message


def _skip_tags(frame: bytearray, position: int) -> int:
    count, position = _varint(frame, position)
    for _ in range(count):
        _, position = _varint(frame, position)
        size, position = _varint(frame, position)
        position += size
    return position


def _varint(frame: bytearray, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift <= 28:
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise codec.DecodeError("a varint of more than five bytes")


def _describe_foreign(head: bytes, size: int) -> str:
    for start, description in _FOREIGN.items():
        if head.startswith(start[:2]) if start[:1] in b"\x15\x16" else head == start:
            return description
    return f"its answer claims to be {size} bytes long"


def _software_version() -> str:
    import barnabas

    return getattr(barnabas, "__version__", "0")
