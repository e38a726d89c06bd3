"""Running a node as this process: signals, limits, and the end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
from collections.abc import Callable

from barnabas.server.node import Node

logger = logging.getLogger(__name__)

INTERRUPTED = 130


def run_node(make: Callable[[], Node], started: Callable[[Node], None]) -> None:
    """Run until SIGTERM or Ctrl-C, then shut down cleanly; a second Ctrl-C does not wait for that.
    `make` is called on the loop."""
    raise_open_files_limit()
    asyncio.run(_run(make, started))


async def _run(make: Callable[[], Node], started: Callable[[Node], None]) -> None:
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    node = make()

    def ask(number: int) -> None:
        if asked.is_set() and number == signal.SIGINT:
            logger.warning(
                "interrupted again: ending at once; the next start will recover the logs"
            )
            os._exit(INTERRUPTED)
        asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask, number)
    stop = asyncio.create_task(asked.wait())
    start = asyncio.create_task(node.start())
    await asyncio.wait([stop, start], return_when=asyncio.FIRST_COMPLETED)
    if not start.done():
        logger.info("asked to stop before the start was over")
        start.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await start
        return
    await start
    started(node)
    stopped = asyncio.create_task(node.stopped())
    await asyncio.wait([stop, stopped], return_when=asyncio.FIRST_COMPLETED)
    for wait in (stop, stopped):
        wait.cancel()
    await node.stop()
    if node.failure is not None:
        raise SystemExit(1)


def raise_open_files_limit() -> None:
    """Many partitions and connections need many descriptors; the hard limit is ours to use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and (hard == resource.RLIM_INFINITY or soft < hard):
        target = 1_048_576 if hard == resource.RLIM_INFINITY else hard
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
