"""Which resources the HTTP endpoint has: metrics, health and readiness."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from barnabas.server.http import TEXT, Answer, HttpServer
from barnabas.server.metrics import CONTENT_TYPE, Metrics
from barnabas.server.network import Network


def serve_http(
    host: str, port: int, network: Network, metrics: Metrics, not_ready: Callable[[], str | None]
) -> HttpServer:
    """Serve `/metrics`, `/healthz` and `/ready`.

    `not_ready()` gives why the node cannot serve requests yet, or None when it can.
    """

    async def scrape() -> Answer:
        loop = asyncio.get_running_loop()
        return 200, CONTENT_TYPE, await loop.run_in_executor(None, metrics.render)

    async def health() -> Answer:
        return 200, TEXT, b"ok\n"

    async def ready() -> Answer:
        reason = not_ready()
        return (200, TEXT, b"ready\n") if reason is None else (503, TEXT, f"{reason}\n".encode())

    return HttpServer(
        host,
        port,
        transport=network.transport,
        loop=network.loop,
        wheel=network.wheel,
        resources={"/metrics": scrape, "/healthz": health, "/ready": ready},
    )
