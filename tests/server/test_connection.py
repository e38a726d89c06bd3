"""Bytes in and out of real sockets: frames, order, back-pressure, files, ends."""

from __future__ import annotations

import asyncio
import os
import random
import struct
import tempfile
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.api import DEFERRED, DISCONNECT, NO_RESPONSE
from barnabas.log.disk import FileRange
from barnabas.server import connection as connection_module
from barnabas.server.receive import BUFFER_SIZE
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tests.server.serving import Peer, api, frame, on_loop, serving


def produce(records: bytes, *, acks: int = 1) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name="topic", partition_data=[PartitionProduceData(index=0, records=records)]
            )
        ],
    )


def produced(size: int) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name="topic",
                partition_responses=[PartitionProduceResponse(index=0, base_offset=size)],
            )
        ]
    )


def records_of(request: Any) -> memoryview:
    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    return records


def size_of(response: ProduceResponse) -> int:
    return response.responses[0].partition_responses[0].base_offset


def count_bytes(node: Any, context: Any, request: Any) -> ProduceResponse:
    records = records_of(request)
    assert not records.readonly
    return produced(len(records))


COUNTING = api(ApiKey.PRODUCE, count_bytes)


def heartbeat(generation: int = 1) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=generation, member_id="m")


def beat(node: Any, context: Any, request: Any) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=request.generation_id)


BEATING = api(ApiKey.HEARTBEAT, beat)


# Receiving


@on_loop
async def test_one_byte_at_a_time() -> None:
    async with serving(COUNTING) as served:
        peer = await served.connect()
        for correlation_id, length in enumerate((0, 1, 300)):
            data = frame(produce(b"x" * length), 9, correlation_id)
            for index in range(len(data)):
                peer.send(data[index : index + 1])
                await peer.writer.drain()
                await asyncio.sleep(0)
            assert await peer.response(ApiKey.PRODUCE, 9) == (correlation_id, produced(length))


@on_loop
async def test_many_frames_in_one_write_and_split_anywhere() -> None:
    async with serving(COUNTING) as served:
        peer = await served.connect()
        draw = random.Random(7)
        lengths = [draw.choice((0, 1, 50, 700, 20_000, BUFFER_SIZE, 100_000)) for _ in range(150)]
        data = b"".join(frame(produce(bytes(n)), 9, i) for i, n in enumerate(lengths))

        async def send() -> None:
            position = 0
            while position < len(data):
                step = draw.choice((1, 3, 4, 5, 1000, 65536, 300_000))
                peer.send(data[position : position + step])
                position += step
                await peer.writer.drain()

        sending = asyncio.create_task(send())
        for index, length in enumerate(lengths):
            correlation_id, response = await peer.response(ApiKey.PRODUCE, 9)
            assert (correlation_id, size_of(response)) == (index, length)
        await sending


@pytest.mark.parametrize("length", [BUFFER_SIZE - 100, BUFFER_SIZE, BUFFER_SIZE + 1, 5_000_000])
@on_loop
async def test_large_frames(length: int) -> None:
    seen: list[bytes] = []

    def keep(node: Any, context: Any, request: Any) -> ProduceResponse:
        seen.append(bytes(records_of(request)))
        return produced(length)

    content = random.Random(length).randbytes(length)
    async with serving(api(ApiKey.PRODUCE, keep)) as served:
        peer = await served.connect()
        for _ in range(3):
            await peer.ask(produce(content), 9)
    assert seen == [content] * 3


@on_loop
async def test_what_is_announced_is_not_allocated() -> None:
    async with serving(COUNTING) as served:
        peer = await served.connect()
        peer.send(struct.pack(">i", 100 * 1024 * 1024) + b"abc")
        await served.until(lambda: served.only_connection()._frame is not None)
        assert len(served.only_connection()._frame) <= BUFFER_SIZE
        peer.send(bytes(200_000))
        await served.until(lambda: served.only_connection()._filled == 200_003)
        assert len(served.only_connection()._frame) <= 4 * BUFFER_SIZE


