"""Barnabas's own clients in the simulation: their reactor on a virtual loop, network and clock."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from barnabas.client.looping import AsyncioReactor
from barnabas.client.reactor import Connected, Timer
from barnabas.sim.loop import VirtualLoop
from barnabas.sim.stream import VirtualTransport


class VirtualReactor(AsyncioReactor):
    """What a client takes from the world, taken from the simulated one."""

    def __init__(self, loop: VirtualLoop, transport: VirtualTransport, rng: random.Random) -> None:
        super().__init__(loop)
        self.random = rng.random
        self._clock = loop.clock
        self._transport = transport

    def wall_ms(self) -> int:
        return self._clock.now_ms()

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """A nanosecond later, since the loop's clock has whole ones: `now()` has reached `when`."""
        return super().call_at(when + 1e-9, callback)

    def connect(self, host: str, port: int, timeout_s: float, done: Connected) -> Timer:
        attempt: Any = self.spawn(self._connect(host, port, timeout_s, done))
        timer: Timer = attempt
        return timer

    async def _connect(self, host: str, port: int, timeout_s: float, done: Connected) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                stream = await self._transport.connect(host, port)
        except OSError as error:  # a TimeoutError is one
            done(None, error)
        else:
            done(stream, None)
