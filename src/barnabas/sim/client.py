"""A client's process and its connections: wire messages over the virtual transport.

Everything that goes wrong is an OSError: a connection that is refused, reset or ended, an answer that
does not come in time. Requests of a connection are pipelined; answers come in their order.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Coroutine
from struct import Struct
from typing import Any

from barnabas.sim.loop import VirtualLoop
from barnabas.sim.reactor import VirtualReactor
from barnabas.sim.stream import VirtualStream, VirtualTransport
from barnabas.wire.api_keys import (
    ApiKey,
    request_header_version,
    response_class,
    response_header_version,
)
from barnabas.wire.codec import encode, reader
from barnabas.wire.errors import ErrorCode
from barnabas.wire.header import RequestHeader, ResponseHeader
from barnabas.wire.message import Message
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

_SIZE = Struct(">i")
_RECEIVE_BYTES = 64 * 1024

TIMEOUT_S = 3.0
METADATA_VERSION = 12


class Refused(Exception):
    """The broker answered with an error."""

    def __init__(self, code: int) -> None:
        super().__init__(ErrorCode.of(code).name)
        self.code = ErrorCode.of(code)


class Connection:
    def __init__(self, stream: VirtualStream, name: str) -> None:
        self._stream = stream
        self._name = name
        self._received = bytearray()
        self._unsent = bytearray()
        self._correlation_id = 0
        self._waiting: deque[tuple[int, ApiKey, int, asyncio.Future[Any]]] = deque()
        self.closed = False
        stream.on_readable(self._on_readable)

    def send(self, request: Message, version: int) -> asyncio.Future[Any]:
        """Send now; the future gives the response, or an OSError."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.closed:
            future.set_exception(ConnectionResetError("the connection is closed"))
            return future
        key = ApiKey(type(request).API_KEY)
        self._correlation_id += 1
        header = RequestHeader(
            request_api_key=key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=self._name,
        )
        body = encode(header, request_header_version(key, version)) + encode(request, version)
        self._waiting.append((self._correlation_id, key, version, future))
        self._unsent += _SIZE.pack(len(body)) + body
        self._flush()
        return future

    async def ask(self, request: Message, version: int, timeout_s: float = TIMEOUT_S) -> Any:
        try:
            async with asyncio.timeout(timeout_s):
                return await self.send(request, version)
        except TimeoutError:
            self.close()
            raise

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._stream.close()
        for *_, future in self._waiting:
            if not future.done():
                future.set_exception(ConnectionResetError("the connection is closed"))
                future.exception()
        self._waiting.clear()

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._stream.send(self._unsent)]
            self._stream.on_writable(None)
        except BlockingIOError:
            self._stream.on_writable(self._flush)
        except OSError:
            self.close()

    def _on_readable(self) -> None:
        buffer = bytearray(_RECEIVE_BYTES)
        try:
            count = self._stream.recv_into(memoryview(buffer))
        except OSError:
            self.close()
            return
        if not count:
            self.close()
            return
        self._received += memoryview(buffer)[:count]
        while len(self._received) >= 4 and not self.closed:
            (size,) = _SIZE.unpack_from(self._received)
            if len(self._received) < 4 + size:
                return
            frame = bytes(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            self._answer(frame)

    def _answer(self, frame: bytes) -> None:
        correlation_id, key, version, future = self._waiting.popleft()
        header, position = reader(ResponseHeader, response_header_version(key, version))(
            frame, 0, len(frame)
        )
        assert header.correlation_id == correlation_id, "an answer to another question"
        response, position = reader(response_class(key), version)(frame, position, len(frame))
        assert position == len(frame), "bytes after the answer"
        if not future.done():
            future.set_result(response)


class ClientProcess:
    """A client on a host of its own: its loop, connections to brokers, and what it knows of them."""

    def __init__(
        self,
        name: str,
        loop: VirtualLoop,
        transport: VirtualTransport,
        rng: random.Random,
        bootstrap: list[tuple[str, int]],
    ) -> None:
        self.name = name
        self.loop = loop
        self.rng = rng
        self._transport = transport
        self.bootstrap = bootstrap
        self._connections: dict[tuple[str, int], Connection] = {}
        self._brokers: dict[int, tuple[str, int]] = {}
        self._leaders: dict[tuple[str, int], tuple[int, int]] = {}

    def reactor(self) -> VirtualReactor:
        """For Barnabas's own clients."""
        return VirtualReactor(self.loop, self._transport, self.rng)

    def run(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[Any]:
        return self.loop.create_task(work)

    async def rest(self, up_to_s: float) -> None:
        await asyncio.sleep(self.rng.random() * up_to_s)

    async def to(self, address: tuple[str, int]) -> Connection:
        found = self._connections.get(address)
        if found is None or found.closed:
            async with asyncio.timeout(TIMEOUT_S):
                stream = await self._transport.connect(*address)
            found = self._connections[address] = Connection(stream, self.name)
        return found

    async def to_any(self) -> Connection:
        return await self.to(self.bootstrap[self.rng.randrange(len(self.bootstrap))])

    async def refresh(self, topic: str) -> None:
        """Ask any broker who leads; what is older than what is known is not believed."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        response = await (await self.to_any()).ask(request, METADATA_VERSION)
        for broker in response.brokers:
            self._brokers[broker.node_id] = (broker.host, broker.port)
        for each in response.topics:
            for partition in each.partitions:
                place = (topic, partition.partition_index)
                known = self._leaders.get(place, (-1, -1))
                if partition.leader_epoch >= known[1]:
                    self._leaders[place] = (partition.leader_id, partition.leader_epoch)

    async def to_leader(self, topic: str, partition: int) -> tuple[Connection, int]:
        """A connection to the leader as far as is known, and its epoch."""
        leader, epoch = self._leaders.get((topic, partition), (-1, -1))
        if leader not in self._brokers:
            await self.refresh(topic)
            leader, epoch = self._leaders.get((topic, partition), (-1, -1))
            if leader not in self._brokers:
                raise ConnectionError("no leader is known")
        return await self.to(self._brokers[leader]), epoch

    async def look_again(self, topic: str) -> None:
        """After a failure: wait a little, then ask who leads; a failure of that is for later."""
        await self.rest(0.2)
        with contextlib.suppress(OSError):
            await self.refresh(topic)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
