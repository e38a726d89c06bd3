"""Pieces of a virtual world for tests that need no cluster."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from barnabas.sim.loop import VirtualClock, VirtualLoop
from barnabas.sim.network import VirtualNetwork
from barnabas.sim.scheduler import Scheduler
from barnabas.sim.stream import VirtualStream, VirtualTransport
from barnabas.sim.trace import Trace

SECOND_NS = 1_000_000_000


class World:
    def __init__(self, seed: int = 0) -> None:
        self.failures: list[str] = []
        self.scheduler = Scheduler()
        self.network = VirtualNetwork(
            self.scheduler, self.loop("world"), random.Random(seed), Trace(self.scheduler)
        )

    def loop(self, name: str, **clock: int) -> VirtualLoop:
        return VirtualLoop(
            name, self.scheduler, VirtualClock(self.scheduler, **clock), self.failures.append
        )

    def transport(self, host: str) -> tuple[VirtualTransport, VirtualLoop]:
        loop = self.loop(host)
        self.network.start(host)
        return VirtualTransport(self.network, host, loop), loop

    def run(self, loop: VirtualLoop, work: Coroutine[Any, Any, Any], seconds: float = 60) -> Any:
        task: asyncio.Task[Any] = loop.create_task(work)
        self.scheduler.run(self.scheduler.now_ns + int(seconds * SECOND_NS))
        return task.result()

    def go_on(self, seconds: float) -> None:
        self.scheduler.run(self.scheduler.now_ns + int(seconds * SECOND_NS))


def read_all(stream: VirtualStream) -> bytes:
    """What has arrived."""
    got = bytearray()
    buffer = bytearray(1000)
    while True:
        try:
            count = stream.recv_into(memoryview(buffer))
        except BlockingIOError:
            return bytes(got)
        if not count:
            return bytes(got)
        got += buffer[:count]
