"""The requests of one connection: executed in order, answered in order.

A request is handled in the callback that received it. If it is answered at once and nothing before
it waits, its answer goes straight to the connection. Otherwise it takes its place in `_in_flight`
and leaves when everything before it has left; the requests behind it are executed meanwhile.

A handler that is a coroutine becomes a task. The frames behind it wait one round of the loop, so
that the task has begun before they do: the order of execution holds there too.

Too many requests in flight, or too many bytes of them, stop reading (`connection.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Coroutine
from struct import Struct
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from barnabas.api import DEFERRED, DISCONNECT, NO_RESPONSE
from barnabas.seams import Address
from barnabas.server.connection import HOLD_REQUESTS, Connection, ConnectionSettings
from barnabas.server.context import RequestContext
from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.server.pipeline import Pipeline
    from barnabas.server.route import Route

MAX_TASKS = 32
MAX_HEADER_TAGS = 64

_HEADER = Struct(">Iih")
_HEADER_SIZE = _HEADER.size
_unpack_header = _HEADER.unpack_from


class MalformedRequest(Exception):
    """Bytes that are no request. The text tells a person what is wrong with them."""


class Channel:
    """One connection's requests. Also what a handler may know of the connection."""

    __slots__ = (
        "_bytes_in_flight",
        "_clock_ns",
        "_connection",
        "_in_flight",
        "_max_bytes",
        "_max_requests",
        "_node",
        "_pipeline",
        "_routes",
        "_tasks",
        "_write",
        "client_address",
        "client_software_name",
        "client_software_version",
        "closed",
        "listener_name",
        "local_address",
    )

    def __init__(
        self,
        pipeline: Pipeline,
        connection: Connection,
        listener_name: str,
        settings: ConnectionSettings,
    ) -> None:
        self.listener_name = listener_name
        self.client_address: Address = connection.peer_address
        self.local_address: Address = connection.local_address
        self.client_software_name = "unknown"
        self.client_software_version = "unknown"
        self.closed = False
        self._pipeline = pipeline
        self._routes = pipeline.routes
        self._node = pipeline.node
        self._clock_ns = pipeline.clock.monotonic_ns
        self._connection = connection
        self._write = connection.write
        self._max_requests = settings.max_requests_in_flight
        self._max_bytes = settings.max_bytes_in_flight
        self._in_flight: deque[RequestContext] = deque()
        self._bytes_in_flight = 0
        self._tasks = 0

    @property
    def busy(self) -> bool:
        return bool(self._in_flight)

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    # Requests

    def on_frame(self, view: memoryview, start: int, end: int, received_ns: int) -> None:
        position = start + _HEADER_SIZE
        if position > end:
            self._malformed(f"a request of {end - start} bytes has no room for its header")
            return
        key_and_version, correlation_id, length = _unpack_header(view, start)
        route = self._routes.get(key_and_version)
        if route is None:
            route = self._pipeline.find_route(self, key_and_version, correlation_id)
            if route is None:
                return
        try:
            if end - start > route.max_bytes:
                raise MalformedRequest(f"{end - start} bytes are too many without records")
            if length >= 0:
                if length > end - position:
                    raise MalformedRequest(f"its client id has a length of {length}")
                client_id = str(view[position : position + length], "utf-8")
                position += length
            else:
                client_id = None
                if length != -1:
                    raise MalformedRequest(f"its client id has a length of {length}")
            if route.flexible_header:
                if position < end and view[position] == 0:
                    position += 1
                else:
                    position = _skip_tags(view, position, end)
            request, position = route.read(view, position, end)
            # Bytes after the body are passed over, as Kafka does: librdkafka sends some.
            if position > end:
                raise MalformedRequest("it is shorter than its fields")
        except Exception as error:
            self._malformed(
                f"{route.name} version {route.version} cannot be read: {error or type(error)}"
            )
            return
        context = RequestContext(
            self, route, correlation_id, client_id, end - start + 4, received_ns
        )
        route.requests += 1
        context.started_ns = self._clock_ns()
        try:
            answer = route.handle(self._node, context, request)
        except Exception as error:
            answer = self._failed(context, request, error)
        context.local_done_ns = self._clock_ns()
        if answer.__class__ is route.response_class:
            self._encode(context, answer, request)
            self._enqueue(context)
        else:
            self._not_yet(context, answer, request)

    def _not_yet(self, context: RequestContext, answer: object, request: Any) -> None:
        if answer is DEFERRED:
            if not context.answered or context.chunks is not None:
                self._enqueue(context)
        elif answer is NO_RESPONSE:
            context.answered = True
            self._pipeline.sent([context], context.local_done_ns)
        elif answer is DISCONNECT:
            context.answered = True
            self.disconnect(context, "the request failed and asked for no response")
        elif answer.__class__ is CoroutineType:
            self._enqueue(context)
            self._tasks += 1
            if self._tasks >= MAX_TASKS:
                self._connection.hold(HOLD_REQUESTS)
            self._connection.yield_turn()
            self._pipeline.start_task(self._run(context, answer, request))
        else:
            self._pipeline.logger.error("%r gave %r, which is no answer", context, answer)
            self._connection.fail("internal error")

    async def _run(
        self, context: RequestContext, handling: Coroutine[Any, Any, object], request: Any
    ) -> None:
        try:
            try:
                answer = await handling
            except Exception as error:
                answer = self._failed(context, request, error)
        finally:
            self._tasks -= 1
            self._release()
        if answer is DISCONNECT:
            self.disconnect(context, "the request failed and asked for no response")
        elif answer is NO_RESPONSE:
            self._forget(context)
        elif answer is not DEFERRED:
            self.respond(context, answer)

    # Answers

    def respond(self, context: RequestContext, response: object) -> None:
        """The answer to a request that did not get one at once."""
        if context.answered:
            raise RuntimeError(f"{context!r} is answered twice")
        context.responded_ns = self._clock_ns()
        if self.closed:
            context.answered = True
            return
        if not isinstance(response, context.route.response_class):
            self._pipeline.logger.error("%r gave %r, which is no answer", context, response)
            self._connection.fail("internal error")
            return
        self._encode(context, response, None)
        if not context.local_done_ns:
            return
        in_flight = self._in_flight
        if in_flight and in_flight[0] is context:
            self._send_ready()
        else:
            self._bytes_in_flight += context.response_bytes

    def disconnect(self, context: RequestContext, reason: str) -> None:
        context.answered = True
        self._pipeline.sent([context], self._clock_ns())
        self._connection.fail(reason)

    def _encode(self, context: RequestContext, response: Any, request: Any) -> None:
        """Turn the response into chunks. A response that cannot be written is our fault."""
        context.answered = True
        route = context.route
        try:
            chunks: list[Any] = [b""]
            route.write(response, chunks)
            errors = route.nonzero_errors(response)
        except Exception:
            self._pipeline.logger.exception("The answer to %r cannot be written", context)
            try:
                response = route.error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR, None)
                chunks = [b""]
                route.write(response, chunks)
                errors = (int(ErrorCode.UNKNOWN_SERVER_ERROR),)
            except Exception:
                self._connection.fail("internal error")
                return
        size = route.header_bytes + sum(map(len, chunks))
        chunks[0] = route.pack_header(size, context.correlation_id)
        context.chunks = chunks
        context.response_bytes = size + 4
        if errors:
            route.metrics.count_errors(errors)

    def _enqueue(self, context: RequestContext) -> None:
        """Send an answer now if it is its turn, else give the request its place."""
        if self.closed:
            return
        in_flight = self._in_flight
        chunks = context.chunks
        if chunks is not None and not in_flight:
            self._write_out(context, chunks)
            return
        in_flight.append(context)
        self._bytes_in_flight += context.request_bytes
        if chunks is not None:
            self._bytes_in_flight += context.response_bytes
        if len(in_flight) >= self._max_requests or self._bytes_in_flight >= self._max_bytes:
            self._connection.hold(HOLD_REQUESTS)

    def _write_out(self, context: RequestContext, chunks: list[Any]) -> None:
        context.chunks = None
        if context.responded_ns:
            context.queued_ns = self._clock_ns()
        if context.throttle_ms > 0:
            self._connection.throttle(context.throttle_ms)
        self._write(chunks, context.response_bytes, context)

    def _send_ready(self, *, first: bool = True) -> None:
        """Send every answer whose turn it is. All but the first have been counted as held."""
        in_flight = self._in_flight
        while in_flight:
            context = in_flight[0]
            if context.chunks is None:
                break
            in_flight.popleft()
            self._bytes_in_flight -= context.request_bytes
            if not first:
                self._bytes_in_flight -= context.response_bytes
                if not context.responded_ns:
                    context.responded_ns = context.local_done_ns
            first = False
            self._write_out(context, context.chunks)
        self._release()

    def _forget(self, context: RequestContext) -> None:
        """Take a request that turned out to need no answer out of the order."""
        context.answered = True
        if context in self._in_flight:
            self._in_flight.remove(context)
            self._bytes_in_flight -= context.request_bytes
            self._send_ready(first=False)

    def _release(self) -> None:
        if (
            len(self._in_flight) <= self._max_requests // 2
            and self._bytes_in_flight <= self._max_bytes // 2
            and self._tasks <= MAX_TASKS // 2
        ):
            self._connection.release(HOLD_REQUESTS)

    def close(self, reason: str) -> None:
        self._connection.close(reason)

    # Failures

    def _failed(self, context: RequestContext, request: Any, error: Exception) -> object:
        """What to answer when a handler raised."""
        if isinstance(error, ApiError):
            code, message = error.code, error.message
        else:
            code, message = ErrorCode.UNKNOWN_SERVER_ERROR, None
            self._pipeline.logger.error("%r failed", context, exc_info=error)
        try:
            response = context.route.error_response(request, code, message)
        except Exception:
            self._pipeline.logger.exception("%r has no answer for %s", context, code.name)
            response = None
        if response is None:
            context.route.metrics.count_errors((int(code),))
            return DISCONNECT
        return response

    def _malformed(self, what: str) -> None:
        self._pipeline.peers.complain(self, what)
        self._connection.fail("malformed request")

    def refuse(self, what: str) -> None:
        """Close the connection of a peer that asks for what is not served."""
        self._malformed(what)

    def answer_raw(self, chunks: list[Any], size: int, correlation_id: int, route: Route) -> None:
        """Send an answer that no handler made."""
        context = RequestContext(self, route, correlation_id, None, 0, self._clock_ns())
        context.started_ns = context.local_done_ns = context.received_ns
        context.answered = True
        context.chunks = chunks
        context.response_bytes = size
        self._enqueue(context)

    # What the connection tells

    def on_bad_size(self, size: int, first_bytes: bytes) -> None:
        self._pipeline.peers.complain_of_size(self, size, first_bytes)

    def on_cut_short(self, received: int, size: int | None) -> None:
        if size is None:
            what = f"it ended after {received} of the 4 bytes of a request's size"
        else:
            what = f"it ended after {received} of the {size} bytes of a request"
        self._pipeline.peers.complain(self, what)

    def on_sent(self, answers: list[Any], now_ns: int) -> None:
        self._pipeline.sent(answers, now_ns)

    def on_closed(self, reason: str) -> None:
        self.closed = True
        self._in_flight.clear()
        self._bytes_in_flight = 0
        self._pipeline.closed(self, reason)


def _skip_tags(view: memoryview, position: int, end: int) -> int:
    """Where the tagged fields of a header end. None are known, so all are skipped."""
    count, position = _varint(view, position, end)
    if count > MAX_HEADER_TAGS:
        raise MalformedRequest(f"its header has {count} tagged fields")
    for _ in range(count):
        _, position = _varint(view, position, end)
        size, position = _varint(view, position, end)
        if size > end - position:
            raise MalformedRequest(f"a tagged field of its header has {size} bytes")
        position += size
    return position


def _varint(view: memoryview, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= end:
            raise MalformedRequest("its header ends within the tagged fields")
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 28:
            raise MalformedRequest("its header has an overlong varint")
