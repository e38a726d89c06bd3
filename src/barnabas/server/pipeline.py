"""From frames to handlers and back: the table of APIs that a listener serves.

`Pipeline` is shared by all connections of one kind of listener. It finds the route of a request,
answers the one request that must be understood in any version (ApiVersions), refuses what is not
served, runs cold requests as tasks, and accounts for what was answered. `Channel` keeps the order
on each connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping
from types import ModuleType
from typing import Any

from barnabas.seams import Clock
from barnabas.server.api_metrics import ApiMetrics
from barnabas.server.channel import Channel
from barnabas.server.connection import Connection, ConnectionSettings
from barnabas.server.context import RequestContext
from barnabas.server.peers import PeerLog
from barnabas.server.request_log import RequestLog
from barnabas.server.route import Route
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode

logger = logging.getLogger("barnabas.request")


class Pipeline:
    """`apis` are the modules of `barnabas.api` that are served, by key."""

    def __init__(
        self,
        node: Any,
        apis: Mapping[ApiKey, ModuleType],
        *,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        request_log: RequestLog | None = None,
    ) -> None:
        self.node = node
        self.clock = clock
        self.logger = logger
        self.peers = PeerLog(clock)
        self.request_log = request_log
        self.routes: dict[int, Route] = {}
        self.channels: set[Channel] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self._apis = {int(key): module for key, module in apis.items()}
        self._loop = loop
        self.metrics: dict[int, ApiMetrics] = {
            key: ApiMetrics(_name(key)) for key in sorted(self._apis)
        }

    def open(
        self, connection: Connection, listener_name: str, settings: ConnectionSettings
    ) -> Channel:
        """Serve a new connection."""
        channel = Channel(self, connection, listener_name, settings)
        self.channels.add(channel)
        connection.start(channel)
        return channel

    @property
    def requests_in_flight(self) -> int:
        # A scrape asks from another thread: look at a copy.
        return sum(channel.in_flight for channel in tuple(self.channels))

    async def drain(self, timeout_s: float) -> None:
        """Wait for the tasks of cold requests, then cancel what is left."""
        if self.tasks:
            await asyncio.wait(set(self.tasks), timeout=timeout_s)
        for task in tuple(self.tasks):
            task.cancel()
        if self.tasks:
            await asyncio.gather(*self.tasks, return_exceptions=True)

    # What channels ask for

    def find_route(
        self, channel: Channel, key_and_version: int, correlation_id: int
    ) -> Route | None:
        """Make the route of a first request; refuse what is not served."""
        key, version = key_and_version >> 16, key_and_version & 0xFFFF
        module = self._apis.get(key)
        if module is not None:
            lowest, highest = module.VERSIONS
            if lowest <= version <= highest:
                route = Route(key, version, module, self.metrics[key])
                self.routes[key_and_version] = route
                return route
            if key == ApiKey.API_VERSIONS:
                self._answer_in_version_0(channel, module, correlation_id)
                return None
        self._refuse(channel, _signed(key), _signed(version))
        return None

    def start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._task_done)

    def sent(self, answered: list[RequestContext], now_ns: int) -> None:
        for context in answered:
            context.route.metrics.record(context, now_ns)
        if self.request_log is not None:
            self.request_log.write(answered, now_ns)

    def closed(self, channel: Channel, reason: str) -> None:
        self.channels.discard(channel)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("A request's task failed", exc_info=task.exception())

    def _answer_in_version_0(
        self, channel: Channel, module: ModuleType, correlation_id: int
    ) -> None:
        from barnabas.wire.messages.api_versions import ApiVersion, ApiVersionsResponse

        lowest, highest = module.VERSIONS
        response = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[
                ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=lowest, max_version=highest)
            ],
        )
        route = Route(ApiKey.API_VERSIONS, 0, module, self.metrics[ApiKey.API_VERSIONS])
        chunks: list[Any] = [b""]
        route.write(response, chunks)
        size = route.header_bytes + sum(map(len, chunks))
        chunks[0] = route.pack_header(size, correlation_id)
        route.metrics.count_errors((int(ErrorCode.UNSUPPORTED_VERSION),))
        channel.answer_raw(chunks, size + 4, correlation_id, route)

    def _refuse(self, channel: Channel, key: int, version: int) -> None:
        try:
            name = _name(key)
        except ValueError:
            channel.refuse(f"API key {key} (version {version}) is unknown")
            return
        module = self._apis.get(key)
        if module is None:
            channel.refuse(f"{name} (API key {key}, version {version}) is not served here")
        else:
            lowest, highest = module.VERSIONS
            channel.refuse(
                f"{name} version {version} is not supported; versions {lowest} to {highest} are"
            )


def _signed(value: int) -> int:
    return value - 0x10000 if value >= 0x8000 else value


def _name(key: int) -> str:
    """Kafka's name of an API: `CreateTopics`."""
    return ApiKey(key).name.title().replace("_", "")


def close_all(channels: Iterable[Channel], reason: str) -> None:
    for channel in tuple(channels):
        channel.close(reason)