@pytest.mark.parametrize("size", [0, -1, -(2**31), 1001, 2**31 - 1])
@on_loop
async def test_a_bad_size_closes_the_connection_after_earlier_answers(size: int) -> None:
    async with serving(COUNTING, settings={"max_request_bytes": 1000}) as served:
        bad, good = await served.connect(), await served.connect()
        bad.send(frame(produce(b"123"), 9, 1) + struct.pack(">i", size) + b"rest")
        assert size_of((await bad.response(ApiKey.PRODUCE, 9))[1]) == 3
        assert await bad.closed() == b""
        assert size_of(await good.ask(produce(b"12"), 9)) == 2


@on_loop
async def test_a_request_that_waits_keeps_its_bytes() -> None:
    """The buffer of a deferred request is not used again while somebody can see it."""
    waiting: list[tuple[Any, memoryview]] = []

    def wait_for_a(node: Any, context: Any, request: Any) -> object:
        records = records_of(request)
        if records[0] == ord("a"):
            waiting.append((context, records))
            return DEFERRED
        return produced(len(records))

    async with serving(api(ApiKey.PRODUCE, wait_for_a)) as served:
        first, second = await served.connect(), await served.connect()
        for length in (10, 1000, 200_000):
            first.send(frame(produce(b"a" * length), 9, length))
            await served.until(lambda: len(waiting) == 1)
            for _ in range(5):
                await second.ask(produce(b"b" * length), 9)
            context, records = waiting.pop()
            assert bytes(records) == b"a" * length
            del records
            context.respond(produced(length))
            assert (await first.response(ApiKey.PRODUCE, 9))[0] == length


@on_loop
async def test_memory_is_used_again_when_nobody_looks() -> None:
    async with serving(COUNTING) as served:
        peer = await served.connect()
        memory = served.network.environment.memory
        await peer.ask(produce(bytes(100)), 9)
        before = id(memory._shared)
        for _ in range(5):
            await peer.ask(produce(bytes(100)), 9)
        assert id(memory._shared) == before
        await peer.ask(produce(bytes(300_000)), 9)
        spares = [id(spare) for spare in memory._spares]
        for _ in range(5):
            await peer.ask(produce(bytes(300_000)), 9)
        assert [id(spare) for spare in memory._spares] == spares
        assert len(spares) == 1


# Order


@on_loop
async def test_answers_keep_the_order_of_requests() -> None:
    contexts: dict[int, Any] = {}
    executed: list[int] = []

    def handle(node: Any, context: Any, request: Any) -> object:
        number = request.generation_id
        executed.append(number)
        if number % 2:
            contexts[number] = context
            return DEFERRED
        return HeartbeatResponse(throttle_time_ms=number)

    async with serving(api(ApiKey.HEARTBEAT, handle)) as served:
        peer = await served.connect()
        peer.send(b"".join(frame(heartbeat(number), 4, number) for number in range(6)))
        assert (await peer.response(ApiKey.HEARTBEAT, 4))[0] == 0
        await served.until(lambda: len(executed) == 6)
        assert served.pipeline.requests_in_flight == 5
        contexts[5].respond(HeartbeatResponse(throttle_time_ms=5))
        contexts[3].respond(HeartbeatResponse(throttle_time_ms=3))
        await asyncio.sleep(0.01)
        assert served.pipeline.requests_in_flight == 5
        contexts[1].respond(HeartbeatResponse(throttle_time_ms=1))
        for number in range(1, 6):
            correlation_id, response = await peer.response(ApiKey.HEARTBEAT, 4)
            assert correlation_id == response.throttle_time_ms == number
        assert served.pipeline.requests_in_flight == 0
        assert executed == list(range(6))
        (channel,) = served.pipeline.channels
        assert channel._bytes_in_flight == 0


@on_loop
async def test_deferred_but_answered_within_the_handler() -> None:
    def handle(node: Any, context: Any, request: Any) -> object:
        context.respond(HeartbeatResponse(throttle_time_ms=request.generation_id))
        return DEFERRED

    async with serving(api(ApiKey.HEARTBEAT, handle)) as served:
        peer = await served.connect()
        peer.send(b"".join(frame(heartbeat(number), 4, number) for number in range(3)))
        for number in range(3):
            assert (await peer.response(ApiKey.HEARTBEAT, 4))[0] == number


