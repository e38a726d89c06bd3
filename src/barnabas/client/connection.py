"""One connection to one broker: requests out, answers in, and what must happen before the first.

A connection goes through the steps of `Step`, in order: it connects, shakes hands if it is to be
TLS, asks for the versions that the broker offers, says who it is if that is demanded, and is then ready.
Where the broker limits how long it believes that (KIP-368), it says so again before that time is over;
requests that come meanwhile wait. Requests are pipelined, and Kafka answers in the order of the
requests. Every `send` ends in exactly one call of its `done`, with the answer or with the reason why
there is none, and never before `send` returns.

Answers are read into memory of their own; records in them are views of that memory. Bytes are written
at once; what the socket does not take waits, in order, until it does.

Time limits are those of progress: an answer that is arriving is not cut off, and a caller who was
away for long finds what came meanwhile. A broker from which nothing came for the time that a request
may take ends the connection, because every later answer would have to wait as well.

Bounds: `MAX_IN_FLIGHT` requests; the size of an answer is checked before memory is taken for it.
"""

from __future__ import annotations

import enum
import functools
import logging
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any, Final

from barnabas.client.core.versions import BrokerVersions
from barnabas.client.errors import (
    ClientError,
    ClosedError,
    ConnectionFailure,
    ConnectionLost,
    ConnectionRefused,
    ConnectTimeout,
    NameLookupError,
    ProtocolMismatch,
    QueueFull,
    RequestTimeout,
    SerializationError,
    VersionError,
)
from barnabas.client.reactor import Reactor, Timer
from barnabas.client.security import Security
from barnabas.client.settings import ClientSettings
from barnabas.record.kernels import uninitialized
from barnabas.seams import Stream
from barnabas.streams import SocketStream
from barnabas.wire import codec
from barnabas.wire.api_keys import (
    ApiKey,
    request_header_version,
    response_class,
    response_header_version,
)
from barnabas.wire.errors import ErrorCode
from barnabas.wire.header import skip_tagged_fields

logger = logging.getLogger(__name__)

Done = Callable[[Any, ClientError | None], object]
"""`done(response, None)` or `done(None, why_not)`."""

MAX_IN_FLIGHT: Final = 1_000
MAX_RESPONSE_BYTES: Final = 1 << 30
MAX_FIRST_RESPONSE_BYTES: Final = 1 << 20
RECEIVE_BYTES: Final = 64 * 1024
RECEIVED_BYTES_PER_TURN: Final = 16 << 20
SEND_BUFFERS: Final = 512
_SIZE = Struct(">i")
_HEADER = Struct(">ihhih")
_ERROR_CODE = Struct(">h")

_FOREIGN = {
    b"HTTP": "it answers HTTP",
    b"\x15\x03\x01\x00": "it answers a TLS alert",
    b"\x15\x03\x03\x00": "it answers a TLS alert",
    b"\x16\x03\x01\x00": "it speaks TLS",
    b"SSH-": "it is an SSH server",
    b"220 ": "it is a mail or FTP server",
}


class Step(enum.IntEnum):
    """What a connection is doing; it only ever goes on, and from anywhere to CLOSED."""

    NEW = 0
    CONNECTING = 1
    SECURING = 2
    NEGOTIATING = 3
    AUTHENTICATING = 4
    READY = 5
    CLOSED = 6


class Pending:
    """A request that was sent, and how to read its answer."""

    __slots__ = (
        "correlation_id",
        "deadline",
        "done",
        "key",
        "sent_at",
        "timeout_s",
        "version",
        "what",
    )

    def __init__(self, key: ApiKey, version: int, done: Done, timeout_s: float, what: str) -> None:
        self.key = key
        self.version = version
        self.done = done
        self.timeout_s = timeout_s
        self.what = what
        self.correlation_id = -1
        self.sent_at = 0.0
        self.deadline = 0.0


