"""Garbage, mutated and torn frames against a pipeline of small handlers.

Whatever is sent, no exception goes unhandled, no handler's bug is provoked, memory and tasks come
back, and another connection is served all the while. The time is bounded; the seed of a failure is
printed and `BARNABAS_FUZZ_SEED` replays it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import struct
import time
from typing import Any

import pytest

from barnabas.api import DEFERRED, NO_RESPONSE
from barnabas.wire.api_keys import ApiKey, response_class
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.server.serving import Peer, Serving, api, frame, on_loop, serving

SECONDS = 8.0
SEED = int(os.environ.get("BARNABAS_FUZZ_SEED", "20260301"))

REQUESTS: list[tuple[Any, range]] = [
    (
        ProduceRequest(
            acks=1,
            timeout_ms=100,
            topic_data=[
                TopicProduceData(
                    name="topic",
                    partition_data=[
                        PartitionProduceData(index=index, records=bytes(range(80)))
                        for index in range(3)
                    ],
                )
            ],
        ),
        range(3, 13),
    ),
    (
        FetchRequest(
            max_wait_ms=10,
            topics=[FetchTopic(topic="t", partitions=[FetchPartition(), FetchPartition()])],
        ),
        range(4, 13),
    ),
    (MetadataRequest(topics=[MetadataRequestTopic(name="t")] * 3), range(1, 10)),
    (HeartbeatRequest(group_id="group", generation_id=3, member_id="member"), range(5)),
    (
        JoinGroupRequest(
            group_id="group",
            session_timeout_ms=1000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"1234567890")],
        ),
        range(2, 10),
    ),
    (CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1)]), range(2, 8)),
    (ApiVersionsRequest(client_software_name="x", client_software_version="1"), range(5)),
]
EXTREMES = [
    struct.pack(">i", value)
    for value in (0, 1, -1, 2**31 - 1, -(2**31), 0x7F7F7F7F, 100_000, 10_000_000)
] + [b"\xff\xff\xff\xff\x0f", b"\x80" * 10, b"\xff" * 9, b"\x00\x00", b"\x7f\xff", b"\xff\xff"]
OPENINGS = [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"SSH-2.0-x\r\n"]


def mutate(draw: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        start = 4 if draw.random() < 0.9 else 0
        position = draw.randrange(start, max(len(changed), start + 1))
        kind = draw.randrange(6)
        if kind == 0 and position < len(changed):
            changed[position] ^= 1 << draw.randrange(8)
        elif kind == 1:
            extreme = draw.choice(EXTREMES)
            changed[position : position + len(extreme)] = extreme
        elif kind == 2:
            del changed[position : position + draw.randrange(1, 9)]
        elif kind == 3:
            changed[position:position] = draw.randbytes(draw.randrange(1, 9))
        elif kind == 4:
            changed[position:] = changed[position : position + draw.randrange(1, 40)] * 3
        else:
            changed[position : position + 4] = draw.randbytes(4)
    if draw.random() < 0.9 and len(changed) > 4:
        changed[:4] = struct.pack(">i", len(changed) - 4)
    return bytes(changed)


def attack(draw: random.Random) -> bytes:
    """What one bad peer sends: some good frames, then something that may not be one."""
    pieces = []
    for _ in range(draw.randrange(4)):
        request, versions = draw.choice(REQUESTS)
        pieces.append(frame(request, draw.choice(versions), draw.randrange(2**31)))
    kind = draw.randrange(10)
    if kind == 0:
        pieces.append(draw.randbytes(draw.randrange(1, 3000)))
    elif kind == 1:
        pieces.append(draw.choice(OPENINGS))
    elif kind == 2:
        pieces.append(struct.pack(">i", draw.randrange(-10, 300)) + draw.randbytes(300))
    elif kind == 3:
        body = struct.pack(">hh", draw.randrange(-5, 100), draw.randrange(-3, 25))
        body += draw.randbytes(draw.randrange(60))
        pieces.append(struct.pack(">i", len(body)) + body)
    else:
        for _ in range(draw.randrange(1, 4)):
            request, versions = draw.choice(REQUESTS)
            pieces.append(mutate(draw, frame(request, draw.choice(versions), 7)))
    return b"".join(pieces)


def handlers(draw: random.Random) -> list[Any]:
    def hot(key: ApiKey) -> Any:
        made = response_class(key)

        def handle(node: Any, context: Any, request: Any) -> object:
            chance = draw.random()
            if chance < 0.1:
                asyncio.get_running_loop().call_later(draw.random() / 200, context.respond, made())
                return DEFERRED
            if chance < 0.15 and key == ApiKey.PRODUCE:
                return NO_RESPONSE
            return made()

        return handle

    def cold(key: ApiKey) -> Any:
        made = response_class(key)

        async def handle(node: Any, context: Any, request: Any) -> object:
            await asyncio.sleep(draw.random() / 500)
            return made()

        return handle

    cold_keys = {ApiKey.CREATE_TOPICS, ApiKey.METADATA}
    keys = [request.API_KEY for request, _ in REQUESTS]
    return [api(key, (cold if key in cold_keys else hot)(key)) for key in keys]


async def one_bad_peer(served: Serving, draw: random.Random) -> None:
    peer = await served.connect()
    data = attack(draw)
    while data:
        step = draw.choice((len(data), len(data), 1, 7, 100))
        peer.send(data[:step])
        data = data[step:]
        if draw.random() < 0.3:
            await asyncio.sleep(0)
    ending = draw.random()
    if ending < 0.3:
        peer.reset()
    elif ending < 0.6:
        peer.close()
    else:
        try:
            peer.writer.write_eof()
            await peer.closed()
        except OSError:
            pass
        peer.close()


async def good_peer(served: Serving, peer: Peer, done: asyncio.Event) -> int:
    served_requests = 0
    while not done.is_set():
        response = await peer.ask(ApiVersionsRequest(), 0, served_requests)
        assert isinstance(response, ApiVersionsResponse)
        served_requests += 1
        await asyncio.sleep(0)
    return served_requests


@on_loop
async def test_bad_peers_hurt_nobody(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    draw = random.Random(SEED)
    print(f"BARNABAS_FUZZ_SEED={SEED} pytest tests/server/test_fuzz.py")
    rounds = 0
    async with serving(
        *handlers(random.Random(SEED)), settings={"max_request_bytes": 1_000_000}
    ) as served:
        done = asyncio.Event()
        innocent = await served.connect()
        good = asyncio.create_task(good_peer(served, innocent, done))
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and not good.done():
            peers = [random.Random(draw.random()) for _ in range(8)]
            await asyncio.gather(*(one_bad_peer(served, peer) for peer in peers))
            served._peers.clear()
            rounds += 8
        done.set()
        assert await good > 10
        await served.until(lambda: len(served.listener.connections) == 1)
        await served.until(lambda: not served.pipeline.tasks)
        assert served.network.limits.count == 1
        assert served.pipeline.requests_in_flight == 0
        assert len(served.network.wheel) == 1
        assert served.pipeline.peers.malformed_total > rounds // 10
        await innocent.ask(ApiVersionsRequest(), 0)
    assert rounds > 100
    bugs = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in bugs] == []
