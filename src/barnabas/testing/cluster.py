"""A real broker inside this process, for tests.

It is the same broker as in production, with its own event loop in a thread of its own, on a free port,
with its data in a temporary directory that goes away with it. Any Kafka client can use it:

    with Cluster() as cluster:
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})

Starting takes a few milliseconds, as nothing is forked, formatted by hand or waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tempfile
import threading
from collections.abc import Awaitable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

if TYPE_CHECKING:
    from barnabas.server.node import Node

T = TypeVar("T")

logger = logging.getLogger(__name__)

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0


class Cluster:
    """`overrides` are broker settings; `data` a directory to keep, in place of a temporary one."""

    def __init__(
        self,
        *,
        overrides: Mapping[str, object] | None = None,
        data: str | Path | None = None,
        port: int = 0,
    ) -> None:
        self._overrides = {key: _text(value) for key, value in (overrides or {}).items()}
        self._port = port
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if data is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="barnabas-")
            data = self._temporary.name
        self.data = Path(data)
        self._node: Node | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def node(self) -> Node:
        """The running broker. Its loop is in another thread: look, do not touch."""
        if self._node is None:
            raise RuntimeError(
                "the cluster is not running; use it as a context manager or call start()"
            )
        return self._node

    @property
    def bootstrap_servers(self) -> str:
        return self.node.bootstrap_servers

    @property
    def cluster_id(self) -> str:
        return self.node.cluster_id

    def start(self) -> Self:
        if self._thread is not None:
            raise RuntimeError("the cluster is already running")
        started: threading.Event = threading.Event()
        failure: list[BaseException] = []
        self._thread = threading.Thread(
            target=self._run, args=(started, failure), name="barnabas", daemon=True
        )
        self._thread.start()
        if not started.wait(START_TIMEOUT_S):
            raise TimeoutError(f"the broker did not start within {START_TIMEOUT_S:.0f} s")
        if failure:
            self._thread.join()
            self._thread = None
            raise failure[0]
        return self

    def stop(self) -> None:
        """Shut down cleanly. The data stays until `close()` if it is temporary."""
        if self._thread is None or self._loop is None or self._node is None:
            return
        node, loop = self._node, self._loop
        with contextlib.suppress(RuntimeError):  # it may have stopped by itself, and its loop too
            loop.call_soon_threadsafe(lambda: loop.create_task(node.stop()))
        self._thread.join(STOP_TIMEOUT_S)
        if self._thread.is_alive():
            raise TimeoutError(f"the broker did not stop within {STOP_TIMEOUT_S:.0f} s")
        self._thread = self._loop = self._node = None

    def restart(self) -> None:
        """Stop and start on the same data and the same port."""
        self._port = self.node.port
        self.stop()
        self.start()

    def close(self) -> None:
        self.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, object] | None = None,
    ) -> str:
        """Create a topic and wait until it can be used; gives its name."""
        from barnabas.wire.errors import ApiError, ErrorCode
        from barnabas.wire.messages.create_topics import (
            CreatableTopic,
            CreatableTopicConfig,
            CreateTopicsRequest,
        )

        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=1,
                    configs=[
                        CreatableTopicConfig(name=key, value=_text(value))
                        for key, value in (configs or {}).items()
                    ],
                )
            ]
        )
        if self._loop is None:
            raise RuntimeError("the cluster is not running")
        created = asyncio.run_coroutine_threadsafe(
            _await(self.node.controller.create_topics(request)), self._loop
        ).result(START_TIMEOUT_S)
        result = created.topics[0]
        if result.error_code:
            raise ApiError(ErrorCode.of(result.error_code), result.error_message)
        return name

    def _run(self, started: threading.Event, failure: list[BaseException]) -> None:
        async def main() -> None:
            from barnabas.config.support import warnings
            from barnabas.server.development import development_node

            try:
                node = development_node(
                    data=str(self.data), port=self._port, overrides=self._overrides
                )
                for warning in warnings(node.static_config):
                    logger.warning("%s", warning)
                await node.start()
            except BaseException as error:
                failure.append(error)
                started.set()
                return
            self._node = node
            self._loop = asyncio.get_running_loop()
            started.set()
            await node.stopped()

        asyncio.run(main())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


async def _await(awaitable: Awaitable[T]) -> T:
    return await awaitable


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
