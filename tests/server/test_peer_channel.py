"""Requests to another node: versions, order, big answers, and every way to fail."""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.delayed.timer import TimingWheel
from barnabas.record.build import build_batch
from barnabas.record.read import read_records
from barnabas.server.connection import Environment
from barnabas.server.peer_channel import MAX_WAITING, PeerChannel, PeerTimeout, PeerUnreachable
from barnabas.server.real import SocketTransport, SystemClock
from barnabas.server.timers import TimerDriver
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.wire.messages.vote import VoteRequest
from barnabas.wire.primitives import EncodeError
from tests.server.running import running
from tests.server.serving import DEADLINE_S, on_loop


class Asking:
    def __init__(self, channel: PeerChannel) -> None:
        self.channel = channel

    async def ask(self, request: Message, timeout_ms: int = 10_000, **more: Any) -> Any:
        answer = self.start(request, timeout_ms, **more)
        async with asyncio.timeout(DEADLINE_S):
            return await answer

    def start(self, request: Message, timeout_ms: int = 10_000, **more: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(response: Message | None, error: Exception | None) -> None:
            assert (response is None) != (error is None)
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(response)

        key = ApiKey(request.API_KEY)  # type: ignore[attr-defined]
        self.channel.send(key, request, done, timeout_ms=timeout_ms, **more)
        return future


@contextlib.asynccontextmanager
async def channel_to(port: int) -> AsyncIterator[Asking]:
    loop, clock = asyncio.get_running_loop(), SystemClock()
    environment = Environment(loop, clock, TimingWheel(clock.monotonic_ms))
    timers = TimerDriver(environment.wheel, loop, clock, environment.turn)
    channel = PeerChannel(
        ("127.0.0.1", port),
        environment=environment,
        transport=SocketTransport(loop),
        randomness=random.Random(1),
        client_id="test",
    )
    try:
        yield Asking(channel)
    finally:
        channel.close()
        timers.close()


@contextlib.asynccontextmanager
async def strange_peer(
    behave: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any],
) -> AsyncIterator[int]:
    server = await asyncio.start_server(behave, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@on_loop
async def test_a_real_node_answers_pipelined_requests(tmp_path: Path) -> None:
    async with running(tmp_path) as run, channel_to(run.node.port) as peer:
        created = peer.start(
            CreateTopicsRequest(
                topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)],
                timeout_ms=10_000,
            )
        )
        asked = [peer.start(MetadataRequest(topics=None)) for _ in range(5)]
        assert (await created).topics[0].error_code == 0
        for answer in await asyncio.gather(*asked):
            assert answer.cluster_id == run.node.cluster_id
        assert peer.channel.requests_open == 0


@on_loop
async def test_the_records_of_a_big_fetch_are_views_of_what_was_received(tmp_path: Path) -> None:
    values = [bytes([index]) * 200_000 for index in range(10)]
    async with running(tmp_path) as run, channel_to(run.node.port) as peer:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        created = await peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        topic_id = created.topics[0].topic_id
        for value in values:
            batch = build_batch([(1, None, value, ())])
            data = PartitionProduceData(index=0, records=memoryview(batch))
            produced = await peer.ask(
                ProduceRequest(
                    acks=-1,
                    timeout_ms=10_000,
                    topic_data=[TopicProduceData(topic_id=topic_id, partition_data=[data])],
                )
            )
            assert produced.responses[0].partition_responses[0].error_code == 0
        partition = FetchPartition(partition=0, partition_max_bytes=10_000_000)
        fetched = await peer.ask(
            FetchRequest(
                max_wait_ms=0,
                min_bytes=1,
                max_bytes=10_000_000,
                topics=[FetchTopic(topic_id=topic_id, partitions=[partition])],
            )
        )
        records = fetched.responses[0].partitions[0].records
        assert isinstance(records, memoryview)
        assert [record.value for record in read_records(records)] == values