class Connection:
    """`open` starts it; `opened(error)` is called once, when it is ready or when it never will be.
    `closed(error)` is called once, if it was ready and has ended."""

    __slots__ = (
        "_attempt",
        "_client_id",
        "_connecting",
        "_connecting_ms",
        "_correlation_id",
        "_frame",
        "_frame_filled",
        "_heard",
        "_held",
        "_in_flight",
        "_last_progress",
        "_login_timer",
        "_on_closed",
        "_on_opened",
        "_reactor",
        "_scratch",
        "_scratch_end",
        "_security",
        "_settings",
        "_stream",
        "_timer",
        "_unanswered",
        "_unsent",
        "address",
        "host",
        "port",
        "step",
        "versions",
    )

    def __init__(
        self,
        host: str,
        port: int,
        settings: ClientSettings,
        reactor: Reactor,
        *,
        opened: Callable[[ClientError | None], object],
        closed: Callable[[ClientError], object],
        attempt: int = 1,
        security: Security | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.step = Step.NEW
        self.versions = BrokerVersions(self.address, {})
        self._settings = settings
        self._reactor = reactor
        self._on_opened = opened
        self._on_closed = closed
        self._attempt = attempt
        self._security = security
        self._connecting_ms = min(
            settings.socket_connection_setup_timeout_ms << min(attempt - 1, 20),
            settings.socket_connection_setup_timeout_max_ms,
        )
        self._client_id = settings.client_id.encode()
        self._correlation_id = 0
        self._stream: Stream | None = None
        self._connecting: Timer | None = None
        self._timer: Timer | None = None
        self._login_timer: Timer | None = None
        self._heard = False
        self._held: deque[tuple[Callable[[], object], Done]] | None = None
        self._in_flight: deque[Pending] = deque()
        self._unsent: deque[memoryview] = deque()
        self._unanswered: deque[tuple[int, Done]] = deque()
        self._scratch = bytearray(RECEIVE_BYTES)
        self._scratch_end = 0
        self._frame: bytearray | None = None
        self._frame_filled = 0
        self._last_progress = 0.0

    @property
    def ready(self) -> bool:
        return self.step == Step.READY

    @property
    def in_flight(self) -> int:
        return len(self._in_flight) + (len(self._held) if self._held else 0)

    # -- opening

    def open(self) -> None:
        assert self.step == Step.NEW
        self.step = Step.CONNECTING
        limit_s = self._connecting_ms / 1000
        self._connecting = self._reactor.connect(self.host, self.port, limit_s, self._connected)

    def _connected(self, stream: Stream | None, error: OSError | None) -> None:
        self._connecting = None
        if self.step == Step.CLOSED:
            if stream is not None:
                stream.close()
            return
        if stream is None:
            assert error is not None
            self._fail(self._connect_failure(error))
            return
        if isinstance(stream, SocketStream):
            settings = self._settings
            stream.set_buffers(settings.send_buffer_bytes, settings.receive_buffer_bytes)
        if self._security is not None and self._security.uses_tls:
            self.step = Step.SECURING
            when = self._reactor.now() + self._connecting_ms / 1000
            self._connecting = self._reactor.call_at(when, self._handshake_timed_out)
            secured = self._security.wrap(stream, self.host, self._reactor)
            self._stream = secured
            secured.handshake(self._secured)
        else:
            self._stream = stream
            self._begin()

    def _secured(self, error: OSError | None) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if error is None:
            self._begin()
        else:
            self._lost(error, "the TLS handshake")

    def _handshake_timed_out(self) -> None:
        self._connecting = None
        self._fail(
            ConnectTimeout(
                self.address,
                self._connecting_ms,
                attempt=self._attempt,
                did_not="finish the TLS handshake",
            )
        )

    def _begin(self) -> None:
        """The first bytes of Kafka's protocol."""
        assert self._stream is not None
        self._last_progress = self._reactor.now()
        self._stream.on_readable(self._readable)
        self.step = Step.NEGOTIATING
        from barnabas.wire.messages.api_versions import ApiVersionsRequest

        self._negotiate(ApiVersionsRequest.VERSIONS[1])

    def _connect_failure(self, error: OSError) -> ConnectionFailure:
        reason = error.strerror or str(error)
        if isinstance(error, socket.gaierror):
            return NameLookupError(self.host, self.port, reason, attempt=self._attempt)
        if isinstance(error, TimeoutError):
            return ConnectTimeout(self.address, self._connecting_ms, attempt=self._attempt)
        if isinstance(error, ConnectionRefusedError):
            return ConnectionRefused(self.address, attempt=self._attempt)
        return ConnectionFailure(
            f"{self.address} could not be connected to: {reason}.",
            address=self.address,
            attempt=self._attempt,
            next_step="Check the address and the route to it.",
        )

    def _negotiate(self, version: int) -> None:
        from barnabas.wire.messages.api_versions import ApiVersionsRequest

        request = ApiVersionsRequest(
            client_software_name="barnabas", client_software_version=_software_version()
        )

        def done(response: Any, error: ClientError | None) -> None:
            if error is None:
                self._negotiated(version, response)

        self._send(request, version, done, None, "its API versions")

    def _negotiated(self, asked: int, response: Any) -> None:
        offered = {
            entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys
        }
        if response.error_code != ErrorCode.NONE:
            highest = offered.get(ApiKey.API_VERSIONS, (0, 0))[1]
            if response.error_code == ErrorCode.UNSUPPORTED_VERSION and highest < asked:
                self._negotiate(highest)
            else:
                detail = f"answered error {response.error_code}"
                self._fail(VersionError(self.address, "API_VERSIONS", detail))
            return
        versions = BrokerVersions(self.address, offered)
        versions.supported_features = {
            f.name: (f.min_version, f.max_version) for f in response.supported_features
        }
        versions.finalized_features = {
            f.name: (f.min_version_level, f.max_version_level) for f in response.finalized_features
        }
        versions.finalized_features_epoch = response.finalized_features_epoch
        self.versions = versions
        if self._security is not None and self._security.uses_sasl:
            self.step = Step.AUTHENTICATING
            self._begin_login(self._security)
        else:
            self._become_ready()

    @property
    def _logs_in(self) -> bool:
        return self._security is not None and self._security.uses_sasl

    def _become_ready(self) -> None:
        self.step = Step.READY
        self._heard = False
        self._on_opened(None)

    # -- saying who we are

    def _begin_login(self, security: Security) -> None:
        """Where a token must be fetched first, that may take as long as a request."""
        limit_s = self._settings.request_timeout_ms / 1000
        when = self._reactor.now() + limit_s
        self._login_timer = self._reactor.call_at(when, self._token_timed_out)
        self._reactor.spawn(self._log_in(security))

    def _token_timed_out(self) -> None:
        limit_ms = self._settings.request_timeout_ms
        self._fail(RequestTimeout(f"sasl.oauth.token to give one for {self.address}", limit_ms))

    async def _log_in(self, security: Security) -> None:
        """The first time before anything else is sent; again while requests are held back."""
        from barnabas.client.login import log_in

        try:
            lifetime_ms = await log_in(self, security, self._reactor, self._attempt)
        except ClientError as error:
            self._fail(error)
            return
        if self.step == Step.CLOSED:
            return
        if lifetime_ms:
            # Early enough for the exchange itself, and not for all connections at once.
            part = 0.85 + 0.1 * self._reactor.random()
            when = self._reactor.now() + lifetime_ms * part / 1000
            self._login_timer = self._reactor.call_at(when, self._log_in_again)
        if self.step == Step.AUTHENTICATING:
            self._become_ready()
            return
        held, self._held = self._held, None
        for send, _ in held or ():
            send()

    def _log_in_again(self) -> None:
        assert self.step == Step.READY
        assert self._security is not None
        self._login_timer = None
        self._held = deque()
        self._begin_login(self._security)

    async def ask(self, request: Any, version: int, what: str) -> Any:
        """The answer to a request that belongs to the login, which does not wait for it."""
        future = self._reactor.future()

        def done(response: Any, error: ClientError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(response)
            else:
                future.set_exception(error)

        if self.step == Step.CLOSED:
            raise ClosedError(f"The connection to {self.address} is closed.")
        if self._login_timer is not None:
            self._login_timer.cancel()
            self._login_timer = None
        self._send(request, version, done, None, what)
        return await future

    # -- requests

    def send(
        self,
        request: Any,
        version: int,
        done: Done,
        *,
        timeout_ms: float | None = None,
        answered: bool = True,
        what: str | None = None,
    ) -> None:
        """Write a request. `answered=False` is a Produce with acks=0: done once it was written."""
        if self.step != Step.READY:
            error = ClosedError(f"The connection to {self.address} is closed.")
            self._reactor.call_soon(lambda: done(None, error))
            return
        if self.in_flight >= MAX_IN_FLIGHT:
            full = QueueFull(f"{MAX_IN_FLIGHT} requests to {self.address} await their answers.")
            self._reactor.call_soon(lambda: done(None, full))
            return
        if self._held is not None:
            send = functools.partial(
                self.send,
                request,
                version,
                done,
                timeout_ms=timeout_ms,
                answered=answered,
                what=what,
            )
            self._held.append((send, done))
            return
        try:
            self._send(request, version, done, timeout_ms, what, answered)
        except codec.EncodeError as error:
            refused = self._inexpressible(request, version, error)
            self._reactor.call_soon(lambda: done(None, refused))

    def _inexpressible(self, request: Any, version: int, error: Exception) -> ClientError:
        """An older version lacks what was asked for; else a value is wrong."""
        if version < type(request).VERSIONS[1]:
            detail = f"is spoken up to version {version} there, which lacks something: {error}"
            return VersionError(self.address, ApiKey(type(request).API_KEY).name, detail)
        return SerializationError(
            f"{type(request).__name__} cannot be sent to {self.address}: {error}."
        )

    def _send(
        self,
        request: Any,
        version: int,
        done: Done,
        timeout_ms: float | None,
        what: str | None,
        answered: bool = True,
    ) -> None:
        key = ApiKey(type(request).API_KEY)
        client_id = self._client_id
        chunks: list[Any] = [b""]
        codec.writer(type(request), version)(request, chunks)
        flexible = request_header_version(key, version) >= 2
        self._correlation_id = correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        size = sum(map(len, chunks)) + _HEADER.size - 4 + len(client_id) + flexible
        front = _HEADER.pack(size, key, version, correlation_id, len(client_id))
        chunks[0] = front + client_id + b"\0" if flexible else front + client_id
        limit_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        pending = Pending(key, version, done, limit_ms / 1000, what or f"the answer to {key.name}")
        pending.correlation_id = correlation_id
        pending.sent_at = now = self._reactor.now()
        pending.deadline = now + pending.timeout_s
        if answered:
            if not self._in_flight:
                self._last_progress = now
            self._in_flight.append(pending)
            if self._timer is None:
                self._timer = self._reactor.call_at(pending.deadline, self._check_time)
        self._write(chunks, size + 4)
        if not answered:
            if self._unsent:
                self._unanswered.append((len(self._unsent), done))
            elif self.step != Step.CLOSED:
                self._reactor.call_soon(lambda: done(None, None))

    def _write(self, chunks: list[Any], size: int) -> None:
        if self._unsent:
            self._unsent.extend(map(memoryview, chunks))
            return
        assert self._stream is not None
        try:
            if size <= RECEIVE_BYTES or len(chunks) > SEND_BUFFERS:
                chunks = [b"".join(chunks)]
                sent = self._stream.send(chunks[0])
            else:
                sent = self._stream.sendmsg(chunks, False)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._end_soon(error)
            return
        if sent == size:
            return
        for chunk in chunks:
            length = len(chunk)
            if sent >= length:
                sent -= length
            else:
                self._unsent.append(memoryview(chunk)[sent:])
                sent = 0
        self._stream.on_writable(self._writable)

    def _writable(self) -> None:
        stream, unsent = self._stream, self._unsent
        if stream is None:
            return
        try:
            while unsent:
                buffers = [unsent[i] for i in range(min(len(unsent), SEND_BUFFERS))]
                sent = stream.sendmsg(buffers, False)
                self._last_progress = self._reactor.now()
                while unsent and sent >= len(unsent[0]):
                    sent -= len(unsent.popleft())
                    if self._unanswered:
                        self._count_written()
                if sent:
                    unsent[0] = unsent[0][sent:]
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lost(error)
            return
        stream.on_writable(None)

    def _count_written(self) -> None:
        """One more chunk was written; who waits for that alone is told when all of theirs were."""
        waiting = self._unanswered
        for index, (left, done) in enumerate(waiting):
            waiting[index] = (left - 1, done)
        while waiting and waiting[0][0] <= 0:
            self._reactor.call_soon(partial(waiting.popleft()[1], None, None))

    # -- answers

    def _readable(self) -> None:
        try:
            self._receive()
        except (BlockingIOError, InterruptedError):
            pass
        except (OSError, EOFError) as error:
            self._lost(error if isinstance(error, OSError) else None)
        except ClientError as error:
            self._fail(error)
        except BaseException:
            # Half an answer was taken in; the rest cannot be understood any more.
            self._fail(ClosedError(f"The connection to {self.address} was interrupted."))
            raise

    def _receive(self) -> None:
        received = 0
        while received < RECEIVED_BYTES_PER_TURN and self._stream is not None:
            frame = self._frame
            if frame is None:
                view = memoryview(self._scratch)[self._scratch_end :]
                room = len(view)
                count = self._stream.recv_into(view)
                if count == 0:
                    raise EOFError
                received += count
                self._last_progress = self._reactor.now()
                self._scratch_end += count
                self._split()
                if count < room:
                    return
            else:
                count = self._stream.recv_into(memoryview(frame)[self._frame_filled :])
                if count == 0:
                    raise EOFError
                received += count
                self._last_progress = self._reactor.now()
                self._frame_filled += count
                if self._frame_filled == len(frame):
                    self._frame = None
                    self._answer(frame)

    def _split(self) -> None:
        """Answers out of what was received; the beginning of a large one gets memory of its own."""
        scratch, position, end = self._scratch, 0, self._scratch_end
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(scratch, position)
            limit = MAX_RESPONSE_BYTES if self.versions.ranges else MAX_FIRST_RESPONSE_BYTES
            if not 4 <= size <= limit:
                head = bytes(scratch[position : position + 4])
                raise ProtocolMismatch(self.address, _describe_foreign(head, size))
            position += 4
            held = end - position
            if held < size:
                frame = uninitialized(size)
                frame[:held] = memoryview(scratch)[position:end]
                self._frame, self._frame_filled = frame, held
                position = end
                break
            frame = scratch[position : position + size]
            position += size
            self._answer(frame)
            if self._stream is None:
                return
        rest = end - position
        if rest and position:
            scratch[:rest] = scratch[position:end]
        self._scratch_end = rest

    def _answer(self, frame: bytearray) -> None:
        (correlation_id,) = _SIZE.unpack_from(frame, 0)
        if not self._in_flight:
            raise ProtocolMismatch(self.address, "it answers what was not asked")
        pending = self._in_flight.popleft()
        self._heard = True
        if correlation_id != pending.correlation_id:
            self._in_flight.appendleft(pending)
            raise ProtocolMismatch(
                self.address,
                f"it answered request {correlation_id} when {pending.correlation_id} was due",
            )
        key, version = pending.key, pending.version
        if (
            key == ApiKey.API_VERSIONS
            and version > 0
            and len(frame) >= 6
            and _ERROR_CODE.unpack_from(frame, 4)[0] == ErrorCode.UNSUPPORTED_VERSION
        ):
            version = 0
        size = len(frame)
        view = memoryview(frame)
        try:
            position = 4
            if response_header_version(key, version) >= 1:
                position = skip_tagged_fields(view, position, size)
            response, _ = codec.reader(response_class(key), version)(view, position, size)
        except (codec.DecodeError, IndexError) as error:
            self._in_flight.appendleft(pending)
            raise ProtocolMismatch(
                self.address, f"its answer to {key.name} v{version} is malformed ({error})"
            ) from None
        self._call(pending.done, response, None)

    @staticmethod
    def _call(done: Done, response: Any, error: ClientError | None) -> None:
        try:
            done(response, error)
        except Exception:
            logger.exception("What follows an answer failed")

    # -- time

    def _check_time(self) -> None:
        self._timer = None
        now = self._reactor.now()
        earliest = None
        for pending in self._in_flight:
            # The answers before it may take their time as long as something comes.
            deadline = max(pending.deadline, self._last_progress + pending.timeout_s)
            if deadline <= now:
                self._time_out(pending)
                return
            earliest = deadline if earliest is None else min(earliest, deadline)
        if earliest is not None:
            self._timer = self._reactor.call_at(earliest, self._check_time)

    def _time_out(self, pending: Pending) -> None:
        waited_for = f"{pending.what} from {self.address}"
        error = RequestTimeout(waited_for, int(pending.timeout_s * 1000))
        self._in_flight.remove(pending)
        self._fail(error)
        self._call(pending.done, None, error)

    # -- the end

    def _end_soon(self, error: OSError) -> None:
        """A failed write is told like a failed read: not before the call returns."""
        self._reactor.call_soon(lambda: self._lost(error))

    def _lost(self, error: OSError | None, waited_for: str | None = None) -> None:
        cause = None
        if error is not None and self._security is not None and self.step != Step.READY:
            cause = self._security.explain(self.address, error, self._attempt)
        if cause is None:
            reason = "end of stream" if error is None else (error.strerror or str(error))
            if waited_for is None:
                waited_for = self._in_flight[0].what if self._in_flight else "nothing"
            cause = ConnectionLost(self.address, waited_for, reason, attempt=self._attempt)
            if self.step == Step.READY and not self._heard and not self._logs_in:
                cause = ConnectionLost(
                    *(self.address, waited_for, reason),
                    attempt=self._attempt,
                    next_step="A listener that demands authentication does this "
                    "(security.protocol=SASL_PLAINTEXT or SASL_SSL); the broker's log may say why.",
                )
        self._fail(cause)

    def close(self) -> None:
        """End it here. Requests in flight are told so."""
        self._fail(ClosedError(f"The connection to {self.address} is closed."))

    def _fail(self, error: ClientError) -> None:
        before = self.step
        if before == Step.CLOSED:
            return
        self.step = Step.CLOSED
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        for timer in (self._timer, self._login_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._login_timer = None
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
        self._unsent.clear()
        self._frame = None
        pending, self._in_flight = self._in_flight, deque()
        unanswered, self._unanswered = self._unanswered, deque()
        if before == Step.READY:
            self._on_closed(error)
        else:
            self._on_opened(error)
        for each in pending:
            told = error
            if type(error) is RequestTimeout:
                reason = "another request to it was not answered in time"
                told = ConnectionLost(self.address, each.what, reason, attempt=self._attempt)
            self._call(each.done, None, told)
        held, self._held = self._held, None
        for _, done in (*unanswered, *(held or ())):
            self._call(done, None, error)


def _describe_foreign(head: bytes, size: int) -> str:
    for start, description in _FOREIGN.items():
        if head.startswith(start[:2]) if start[:1] in b"\x15\x16" else head == start:
            return description
    return f"its answer claims to be {size} bytes long"


def _software_version() -> str:
    import barnabas

    return getattr(barnabas, "__version__", "0")
