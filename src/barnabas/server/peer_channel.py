"""One connection to another node: requests out, answers in.

The other node is asked first which versions it speaks; a request then goes in the highest version
that both know. Requests are pipelined, since a peer answers in order, and answers are matched by
their correlation id. A request that is sent while there is no connection waits for one: the first
makes it, and after a failure the next attempt waits a little longer than the last, with jitter.

Every `send` ends in exactly one call of its `done`: with the answer, or with the reason why there
is none. A request that is not answered in time ends the connection, as everything behind it would
wait for the same peer. Answers are read where they were received: the records of a Fetch are views
of the frame and are never copied here.

Bounds: `MAX_IN_FLIGHT` requests on the connection, `MAX_WAITING` before it; more are refused at
once. What a peer sends is checked; what cannot be understood ends the connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from barnabas.server.connection import Connection, ConnectionSettings, Environment
from barnabas.wire import codec
from barnabas.wire.api_keys import (
    ApiKey,
    request_class,
    request_header_version,
    response_class,
    response_header_version,
)
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.header import skip_tagged_fields
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from barnabas.delayed.timer import Timeout
    from barnabas.seams import Address, Randomness, Stream, Transport
    from barnabas.wire.message import Message

logger = logging.getLogger(__name__)

Done = Callable[[Any, Exception | None], object]
"""`done(response, None)` or `done(None, why_not)`."""

MAX_IN_FLIGHT: Final = 100
MAX_WAITING: Final = 1_000
MAX_RESPONSE_BYTES: Final = 512 * 1024 * 1024
BACKOFF_MS: Final = 50
BACKOFF_MAX_MS: Final = 500
SETUP_TIMEOUT_MS: Final = 5_000
_SOFTWARE_NAME = "barnabas"
_SOFTWARE_VERSION = "1"
_FRONT = Struct(">ihhih")
_CORRELATION = Struct(">i").unpack_from
_ERROR_CODE = Struct(">h").unpack_from
_API_VERSIONS = (0, 4)


class PeerUnreachable(Exception):
    """There is no connection, or it ended before the answer."""


class PeerTimeout(PeerUnreachable):
    """The peer did not answer in time."""


class _Request:
    __slots__ = ("correlation_id", "done", "key", "max_version", "message", "timer", "version")

    def __init__(self, key: ApiKey, message: Message, done: Done, max_version: int | None) -> None:
        self.key = key
        self.message = message
        self.done: Done | None = done
        self.max_version = max_version
        self.version = -1
        self.correlation_id = -1
        self.timer: Timeout | None = None

    def end(self, response: Message | None, error: Exception | None) -> None:
        done, self.done = self.done, None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if done is None:
            return
        try:
            done(response, error)
        except Exception:
            logger.exception("What follows the answer to %s failed", self.key.name)


class PeerChannel:
    """`address` is where the peer is; `closed` channels refuse everything."""

    def __init__(
        self,
        address: Address,
        *,
        environment: Environment,
        transport: Transport,
        randomness: Randomness,
        client_id: str,
        max_idle_ms: int = 0,
    ) -> None:
        self.address = address
        self.closed = False
        self.versions: dict[int, tuple[int, int]] | None = None
        self._environment = environment
        self._transport = transport
        self._randomness = randomness
        self._client_id = client_id.encode()
        self._settings = ConnectionSettings(
            max_request_bytes=MAX_RESPONSE_BYTES, max_idle_ms=max_idle_ms
        )
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._setup_timer: Timeout | None = None
        self._backoff_timer: Timeout | None = None
        self._failures = 0
        self._correlation_id = 0
        self._waiting: deque[_Request] = deque()
        self._in_flight: dict[int, _Request] = {}
        self._negotiating: int | None = None

    @property
    def connected(self) -> bool:
        return self.versions is not None

    @property
    def busy(self) -> bool:
        return bool(self._in_flight)

    @property
    def requests_open(self) -> int:
        return len(self._in_flight) + len(self._waiting)

    # Requests

    def send(
        self,
        key: ApiKey,
        request: Message,
        done: Done,
        *,
        timeout_ms: int,
        max_version: int | None = None,
    ) -> None:
        """Ask the peer. `done` is called once, never before this returns."""
        pending = _Request(key, request, done, max_version)
        if self.closed or len(self._waiting) >= MAX_WAITING:
            why = "the channel is closed" if self.closed else "too many requests wait for it"
            self._environment.loop.call_soon(
                pending.end, None, PeerUnreachable(f"{self._name()}: {why}")
            )
            return
        pending.timer = self._environment.wheel.add(timeout_ms, lambda: self._expired(pending))
        self._waiting.append(pending)
        if self.versions is not None:
            self._send_waiting()
        else:
            self._connect()

    def close(self) -> None:
        """End the connection and everything that waits. Idempotent."""
        if self.closed:
            return
        self.closed = True
        self._cancel_timers()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.close("closed here")
        self._fail_all(PeerUnreachable(f"{self._name()}: the channel is closed"))

    def _send_waiting(self) -> None:
        versions = self.versions
        while self._waiting and versions is not None and len(self._in_flight) < MAX_IN_FLIGHT:
            pending = self._waiting.popleft()
            if pending.done is None:
                continue
            version = _common_version(pending, versions)
            if version is None:
                self._end_soon(
                    pending,
                    ApiError(
                        ErrorCode.UNSUPPORTED_VERSION,
                        f"{self._name()} does not serve {pending.key.name} as it is needed",
                    ),
                )
                continue
            try:
                self._write(pending, version)
            except Exception as error:
                self._end_soon(pending, error)
            versions = self.versions

    def _end_soon(self, pending: _Request, error: Exception) -> None:
        self._environment.loop.call_soon(pending.end, None, error)

    def _write(self, pending: _Request, version: int) -> None:
        assert self._connection is not None
        chunks: list[Any] = [b""]
        codec.writer(type(pending.message), version)(pending.message, chunks)
        flexible = request_header_version(pending.key, version) == 2
        self._correlation_id = correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        size = sum(map(len, chunks)) + _FRONT.size - 4 + len(self._client_id) + flexible
        chunks[0] = (
            _FRONT.pack(size, pending.key, version, correlation_id, len(self._client_id))
            + self._client_id
            + (b"\0" if flexible else b"")
        )
        pending.version, pending.correlation_id = version, correlation_id
        self._in_flight[correlation_id] = pending
        self._connection.write(chunks, size + 4, pending)

    def _expired(self, pending: _Request) -> None:
        pending.timer = None
        error = PeerTimeout(f"{self._name()} did not answer {pending.key.name} in time")
        in_flight = self._in_flight.pop(pending.correlation_id, None) is pending
        if not in_flight and pending in self._waiting:
            self._waiting.remove(pending)
        pending.end(None, error)
        if in_flight and self._connection is not None:
            self._connection.close("a request was not answered in time")

    # The connection

    def _connect(self) -> None:
        if (
            self._connecting is None
            and self._connection is None
            and self._backoff_timer is None
            and not self.closed
        ):
            wheel = self._environment.wheel
            self._setup_timer = wheel.add(SETUP_TIMEOUT_MS, self._setup_expired)
            self._connecting = self._environment.loop.create_task(self._open())

    async def _open(self) -> None:
        try:
            stream = await self._transport.connect(*self.address)
        except asyncio.CancelledError:
            self._connecting = None
            if not self.closed:
                self._failed("it did not accept the connection in time")
            return
        except OSError as error:
            self._connecting = None
            self._failed(error.strerror or str(error) or type(error).__name__)
            return
        self._connecting = None
        if self.closed:
            stream.close()
            return
        self._begin(stream)

    def _begin(self, stream: Stream) -> None:
        self._connection = Connection(stream, self._environment, self._settings)
        self._connection.start(self)
        self._negotiate(_API_VERSIONS[1])

    def _negotiate(self, version: int) -> None:
        self._negotiating = version
        request = ApiVersionsRequest(
            client_software_name=_SOFTWARE_NAME, client_software_version=_SOFTWARE_VERSION
        )
        self._write(_Request(ApiKey.API_VERSIONS, request, _nothing, None), version)

    def _setup_expired(self) -> None:
        self._setup_timer = None
        if self._connecting is not None:
            self._connecting.cancel()
        elif self._connection is not None and self.versions is None:
            self._connection.close("it did not tell its versions in time")

    def _failed(self, reason: str) -> None:
        """There is no connection, or no longer: whatever waited is told, the next try waits."""
        was_ready = self.versions is not None
        self.versions = None
        self._negotiating = None
        self._cancel_timers()
        self._failures = 0 if was_ready else min(self._failures + 1, 16)
        longest = min(BACKOFF_MAX_MS, BACKOFF_MS << self._failures)
        delay_ms = longest // 2 + self._randomness.randrange(longest // 2 + 1)
        if not self.closed:
            self._backoff_timer = self._environment.wheel.add(delay_ms, self._backoff_ended)
        self._fail_all(PeerUnreachable(f"{self._name()}: {reason}"))

    def _backoff_ended(self) -> None:
        self._backoff_timer = None
        if self._waiting:
            self._connect()

    def _cancel_timers(self) -> None:
        for timer in (self._setup_timer, self._backoff_timer):
            if timer is not None:
                timer.cancel()
        self._setup_timer = self._backoff_timer = None

    def _fail_all(self, error: Exception) -> None:
        failed = [*self._in_flight.values(), *self._waiting]
        self._in_flight.clear()
        self._waiting.clear()
        for pending in failed:
            pending.end(None, error)

    def _name(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    # What the connection tells

    def on_frame(self, view: memoryview, start: int, end: int, received_ns: int) -> None:
        try:
            if end - start < 4:
                raise ValueError("an answer has no room for its header")
            (correlation_id,) = _CORRELATION(view, start)
            pending = self._in_flight.pop(correlation_id, None)
            if pending is None:
                raise ValueError(f"an answer has the correlation id {correlation_id}")
            if pending.key == ApiKey.API_VERSIONS and self._negotiating is not None:
                self._negotiated(view, start + 4, end)
                return
        except Exception as error:
            self._misunderstood(error)
            return
        try:
            position = start + 4
            if response_header_version(pending.key, pending.version):
                position = skip_tagged_fields(view, position, end)
            read = codec.reader(response_class(pending.key), pending.version)
            response, position = read(view, position, end)
            if position > end:
                raise ValueError("an answer is shorter than its fields")
        except Exception as error:
            self._misunderstood(error)
            pending.end(None, PeerUnreachable(f"{self._name()}: {error}"))
            return
        pending.end(response, None)
        if self._waiting:
            self._send_waiting()

    def _misunderstood(self, error: Exception) -> None:
        logger.warning("Closing the connection to %s: %s", self._name(), error)
        if self._connection is not None:
            self._connection.close("its answer cannot be read")

    def _negotiated(self, view: memoryview, position: int, end: int) -> None:
        sent, self._negotiating = self._negotiating, None
        assert sent is not None
        code = _ERROR_CODE(view, position)[0] if end - position >= 2 else 0
        refused = code == ErrorCode.UNSUPPORTED_VERSION
        read = codec.reader(ApiVersionsResponse, 0 if refused else sent)
        response, position = read(view, position, end)
        versions = {
            each.api_key: (each.min_version, each.max_version) for each in response.api_keys
        }
        if refused:
            lowest, highest = versions.get(ApiKey.API_VERSIONS, (0, 0))
            version = min(highest, sent - 1)
            if version < lowest:
                raise ValueError("it speaks no common version of ApiVersions")
            self._negotiate(version)
            return
        if code:
            raise ValueError(f"it answered ApiVersions with {ErrorCode.of(code).name}")
        if self._setup_timer is not None:
            self._setup_timer.cancel()
            self._setup_timer = None
        self.versions = versions
        self._send_waiting()

    def on_cut_short(self, received: int, size: int | None) -> None:
        pass  # What waits is told when the connection closes.

    def on_bad_size(self, size: int, first_bytes: bytes) -> None:
        logger.warning("%s announced an answer of %d bytes", self._name(), size)

    def on_sent(self, answers: list[Any], now_ns: int) -> None:
        pass

    def on_closed(self, reason: str) -> None:
        self._connection = None
        if not self.closed:
            self._failed(reason)


def _nothing(response: Message | None, error: Exception | None) -> None:
    pass


def _common_version(pending: _Request, versions: dict[int, tuple[int, int]]) -> int | None:
    """The highest version that both sides know, at most the one that was asked for."""
    theirs = versions.get(pending.key)
    if theirs is None:
        return None
    lowest, highest = request_class(pending.key).VERSIONS
    highest = min(highest, theirs[1])
    if pending.max_version is not None:
        highest = min(highest, pending.max_version)
    return highest if highest >= max(lowest, theirs[0]) else None
