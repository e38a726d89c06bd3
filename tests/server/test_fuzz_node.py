"""Requests that can be read and make no sense, and mutated ones, against every API of a whole node.

Each field gets something from a small box: names that exist and names that cannot, numbers at the
edges, real batches and broken ones. Whatever is asked, no handler fails, and another client is served
all the while. The time is bounded; the seed of a failure is printed and `BARNABAS_FUZZ_SEED` replays
it, `BARNABAS_FUZZ_SECONDS` makes it longer.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from barnabas.record.build import build_batch
from barnabas.wire.api_keys import ApiKey, request_class
from barnabas.wire.fields import Field
from barnabas.wire.layout import Layout, element_field
from barnabas.wire.message import Struct
from barnabas.wire.uuids import ZERO
from tests.server.running import Running, create_topic, running, send
from tests.server.serving import frame, on_loop
from tests.server.test_fuzz import mutate

SECONDS = float(os.environ.get("BARNABAS_FUZZ_SECONDS", "6"))
SEED = int(os.environ.get("BARNABAS_FUZZ_SEED", "20260301"))

NAMES = ["t", "t", "compacted", "new", "g", "g", "", "..", "a/b", "x" * 250, "é\u2028", "1", "2",
         "__consumer_offsets", "cleanup.policy", "retention.ms", "compact", "consumer", "range",
         "max.connections.per.ip.overrides", "metadata.version"]  # fmt: skip
NUMBERS = [0, 0, 0, 1, 1, 2, 3, 5, 100, -1, -1, -2, -3, -4, -5, -128, 127]
EDGES = {
    "int16": [32767, -32768],
    "int32": [2**31 - 1, -(2**31), 1_000_000],
    "int64": [2**63 - 1, -(2**63), 1_700_000_000_000, 2**40],
}


class Maker:
    def __init__(self, draw: random.Random, topic_ids: list[bytes]) -> None:
        self._draw = draw
        self._uuids = [*topic_ids, *topic_ids, ZERO, bytes(range(16))]

    def request(self, key: ApiKey, version: int) -> Any:
        cls: Any = request_class(key)
        return self._struct(Layout(cls, version), cls)

    def _struct(self, layout: Layout, cls: type[Struct]) -> Any:
        fields = {f.name: self._value(layout, f) for f in cls.FIELDS if layout.has(f)}
        return cls(**fields)

    def _value(self, layout: Layout, field: Field) -> Any:
        draw = self._draw
        if layout.nullable(field) and draw.random() < 0.2:
            return None
        kind = field.kind
        if kind == "array":
            count = draw.choice((0, 1, 1, 1, 2, 3))
            return [self._value(layout, element_field(field)) for _ in range(count)]
        if kind == "struct":
            return self._struct(layout, field.struct)
        if field.name.endswith("timeout_ms") or field.name == "max_wait_ms":
            return draw.choice((0, 1, 30, 6000, -1))
        if kind == "string":
            return draw.choice(NAMES)
        if kind == "records":
            return self._records()
        if kind == "binary":
            return draw.randbytes(draw.choice((0, 1, 40)))
        if kind == "uuid":
            return draw.choice(self._uuids)
        if kind == "boolean":
            return draw.random() < 0.5
        if kind == "float64":
            return draw.choice((0.0, 1.0, -1.0, 1e300, float("inf"), float("nan")))
        if kind == "uint16":
            return draw.choice((0, 1, 9092, 65535))
        return draw.choice(NUMBERS if draw.random() < 0.85 else EDGES.get(kind, NUMBERS))

    def _records(self) -> bytes:
        draw = self._draw
        records = [
            (draw.choice((1, 1_700_000_000_000, -1)), draw.choice((b"k", None)), b"v" * 9, ())
            for _ in range(draw.randrange(1, 4))
        ]
        batch = bytearray(build_batch(records))
        for _ in range(draw.choice((0, 0, 1, 3))):
            batch[draw.randrange(len(batch))] = draw.randrange(256)
        return bytes(batch[: draw.choice((len(batch), len(batch), draw.randrange(len(batch))))])


async def one_bad_peer(run: Running, draw: random.Random, topic_ids: list[bytes]) -> None:
    peer = await run.connect()
    make = Maker(draw, topic_ids)
    served = [
        (key, versions)
        for key, versions in run.node.advertised_versions().items()
        # It does what it says: the broker would be gone.
        if key is not ApiKey.UNREGISTER_BROKER
    ]
    for correlation_id in range(draw.randrange(1, 12)):
        key, (lowest, highest) = draw.choice(served)
        version = draw.randint(max(lowest, request_class(key).VERSIONS[0]), highest)
        data = frame(make.request(key, version), version, correlation_id, draw.choice(NAMES))
        peer.send(mutate(draw, data) if draw.random() < 0.15 else data)
    try:
        await peer.writer.drain()
        if draw.random() < 0.5:
            peer.writer.write_eof()
            await peer.closed()
    except OSError:
        pass
    peer.reset()
    run.peers.remove(peer)


@on_loop
async def test_no_question_is_too_strange(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    print(f"BARNABAS_FUZZ_SEED={SEED} pytest tests/server/test_fuzz_node.py")
    draw = random.Random(SEED)
    settings = {"group.min.session.timeout.ms": 1, "offsets.topic.num.partitions": 2}
    async with running(tmp_path, **settings) as run:
        innocent = await run.connect()
        await create_topic(innocent, "t", 2)
        await create_topic(innocent, "compacted", cleanup_policy="compact")
        await create_topic(innocent, "safe")
        topic_ids = [each.topic_id for each in run.node.metadata.image.topics.values()]
        rounds = 0
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            peers = [random.Random(draw.random()) for _ in range(4)]
            async with asyncio.timeout(60):
                await asyncio.gather(*(one_bad_peer(run, each, topic_ids) for each in peers))
            assert await send(innocent, "safe", b"still here") in (0, 3)
            rounds += 1
            bugs = [record for record in caplog.records if record.levelno >= logging.ERROR]
            assert [(bug.getMessage(), bug.exc_text or bug.exc_info) for bug in bugs] == []
        assert rounds > 5
        await run.until(lambda: run.node.network.limits.count == 1)
