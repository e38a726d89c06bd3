"""The HTTP endpoint: what it serves, and that nothing sent to it does harm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from barnabas.server import http
from barnabas.server.http import MAX_REQUEST_BYTES
from barnabas.server.metrics import Metrics
from barnabas.server.observability import serve_http
from tests.server.serving import on_loop, serving


class Endpoint:
    def __init__(self, server: http.HttpServer) -> None:
        self.server = server
        self.reason: str | None = None

    async def ask(self, data: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.address[1])
        try:
            writer.write(data)
            async with asyncio.timeout(10):
                return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


@asynccontextmanager
async def endpoint() -> AsyncIterator[Endpoint]:
    async with serving() as served:
        made: list[Endpoint] = []
        server = serve_http(
            "127.0.0.1", 0, served.network, Metrics(served.network), lambda: made[0].reason
        )
        made.append(Endpoint(server))
        try:
            yield made[0]
        finally:
            server.close()
            assert server._exchanges == set()


@on_loop
async def test_health_and_readiness() -> None:
    async with endpoint() as served:
        answer = await served.ask(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"\r\n\r\nok\n")
        assert (await served.ask(b"GET /ready?x=1 HTTP/1.0\r\n\r\n")).endswith(b"ready\n")
        served.reason = "Recovery"
        answer = await served.ask(b"GET /ready HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert answer.endswith(b"Recovery\n")
        head = await served.ask(b"HEAD /healthz HTTP/1.1\r\n\r\n")
        assert head.endswith(b"\r\n\r\n")
        assert b"Content-Length: 3\r\n" in head


@on_loop
async def test_metrics_are_in_prometheus_text() -> None:
    async with endpoint() as served:
        answer = await served.ask(b"GET /metrics HTTP/1.1\r\nAccept: */*\r\n\r\n")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"text/plain; version=0.0.4" in head
        assert f"Content-Length: {len(body)}".encode() in head
        assert b"# TYPE kafka_network_requestmetrics_totaltimems histogram" in body


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /healthz\r\n\r\n", b"400"),
        (b"GET /healthz SPDY/3\r\n\r\n", b"400"),
        (b"\xff\xfe /\x00 HTTP/1.1\r\n\r\n", b"405"),
        (b"\r\n\r\n", b"400"),
        (b"GET /" + b"a" * MAX_REQUEST_BYTES + b" HTTP/1.1\r\n", b"431"),
    ],
)
@on_loop
async def test_bad_requests(data: bytes, status: bytes) -> None:
    async with endpoint() as served:
        answer = await served.ask(data)
        assert answer == b"" or answer.split(b" ")[1] == status
        assert (await served.ask(b"GET /healthz HTTP/1.1\r\n\r\n")).endswith(b"ok\n")


@on_loop
async def test_a_request_in_pieces() -> None:
    async with endpoint() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.server.address[1])
        for byte in b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n":
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        assert (await reader.read()).endswith(b"ok\n")
        writer.close()


@on_loop
async def test_a_peer_that_says_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "TIMEOUT_MS", 20)
    async with endpoint() as served:
        assert await served.ask(b"GET /healthz") == b""


@on_loop
async def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 3)
    async with endpoint() as served:
        port = served.server.address[1]
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        while len(served.server._exchanges) < 3:
            await asyncio.sleep(0.001)
        assert await served.ask(b"GET /healthz HTTP/1.1\r\n\r\n") == b""
        for _, writer in held:
            writer.close()
        while served.server._exchanges:
            await asyncio.sleep(0.001)
        assert (await served.ask(b"GET /healthz HTTP/1.1\r\n\r\n")).endswith(b"ok\n")


@on_loop
async def test_a_resource_that_fails_is_an_internal_error() -> None:
    async def broken() -> http.Answer:
        raise RuntimeError("broken")

    async with serving() as served:
        network = served.network
        server = http.HttpServer(
            "127.0.0.1",
            0,
            transport=network.transport,
            loop=network.loop,
            wheel=network.wheel,
            resources={"/broken": broken},
        )
        answer = await Endpoint(server).ask(b"GET /broken HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 500 ")
        server.close()
