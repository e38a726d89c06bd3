"""The producer for asyncio: the same as `Producer`, with `await`.

    async with AsyncProducer(bootstrap_servers="localhost:9092") as producer:
        future = await producer.send("orders", b"two pints")    # accepted
        print(await future)                                     # acknowledged

`await send(…)` waits only where a record cannot be accepted at once (metadata of a new topic, no room in
`buffer.memory`); what it gives is awaited for the acknowledgement. Records of one task keep their
order if each `send` is awaited before the next. Callbacks run on the loop.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Mapping
from contextlib import nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from barnabas.client.cluster import Cluster
from barnabas.client.core.batch import DeliveryCallback, RecordMetadata
from barnabas.client.errors import ClientError
from barnabas.client.kernels_producer import SendFuture
from barnabas.client.lifetime import look_after_on_loop
from barnabas.client.looping import AsyncioReactor
from barnabas.client.producing import ProducerFace
from barnabas.client.reactor import Reactor
from barnabas.client.sending import EncodedHeaders
from barnabas.client.table_rows import TableFuture, rows_of

if TYPE_CHECKING:
    from barnabas.client.kernels_producer import Headers

logger = logging.getLogger(__name__)


class AsyncProducer(ProducerFace):
    """Made where a loop runs. Options are Kafka's, with underscores as keywords or with dots in a
    dict."""

    if TYPE_CHECKING:

        def send(
            self,
            topic: str,
            value: Any = None,
            key: Any = None,
            *,
            partition: int | None = None,
            headers: Headers | None = None,
            timestamp_ms: int | None = None,
            on_delivery: DeliveryCallback | None = None,
        ) -> Awaitable[SendFuture]: ...

    def __init__(
        self,
        options: Mapping[str, Any] | None = None,
        /,
        *,
        reactor: Reactor | None = None,
        **more: Any,
    ) -> None:
        self._guard = nullcontext()
        super().__init__(options, more, reactor or AsyncioReactor())
        self._awaited = True
        engine = self._engine
        if isinstance(engine.reactor, AsyncioReactor):
            close = functools.partial(engine.close, None)
            look_after_on_loop(self, engine.reactor, engine.cluster, close)

    @property
    def cluster(self) -> Cluster:
        return self._engine.cluster

    def _send_slowly(
        self,
        topic: Any,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        headers: EncodedHeaders,
        timestamp_ms: int | None,
        on_delivery: DeliveryCallback | None,
    ) -> Awaitable[SendFuture]:
        engine = self._engine
        size = engine.check(topic, value, key, partition, headers, timestamp_ms, on_delivery)
        record = (topic, value, key, partition, headers, timestamp_ms, on_delivery)
        return self._accept(self._begin(size, *record), size, record)

    async def _accept(
        self, future: SendFuture | None, size: int, record: tuple[Any, ...]
    ) -> SendFuture:
        if future is None:
            try:
                return await self._engine.send_waiting(size, *record)
            except ClientError as error:
                self._engine.refused_record(record[0], record[3], record[5], error)
                raise
        # Once a batch the loop gets its turn, whatever the pace of the sender.
        await asyncio.sleep(0)
        return future

    async def send_and_wait(self, topic: str, value: Any = None, **more: Any) -> RecordMetadata:
        """Send one record and wait for its acknowledgement."""
        return await (await self.send(topic, value, **more))

    async def send_arrow(self, topic: str, table: Any) -> TableFuture:
        """Queue every row of a table, without making objects of them; what it gives is awaited until
        all are acknowledged. Columns: `value`, `key`, `timestamp`, `partition`, `headers`.
        Serializers, interceptors and a partitioner function are not asked."""
        return await self._engine.send_rows(topic, rows_of(table, topic))

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far is acknowledged or has failed."""
        await self._engine.flush(timeout)

    async def partitions_for(self, topic: str) -> list[int]:
        """The partitions of a topic, created if the brokers create topics by themselves."""
        return await self._engine.partitions_for(topic)

    async def close(self, timeout: float | None = None) -> None:
        """Send what was accepted, for at most `timeout` seconds, and end. Idempotent. Records that
        were not acknowledged by then fail; a warning says how many."""
        lost = await self._engine.close(timeout)
        if lost:
            logger.warning("The producer was closed before %d records were sent", lost)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