@on_loop
async def test_coroutines_begin_in_order_and_answer_in_order() -> None:
    events: list[str] = []
    gate = asyncio.Event()

    async def cold(node: Any, context: Any, request: Any) -> HeartbeatResponse:
        events.append(f"begin {request.generation_id}")
        if request.generation_id == 1:
            await gate.wait()
        return HeartbeatResponse(throttle_time_ms=request.generation_id)

    def hot(node: Any, context: Any, request: Any) -> ProduceResponse:
        events.append("produce")
        return produced(0)

    async with serving(api(ApiKey.HEARTBEAT, cold), api(ApiKey.PRODUCE, hot)) as served:
        peer = await served.connect()
        peer.send(frame(heartbeat(1), 4, 1) + frame(produce(b""), 9, 2) + frame(heartbeat(3), 4, 3))
        await served.until(lambda: len(events) == 3)
        assert events == ["begin 1", "produce", "begin 3"]
        gate.set()
        assert (await peer.response(ApiKey.HEARTBEAT, 4))[0] == 1
        assert (await peer.response(ApiKey.PRODUCE, 9))[0] == 2
        assert (await peer.response(ApiKey.HEARTBEAT, 4))[0] == 3


@on_loop
async def test_no_response_and_disconnect() -> None:
    def handle(node: Any, context: Any, request: Any) -> object:
        return {0: NO_RESPONSE, 2: DISCONNECT}.get(request.acks, produced(request.acks))

    async with serving(api(ApiKey.PRODUCE, handle)) as served:
        peer = await served.connect()
        peer.send(
            frame(produce(b"", acks=0), 9, 1)
            + frame(produce(b"", acks=1), 9, 2)
            + frame(produce(b"", acks=0), 9, 3)
            + frame(produce(b"", acks=1), 9, 4)
            + frame(produce(b"", acks=2), 9, 5)
            + frame(produce(b"", acks=1), 9, 6)
        )
        assert (await peer.response(ApiKey.PRODUCE, 9))[0] == 2
        assert (await peer.response(ApiKey.PRODUCE, 9))[0] == 4
        assert await peer.closed() == b""


@on_loop
async def test_answers_of_one_turn_leave_in_one_call() -> None:
    async with serving(BEATING) as served:
        peer = await served.connect()
        await peer.ask(heartbeat(), 4)
        connection = served.only_connection()
        sends: list[int] = []
        send = connection._send
        connection._send = lambda data: (sends.append(len(data)), send(data))[1]
        peer.send(b"".join(frame(heartbeat(), 4, number) for number in range(50)))
        for number in range(50):
            assert (await peer.response(ApiKey.HEARTBEAT, 4))[0] == number
        assert len(sends) <= 2


@pytest.mark.parametrize(
    ("longest_ns", "frames"),
    [(2**62, connection_module.FRAMES_PER_TURN), (-1, 1)],
    ids=["short requests", "long requests"],
)
@on_loop
async def test_one_connection_does_not_keep_the_turn(
    longest_ns: int, frames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "LONGEST_TURN_NS", longest_ns)
    handled: list[str] = []

    def handle(node: Any, context: Any, request: Any) -> HeartbeatResponse:
        handled.append(request.group_id)
        return HeartbeatResponse()

    async with serving(api(ApiKey.HEARTBEAT, handle)) as served:
        greedy, modest = await served.connect(), await served.connect()
        await greedy.ask(heartbeat(), 4)
        await modest.ask(heartbeat(), 4)
        handled.clear()
        many = 400
        request = HeartbeatRequest(group_id="greedy", generation_id=1, member_id="")
        # More than is received at once, so that the socket stays readable in between.
        name = "c" * 2000
        greedy.send(b"".join(frame(request, 4, number, name) for number in range(many)))
        for _ in range(20):
            await modest.ask(heartbeat(), 4)
        for _ in range(many):
            await greedy.response(ApiKey.HEARTBEAT, 4)
        before = 0
        for at in [at for at, name in enumerate(handled) if name == "g"]:
            assert at - before <= 5 * frames
            before = at


# Back-pressure


