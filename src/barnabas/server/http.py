"""A small HTTP endpoint for machines: `/metrics`, `/healthz` and `/ready`.

It answers GET and HEAD, closes after each answer, and believes nothing: a request line and headers
of at most `MAX_REQUEST_BYTES`, within `TIMEOUT_MS`, on at most `MAX_CONNECTIONS` connections.
Bodies are never read. It lives in the node's loop and on its transport.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from barnabas.delayed.timer import Timeout, TimingWheel
from barnabas.seams import Address, Stream, Transport

logger = logging.getLogger(__name__)

MAX_REQUEST_BYTES = 8 * 1024
MAX_CONNECTIONS = 64
TIMEOUT_MS = 10_000
TEXT = "text/plain; charset=utf-8"

_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}

Answer = tuple[int, str, bytes]
Resource = Callable[[], Awaitable[Answer]]


class HttpServer:
    """Serves `resources`, functions by path."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        transport: Transport,
        loop: asyncio.AbstractEventLoop,
        wheel: TimingWheel,
        resources: Mapping[str, Resource],
    ) -> None:
        self._loop = loop
        self._wheel = wheel
        self._resources = dict(resources)
        self._exchanges: set[_Exchange] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening = transport.listen(
            host,
            port,
            self._on_stream,
            backlog=MAX_CONNECTIONS,
            send_buffer_bytes=-1,
            receive_buffer_bytes=-1,
        )
        self.address: Address = self._listening.addresses[0]

    def close(self) -> None:
        self._listening.close()
        for exchange in tuple(self._exchanges):
            exchange.close()
        for task in tuple(self._tasks):
            task.cancel()

    def _on_stream(self, stream: Stream) -> None:
        exchange = _Exchange(stream, self._wheel, self._begin, self._exchanges.discard)
        self._exchanges.add(exchange)
        if len(self._exchanges) > MAX_CONNECTIONS:
            exchange.close()

    def _begin(self, exchange: _Exchange, head: bytes) -> None:
        task = self._loop.create_task(self._serve(exchange, head))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, exchange: _Exchange, head: bytes) -> None:
        method, status, content_type, body = "GET", 400, TEXT, b"Bad request\n"
        parts = head.split(b"\r\n", 1)[0].split(b" ")
        if len(parts) == 3 and parts[2].startswith(b"HTTP/1."):
            method = parts[0].decode("latin-1")
            path = parts[1].decode("latin-1").partition("?")[0]
            resource = self._resources.get(path)
            if method not in ("GET", "HEAD"):
                status, body = 405, b"Only GET and HEAD are served here\n"
            elif resource is None:
                paths = " ".join(sorted(self._resources))
                status, body = 404, f"Not found. Served here: {paths}\n".encode()
            else:
                try:
                    status, content_type, body = await resource()
                except Exception:
                    logger.exception("%s failed", path)
                    status, body = 500, b"Internal error\n"
        exchange.answer(status, content_type, body, with_body=method != "HEAD")


class _Exchange:
    """One request and its answer."""

    __slots__ = ("_begin", "_closed", "_gone", "_out", "_received", "_stream", "_timeout")

    def __init__(
        self,
        stream: Stream,
        wheel: TimingWheel,
        begin: Callable[[_Exchange, bytes], None],
        gone: Callable[[_Exchange], None],
    ) -> None:
        self._stream = stream
        self._begin: Callable[[_Exchange, bytes], None] | None = begin
        self._gone = gone
        self._received = bytearray()
        self._out = memoryview(b"")
        self._closed = False
        self._timeout: Timeout = wheel.add(TIMEOUT_MS, self.close)
        stream.on_readable(self._on_readable)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._timeout.cancel()
            self._stream.close()
            self._gone(self)

    def answer(self, status: int, content_type: str, body: bytes, *, with_body: bool) -> None:
        if self._closed:
            return
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {content_type}\r\n"
            f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\n"
            "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
        )
        self._out = memoryview(head.encode("latin-1") + (body if with_body else b""))
        self._on_writable()
        if not self._closed:
            self._stream.on_writable(self._on_writable)

    def _on_readable(self) -> None:
        buffer = bytearray(MAX_REQUEST_BYTES)
        try:
            count = self._stream.recv_into(memoryview(buffer))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        if count == 0:
            if self._begin is not None:
                self.close()
            else:
                self._stream.on_readable(None)
            return
        begin = self._begin
        if begin is None:
            return
        self._received += buffer[:count]
        head, end, _ = self._received.partition(b"\r\n\r\n")
        if end:
            self._begin = None
            begin(self, bytes(head))
        elif len(self._received) >= MAX_REQUEST_BYTES:
            self._begin = None
            self.answer(431, TEXT, b"Request too large\n", with_body=True)

    def _on_writable(self) -> None:
        try:
            sent = self._stream.send(self._out)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        self._out = self._out[sent:]
        if not self._out:
            self.close()