@on_loop
async def test_what_the_peer_does_not_serve_is_an_unsupported_version(tmp_path: Path) -> None:
    async with running(tmp_path) as run, channel_to(run.node.port) as peer:
        with pytest.raises(ApiError) as failure:
            await peer.ask(VoteRequest())
        assert failure.value.code is ErrorCode.UNSUPPORTED_VERSION
        with pytest.raises(ApiError):
            await peer.ask(FetchRequest(), max_version=3)
        assert (
            await peer.ask(
                ApiVersionsRequest(client_software_name="a", client_software_version="1")
            )
        ).error_code == 0


@on_loop
async def test_a_message_that_the_version_cannot_express_fails_alone(tmp_path: Path) -> None:
    async with running(tmp_path) as run, channel_to(run.node.port) as peer:
        bad = FetchRequest(topics=[FetchTopic(topic="t", topic_id=bytes(16), partitions="no")])  # type: ignore[arg-type]
        with pytest.raises((EncodeError, TypeError, AttributeError)):
            await peer.ask(bad)
        assert await peer.ask(MetadataRequest(topics=None))


@on_loop
async def test_nobody_there_fails_and_a_later_request_tries_again(tmp_path: Path) -> None:
    async with strange_peer(lambda reader, writer: writer.close()) as port:
        pass
    async with channel_to(port) as peer:
        for _ in range(3):
            with pytest.raises(PeerUnreachable):
                await peer.ask(MetadataRequest())
        assert peer.channel.requests_open == 0


@on_loop
async def test_the_connection_is_made_again_after_the_peer_went(tmp_path: Path) -> None:
    async with running(tmp_path) as run, channel_to(run.node.port) as peer:
        assert await peer.ask(MetadataRequest(topics=None))
        for connection in run.node.network.connections():
            connection.close("test")
        await run.until(lambda: not peer.channel.connected)
        assert await peer.ask(MetadataRequest(topics=None))


@on_loop
async def test_silence_is_a_timeout_and_ends_the_connection() -> None:
    held: list[asyncio.StreamWriter] = []
    async with (
        strange_peer(lambda reader, writer: held.append(writer)) as port,
        channel_to(port) as peer,
    ):
        with pytest.raises(PeerTimeout):
            await peer.ask(MetadataRequest(), timeout_ms=30)
        for writer in held:
            writer.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        struct.pack(">i", 2) + b"ab",
        struct.pack(">iih", 6, 1, 99),
        struct.pack(">ii", 4, 77),
        struct.pack(">iihi", 10, 1, 0, 1_000_000_000),
        struct.pack(">i", -5),
    ],
)
@on_loop
async def test_nonsense_ends_the_connection(answer: bytes) -> None:
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(answer)
        with contextlib.suppress(OSError):
            await writer.drain()
            await reader.read()
        writer.close()

    async with strange_peer(behave) as port, channel_to(port) as peer:
        with pytest.raises(PeerUnreachable):
            await peer.ask(MetadataRequest())


@on_loop
async def test_an_old_peer_is_asked_again_in_a_version_it_knows() -> None:
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            key, version, correlation = struct.unpack(">hhi", (await reader.readexactly(size))[:8])
            body = struct.pack(">i", correlation)
            if key == ApiKey.API_VERSIONS:
                known = struct.pack(">hhh", 18, 0, 2) + struct.pack(">hhh", 3, 0, 1)
                body += struct.pack(">hi", 35 if version > 2 else 0, 2) + known
                body += struct.pack(">i", 0) if 0 < version <= 2 else b""
            else:
                assert version == 1
                body += struct.pack(">iii", 0, -1, 0)
            writer.write(struct.pack(">i", len(body)) + body)
        writer.close()

    async with strange_peer(behave) as port, channel_to(port) as peer:
        answer = await peer.ask(MetadataRequest(topics=None))
        assert answer.controller_id == -1


@on_loop
async def test_a_closed_channel_and_a_full_one_refuse() -> None:
    held: list[asyncio.StreamWriter] = []
    async with (
        strange_peer(lambda reader, writer: held.append(writer)) as port,
        channel_to(port) as peer,
    ):
        asked = [peer.start(MetadataRequest()) for _ in range(MAX_WAITING + 1)]
        with pytest.raises(PeerUnreachable, match="too many"):
            await asked[-1]
        peer.channel.close()
        asked.append(peer.start(MetadataRequest()))
        results = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(each, PeerUnreachable) for each in results)
        for writer in held:
            writer.close()