@on_loop
async def test_requests_in_flight_are_bounded() -> None:
    contexts: list[Any] = []

    def handle(node: Any, context: Any, request: Any) -> object:
        contexts.append(context)
        return DEFERRED

    async with serving(
        api(ApiKey.HEARTBEAT, handle), settings={"max_requests_in_flight": 10}
    ) as served:
        peer = await served.connect()
        peer.send(b"".join(frame(heartbeat(), 4, number) for number in range(35)))
        answered = 0
        while answered < 35:
            due = min(10, 35 - answered)
            await served.until(lambda due=due: len(contexts) == due)
            await asyncio.sleep(0.005)
            assert len(contexts) <= 10
            assert served.only_connection().held == (len(contexts) == 10)
            for context in contexts:
                context.respond(HeartbeatResponse())
            answered += len(contexts)
            contexts.clear()
        for number in range(35):
            assert (await peer.response(ApiKey.HEARTBEAT, 4))[0] == number
        assert not served.only_connection().held


@on_loop
async def test_bytes_in_flight_are_bounded() -> None:
    contexts: list[Any] = []

    def handle(node: Any, context: Any, request: Any) -> object:
        contexts.append(context)
        return DEFERRED

    async with serving(
        api(ApiKey.PRODUCE, handle), settings={"max_bytes_in_flight": 100_000}
    ) as served:
        peer = await served.connect()
        peer.send(b"".join(frame(produce(bytes(30_000)), 9, number) for number in range(20)))
        for number in range(20):
            await served.until(lambda number=number: len(contexts) > number)
            assert served.pipeline.requests_in_flight <= 4
            contexts[number].respond(produced(number))
            assert (await peer.response(ApiKey.PRODUCE, 9))[0] == number


@on_loop
async def test_tasks_are_bounded() -> None:
    running = 0
    most = 0
    gate = asyncio.Event()

    async def cold(node: Any, context: Any, request: Any) -> HeartbeatResponse:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1
        return HeartbeatResponse()

    async with serving(api(ApiKey.HEARTBEAT, cold)) as served:
        peer = await served.connect()
        peer.send(b"".join(frame(heartbeat(), 4, number) for number in range(100)))
        await served.until(lambda: running == 32)
        await asyncio.sleep(0.01)
        assert running == 32
        gate.set()
        for number in range(100):
            assert (await peer.response(ApiKey.HEARTBEAT, 4))[0] == number
        assert most == 32


@on_loop
async def test_a_slow_reader_is_not_read_from() -> None:
    handled = 0
    body = b"v" * 20_000

    def handle(node: Any, context: Any, request: Any) -> FetchResponse:
        nonlocal handled
        handled += 1
        return fetched([body])

    async with serving(
        api(ApiKey.FETCH, handle), settings={"max_unsent_bytes": 50_000}, send_buffer_bytes=4096
    ) as served:
        peer = await served.connect(receive_buffer_bytes=4096)
        peer.writer.transport.pause_reading()
        requests = b"".join(frame(FetchRequest(), 11, number) for number in range(200))
        peer.send(requests)
        await served.until(lambda: served.listener.connections and served.only_connection().held)
        await asyncio.sleep(0.01)
        connection = served.only_connection()
        assert connection.unsent_bytes <= 50_000 + 20_200
        assert handled < 50
        peer.writer.transport.resume_reading()
        for number in range(200):
            correlation_id, response = await peer.response(ApiKey.FETCH, 11)
            assert correlation_id == number
            assert response.responses[0].partitions[0].records == body
        assert not connection.held
        assert connection.unsent_bytes == 0


@on_loop
async def test_throttling_stops_reading_for_a_while() -> None:
    def handle(node: Any, context: Any, request: Any) -> HeartbeatResponse:
        context.throttle_ms = request.generation_id
        return HeartbeatResponse(throttle_time_ms=request.generation_id)

    async with serving(api(ApiKey.HEARTBEAT, handle)) as served:
        peer = await served.connect()
        loop = asyncio.get_running_loop()
        begun = loop.time()
        peer.send(frame(heartbeat(50), 4, 1) + frame(heartbeat(0), 4, 2))
        assert (await peer.response(ApiKey.HEARTBEAT, 4))[0] == 1
        assert served.only_connection().held
        assert (await peer.response(ApiKey.HEARTBEAT, 4))[0] == 2
        assert loop.time() - begun >= 0.045
        metrics = served.pipeline.metrics[ApiKey.HEARTBEAT]
        assert metrics.throttle.count() == 1


