"""A network with small handlers of its own, on a real loop and a real port."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import ModuleType
from typing import Any

from barnabas.server.connection import ConnectionSettings
from barnabas.server.connection_limits import ConnectionLimits
from barnabas.server.endpoint import Endpoint
from barnabas.server.network import Network
from barnabas.server.pipeline import Pipeline
from barnabas.server.real import SocketTransport, SystemClock
from barnabas.wire import codec
from barnabas.wire.api_keys import (
    ApiKey,
    request_class,
    request_header_version,
    response_class,
    response_header_version,
)

Handler = Callable[[Any, Any, Any], object]
DEADLINE_S = 20


def on_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test on a loop of its own."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(test(*arguments, **named))

    return run


def api(key: ApiKey, handle: Handler, **more: Any) -> ModuleType:
    module = ModuleType(key.name.lower())
    module.KEY = key  # type: ignore[attr-defined]
    module.VERSIONS = more.pop("versions", request_class(key).VERSIONS)  # type: ignore[attr-defined]
    module.handle = handle  # type: ignore[attr-defined]
    for name, value in more.items():
        setattr(module, name, value)
    return module


def frame(request: Any, version: int, correlation_id: int, client_id: str | None = "test") -> bytes:
    key = request.API_KEY
    name = None if client_id is None else client_id.encode()
    header = struct.pack(">hhih", key, version, correlation_id, -1 if name is None else len(name))
    header += name or b""
    if request_header_version(key, version) >= 2:
        header += b"\0"
    body = codec.encode(request, version)
    return struct.pack(">i", len(header) + len(body)) + header + body


class Peer:
    """The client side: plain bytes over an asyncio stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def receive(self) -> bytes:
        async with asyncio.timeout(DEADLINE_S):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(size)

    async def response(self, key: ApiKey, version: int) -> tuple[int, Any]:
        data = await self.receive()
        (correlation_id,) = struct.unpack_from(">i", data)
        start = 4
        if response_header_version(key, version) >= 1:
            assert data[4] == 0
            start = 5
        return correlation_id, codec.decode(response_class(key), version, data[start:])

    async def ask(self, request: Any, version: int, correlation_id: int = 1) -> Any:
        self.send(frame(request, version, correlation_id))
        got, response = await self.response(request.API_KEY, version)
        assert got == correlation_id
        return response

    async def closed(self) -> bytes:
        """Wait for the end of the connection; gives what came before it."""
        async with asyncio.timeout(DEADLINE_S):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        """Abort: the other side sees a reset."""
        sock = self.writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class Serving:
    def __init__(self, network: Network, pipeline: Pipeline, listener: Any) -> None:
        self.network = network
        self.pipeline = pipeline
        self.listener = listener
        self.port: int = listener.bound.port
        self._peers: list[Peer] = []

    async def connect(self, *, receive_buffer_bytes: int = 0) -> Peer:
        sock = socket.socket()
        if receive_buffer_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        peer = Peer(*await asyncio.open_connection(sock=sock, limit=2**16))
        self._peers.append(peer)
        return peer

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the loop run until something has happened."""
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                await asyncio.sleep(0.001)

    def only_connection(self) -> Any:
        (connection,) = self.listener.connections
        return connection

    def close(self) -> None:
        for peer in self._peers:
            peer.close()
        self.network.close()


@contextlib.asynccontextmanager
async def serving(
    *apis: ModuleType,
    node: Any = None,
    settings: Mapping[str, int] | None = None,
    limits: ConnectionLimits | None = None,
    **listening: int,
) -> AsyncIterator[Serving]:
    loop = asyncio.get_running_loop()
    failures: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: failures.append(context))
    clock = SystemClock()
    network = Network(loop=loop, clock=clock, transport=SocketTransport(loop), limits=limits)
    pipeline = Pipeline(node, {module.KEY: module for module in apis}, clock=clock, loop=loop)
    (listener,) = network.listen(
        [Endpoint("PLAINTEXT", "127.0.0.1", 0)],
        pipeline,
        ConnectionSettings(**(settings or {})),
        **listening,
    )
    served = Serving(network, pipeline, listener)
    try:
        yield served
    finally:
        served.close()
        await pipeline.drain(1)
        assert failures == []
