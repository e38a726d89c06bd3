"""Topics that exist because somebody asked for them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from barnabas.server import auto_create
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import metadata
from tests.server.running import Running, running
from tests.server.serving import Peer, on_loop


def asked(*names: str) -> metadata.MetadataRequest:
    return metadata.MetadataRequest(
        topics=[metadata.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=True,
    )


async def codes(peer: Peer, *names: str) -> list[tuple[ErrorCode, int]]:
    answer = await peer.ask(asked(*names), 12)
    return [(ErrorCode(topic.error_code), len(topic.partitions)) for topic in answer.topics]


def counted(run: Running, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many topics each request to the controller has."""
    sizes: list[int] = []
    create_topics = run.node.controller.create_topics

    async def count(request: Any) -> Any:
        sizes.append(len(request.topics))
        return await create_topics(request)

    monkeypatch.setattr(run.node.controller, "create_topics", count)
    return sizes


@on_loop
async def test_topics_of_one_request_are_one_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, num_partitions=2) as run:
        sizes = counted(run, monkeypatch)
        first, second = await run.connect(), await run.connect()
        names = [f"t{n}" for n in range(6)]
        answers = await asyncio.gather(codes(first, *names, "a b"), codes(second, *names, "u"))
        created = [(ErrorCode.NONE, 2)] * 6
        assert answers[0] == [*created, (ErrorCode.INVALID_TOPIC_EXCEPTION, 0)]
        assert answers[1] == [*created, (ErrorCode.NONE, 2)]
        assert sizes == [7, 1]


@on_loop
async def test_a_change_is_no_larger_than_the_controller_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, num_partitions=4) as run:
        monkeypatch.setattr(auto_create, "MAX_RECORDS_PER_REQUEST", 11)
        sizes = counted(run, monkeypatch)
        answer = await codes(await run.connect(), "a", "b", "c", "d", "e")
        assert answer == [(ErrorCode.NONE, 4)] * 5
        assert sizes == [2, 2, 1]


@on_loop
async def test_too_many_at_once_are_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as run:
        monkeypatch.setattr(auto_create, "MAX_CREATING", 3)
        peer = await run.connect()
        names = [f"t{n}" for n in range(5)]
        there, unknown = (ErrorCode.NONE, 1), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
        assert await codes(peer, *names) == [there] * 3 + [unknown] * 2
        assert await codes(peer, *names) == [there] * 5