# Sending


def fetched(records: list[Any]) -> FetchResponse:
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic="topic",
                partitions=[
                    PartitionData(partition_index=index, high_watermark=0, records=part)
                    for index, part in enumerate(records)
                ],
            )
        ]
    )


class PlainFile:
    """A file as the log has it; without a descriptor it must be read."""

    def __init__(self, content: bytes, *, descriptor: bool = True) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115
        self.file.write(content)
        self.file.flush()
        self.descriptor = descriptor

    def fileno(self) -> int | None:
        return self.file.fileno() if self.descriptor else None

    def read_at(self, position: int, length: int) -> bytes:
        return os.pread(self.file.fileno(), length, position)


@pytest.mark.parametrize("descriptor", [True, False])
@pytest.mark.parametrize("send_buffer_bytes", [4096, -1])
@on_loop
async def test_files_and_bytes_in_any_mixture(descriptor: bool, send_buffer_bytes: int) -> None:
    draw = random.Random(11)
    content = draw.randbytes(3_000_000)
    file: Any = PlainFile(content, descriptor=descriptor)
    sizes = (1, 100, 16_384, 65_535, 65_536, 65_537, 300_000, 1_200_000)

    def part() -> tuple[Any, bytes]:
        length = draw.choice(sizes)
        position = draw.randrange(len(content) - length)
        expected = content[position : position + length]
        kind = draw.choice(("file", "file", "bytes", "view", "empty"))
        if kind == "file":
            return FileRange(file, position, length), expected
        if kind == "empty":
            return b"", b""
        return (expected if kind == "bytes" else memoryview(expected)), expected

    answers = [[part() for _ in range(draw.randrange(1, 12))] for _ in range(8)]

    def handle(node: Any, context: Any, request: Any) -> FetchResponse:
        return fetched([chunk for chunk, _ in answers[request.max_wait_ms]])

    async with serving(
        api(ApiKey.FETCH, handle),
        send_buffer_bytes=send_buffer_bytes,
        settings={"max_unsent_bytes": 100_000},
    ) as served:
        peer = await served.connect(receive_buffer_bytes=8192 if send_buffer_bytes > 0 else 0)
        peer.send(
            b"".join(frame(FetchRequest(max_wait_ms=number), 11, number) for number in range(8))
        )
        for number, answer in enumerate(answers):
            correlation_id, response = await peer.response(ApiKey.FETCH, 11)
            assert correlation_id == number
            partitions = response.responses[0].partitions
            assert [bytes(each.records) for each in partitions] == [data for _, data in answer]
        metrics = served.pipeline.metrics[ApiKey.FETCH]
        await served.until(lambda: metrics.requests == 8)


@pytest.mark.parametrize("length", [100, 100_000])
@pytest.mark.parametrize("descriptor", [True, False])
@on_loop
async def test_a_file_that_has_become_shorter_closes_the_connection(
    length: int, descriptor: bool, caplog: pytest.LogCaptureFixture
) -> None:
    file: Any = PlainFile(b"x" * 10, descriptor=descriptor)

    def handle(node: Any, context: Any, request: Any) -> FetchResponse:
        return fetched([FileRange(file, 0, length)])

    async with serving(api(ApiKey.FETCH, handle), BEATING) as served:
        peer, other = await served.connect(), await served.connect()
        peer.send(frame(FetchRequest(), 11, 1))
        await peer.closed()
        await other.ask(heartbeat(), 4)


# Ends


@on_loop
async def test_idle_connections_are_closed_and_busy_ones_are_not() -> None:
    contexts: list[Any] = []

    def handle(node: Any, context: Any, request: Any) -> object:
        contexts.append(context)
        return DEFERRED

    async with serving(api(ApiKey.HEARTBEAT, handle), settings={"max_idle_ms": 60}) as served:
        idle, waiting = await served.connect(), await served.connect()
        waiting.send(frame(heartbeat(), 4, 1))
        assert await idle.closed() == b""
        await asyncio.sleep(0.1)
        assert len(served.listener.connections) == 1
        contexts[0].respond(HeartbeatResponse())
        assert (await waiting.response(ApiKey.HEARTBEAT, 4))[0] == 1
        assert await waiting.closed() == b""
        assert len(served.network.wheel) == 0


