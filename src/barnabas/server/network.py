"""The network side of a node: its listeners, connections and timers under one roof.

Made once per node. `listen` may be called several times, with different pipelines: a controller
listener serves other APIs than a broker listener. All listeners share the limits on connections,
the receive memory and the timing wheel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from barnabas.delayed.timer import TimingWheel
from barnabas.seams import Clock, Transport
from barnabas.server.connection import (
    HOLD_SHUTDOWN,
    Connection,
    ConnectionSettings,
    Environment,
)
from barnabas.server.connection_limits import ConnectionLimits
from barnabas.server.endpoint import Endpoint
from barnabas.server.listener import Listener
from barnabas.server.pipeline import Pipeline
from barnabas.server.timers import TimerDriver

_DRAIN_STEP_S = 0.01


class Network:
    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        transport: Transport,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self.loop = loop
        self.clock = clock
        self.transport = transport
        self.limits = limits or ConnectionLimits()
        self.wheel = TimingWheel(clock.monotonic_ms)
        self.environment = Environment(loop, clock, self.wheel)
        self.timers = TimerDriver(self.wheel, loop, clock, self.environment.turn)
        self.listeners: list[Listener] = []
        self.pipelines: list[Pipeline] = []

    def listen(
        self,
        endpoints: Sequence[Endpoint],
        pipeline: Pipeline,
        settings: ConnectionSettings,
        *,
        backlog: int = 50,
        send_buffer_bytes: int = 100 * 1024,
        receive_buffer_bytes: int = 100 * 1024,
    ) -> list[Listener]:
        """Listen on all endpoints or on none."""
        opened: list[Listener] = []
        try:
            for endpoint in endpoints:
                listener = Listener(
                    endpoint,
                    transport=self.transport,
                    environment=self.environment,
                    pipeline=pipeline,
                    settings=settings,
                    limits=self.limits,
                    backlog=backlog,
                    send_buffer_bytes=send_buffer_bytes,
                    receive_buffer_bytes=receive_buffer_bytes,
                    when_closed=self.make_room,
                )
                opened.append(listener)
        except BaseException:
            for listener in opened:
                listener.close()
            raise
        self.listeners += opened
        if pipeline not in self.pipelines:
            self.pipelines.append(pipeline)
        return opened

    def connections(self) -> list[Connection]:
        return [connection for listener in self.listeners for connection in listener.connections]

    def stop_accepting(self) -> None:
        for listener in self.listeners:
            listener.stop_accepting()

    def stop_reading(self) -> None:
        """Take no further request; those that were read are still answered."""
        for connection in self.connections():
            connection.hold(HOLD_SHUTDOWN)

    async def drain(self, timeout_s: float) -> None:
        """Give requests in flight and unsent answers up to `timeout_s` to leave."""
        deadline = self.loop.time() + timeout_s
        for pipeline in self.pipelines:
            await pipeline.drain(max(0.0, deadline - self.loop.time()))
        while self.loop.time() < deadline and self._is_busy():
            await asyncio.sleep(_DRAIN_STEP_S)

    def _is_busy(self) -> bool:
        return any(pipeline.requests_in_flight for pipeline in self.pipelines) or any(
            connection.unsent_bytes for connection in self.connections()
        )

    def close(self) -> None:
        """Close every listener and connection, and stop the timers."""
        for listener in self.listeners:
            listener.close()
        self.timers.close()

    def make_room(self) -> None:
        """Accept again where the limits allow it: a connection has gone, or a limit was raised."""
        for listener in self.listeners:
            listener.make_room()