@on_loop
async def test_after_a_half_close_the_answers_still_arrive() -> None:
    async with serving(BEATING, send_buffer_bytes=4096) as served:
        peer = await served.connect()
        peer.send(b"".join(frame(heartbeat(), 4, number) for number in range(500)))
        peer.writer.write_eof()
        for number in range(500):
            assert (await peer.response(ApiKey.HEARTBEAT, 4))[0] == number
        assert await peer.closed() == b""


@on_loop
async def test_an_end_within_a_frame_is_an_end() -> None:
    async with serving(COUNTING) as served:
        for cut in (1, 3, 4, 10, 200, 90_000):
            peer = await served.connect()
            peer.send(frame(produce(bytes(100_000)), 9, 1)[:cut])
            peer.writer.write_eof()
            assert await peer.closed() == b""
        await served.until(lambda: not served.listener.connections)


async def _nothing_sent(peer: Peer) -> None:
    pass


async def _part_of_a_size(peer: Peer) -> None:
    peer.send(b"\0\0")


async def _part_of_a_frame(peer: Peer) -> None:
    peer.send(frame(produce(bytes(100)), 9, 1)[:50])


async def _part_of_a_large_frame(peer: Peer) -> None:
    peer.send(frame(produce(bytes(300_000)), 9, 1)[:200_000])
    await peer.writer.drain()


async def _deferred(peer: Peer) -> None:
    peer.send(frame(heartbeat(), 4, 1))


async def _task(peer: Peer) -> None:
    peer.send(frame(heartbeat(7), 4, 1))


async def _unsent(peer: Peer) -> None:
    peer.writer.transport.pause_reading()
    peer.send(b"".join(frame(FetchRequest(), 11, number) for number in range(100)))
    await peer.writer.drain()


@pytest.mark.parametrize(
    "state",
    [
        _nothing_sent,
        _part_of_a_size,
        _part_of_a_frame,
        _part_of_a_large_frame,
        _deferred,
        _task,
        _unsent,
    ],
)
@on_loop
async def test_a_reset_in_any_state_hurts_nobody(state: Callable[[Peer], Any]) -> None:
    contexts: list[Any] = []
    gate = asyncio.Event()

    async def wait() -> HeartbeatResponse:
        await gate.wait()
        return HeartbeatResponse()

    def handle(node: Any, context: Any, request: Any) -> object:
        if request.generation_id == 7:
            return wait()
        contexts.append(context)
        return DEFERRED

    def big(node: Any, context: Any, request: Any) -> FetchResponse:
        return fetched([bytes(100_000)])

    async with serving(
        api(ApiKey.HEARTBEAT, handle), api(ApiKey.FETCH, big), COUNTING, send_buffer_bytes=4096
    ) as served:
        other = await served.connect()
        peer = await served.connect(receive_buffer_bytes=4096)
        await served.until(lambda: len(served.listener.connections) == 2)
        await state(peer)
        await asyncio.sleep(0.02)
        peer.reset()
        await served.until(lambda: len(served.listener.connections) == 1)
        for context in contexts:
            context.respond(HeartbeatResponse())
            assert context.disconnected
        gate.set()
        assert size_of(await other.ask(produce(b"12345"), 9)) == 5
        await served.until(lambda: not served.pipeline.tasks)
        assert served.pipeline.requests_in_flight == 0


@on_loop
async def test_answering_twice_is_refused() -> None:
    contexts: list[Any] = []

    def handle(node: Any, context: Any, request: Any) -> object:
        contexts.append(context)
        return DEFERRED

    async with serving(api(ApiKey.HEARTBEAT, handle)) as served:
        peer = await served.connect()
        peer.send(frame(heartbeat(), 4, 1))
        await served.until(lambda: bool(contexts))
        contexts[0].respond(HeartbeatResponse())
        with pytest.raises(RuntimeError, match="answered twice"):
            contexts[0].respond(HeartbeatResponse())
        await peer.response(ApiKey.HEARTBEAT, 4)
