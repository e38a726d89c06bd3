"""The producer for plain code: thread-safe, and quick because nearly nothing happens once a record.

    with Producer(bootstrap_servers="localhost:9092", linger_ms=5) as producer:
        future = producer.send("orders", b"two pints", key=b"customer 7")
        print(future.result())        # RecordMetadata(topic, partition, offset, timestamp_ms)

`send` puts a record into its partition's batch and gives a future. When a batch is full, the thread that
filled it sends it and takes in what answers have come; a background thread sends batches that have
lingered and takes in the rest. It also calls `on_delivery(metadata, error)` and the callbacks of
futures; a caller who waits in `flush`, `close` or `result` may call them too. `send` never does.

A record is refused where it is sent, by an exception, or accepted; what was accepted is acknowledged or
fails within `delivery.timeout.ms`, whatever happens to the caller. So leaving a `with` block waits for
what was accepted, after an exception too; Ctrl-C ends that wait. A program that ends without `close`
sends what it can within `EXIT_FLUSH_S` seconds, and logs how many records it had to give up.
"""

from __future__ import annotations

import atexit
import functools
import logging
import weakref
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from barnabas.client.cluster import Cluster
from barnabas.client.core.batch import DeliveryCallback, ProducerBatch, RecordMetadata
from barnabas.client.errors import RequestTimeout
from barnabas.client.kernels_producer import SendFuture
from barnabas.client.lifetime import look_after
from barnabas.client.producing import ProducerFace
from barnabas.client.pump import NEVER, Pump
from barnabas.client.sending import EncodedHeaders, ProducerEngine
from barnabas.client.table_rows import TableFuture, rows_of

if TYPE_CHECKING:
    from barnabas.client.kernels_producer import Headers

__all__ = ["Producer", "RecordMetadata", "SendFuture"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

EXIT_FLUSH_S: Final = 5.0

_open: weakref.WeakSet[Producer] = weakref.WeakSet()


class Producer(ProducerFace):
    """Options are Kafka's, with underscores as keywords or with dots in a dict."""

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
        ) -> SendFuture: ...

    def __init__(
        self,
        options: Mapping[str, Any] | None = None,
        /,
        **more: Any,
    ) -> None:
        self._pump = Pump()
        self._guard = self._pump.lock
        self._started = False
        super().__init__(options, more, self._pump.reactor)
        engine, pump = self._engine, self._pump
        engine.wait_for = functools.partial(wait_for, pump, engine)
        look_after(self, pump, engine.cluster, functools.partial(engine.close, None))
        pump.on_fork = engine.abandon
        _open.add(self)

    @property
    def cluster(self) -> Cluster:
        return self._engine.cluster

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if not self._started:
            self._started = True
            self._pump.start("barnabas-producer")
        try:
            return self._pump.run(coroutine)
        except Exception:
            raise
        except BaseException:
            make_whole(self._pump, self._engine)
            raise

    def _send_slowly(
        self,
        topic: Any,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        headers: EncodedHeaders,
        timestamp_ms: int | None,
        on_delivery: DeliveryCallback | None,
    ) -> SendFuture:
        engine = self._engine
        size = engine.check(topic, value, key, partition, headers, timestamp_ms, on_delivery)
        record = (topic, value, key, partition, headers, timestamp_ms, on_delivery)
        pump = self._pump
        with pump.lock:
            try:
                future = self._begin(size, *record)
                if future is not None and engine.sender.in_flight:
                    pump.poll()
            except Exception:
                raise
            except BaseException:
                make_whole(pump, engine)
                raise
        return future or self._run(engine.send_waiting(size, *record))

    def send_arrow(self, topic: str, table: Any) -> TableFuture:
        """Queue every row of a table, without making objects of them; what it gives is done when all
        are. Columns: `value`, `key`, `timestamp`, `partition`, `headers`. Serializers, interceptors
        and a partitioner function are not asked."""
        return self._run(self._engine.send_rows(topic, rows_of(table, topic)))

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far is acknowledged or has failed."""
        if self._engine.accumulator.incomplete:
            self._run(self._engine.flush(timeout))

    def partitions_for(self, topic: str) -> list[int]:
        """The partitions of a topic, created if the brokers create topics by themselves."""
        return self._run(self._engine.partitions_for(topic))

    def close(self, timeout: float | None = None) -> None:
        """Send what was accepted, for at most `timeout` seconds, and end. Idempotent. Records that
        were not acknowledged by then fail; a warning says how many. 0 gives up at once."""
        if self._engine.closing:
            return
        lost = 0
        try:
            lost = self._run(self._engine.close(timeout))
        finally:
            _open.discard(self)
            with self._pump.lock:
                if not self._engine.cluster.closed:  # the wait was interrupted
                    lost = self._engine.end()
                self._pump.reactor.run_outside()
            self._pump.close()
            if lost:
                logger.warning("The producer was closed before %d records were sent", lost)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def wait_for(
    pump: Pump, engine: ProducerEngine, batch: ProducerBatch, timeout: float | None
) -> None:
    """Wait until a batch is done. No method, because a future must not keep its producer alive."""
    deadline = NEVER if timeout is None else pump.reactor.now() + timeout
    try:
        with pump.lock:
            engine.hurry(batch)
        # Without the lock: a turn gives up one hold of it while it waits, not two.
        done = pump.wait(lambda: batch.done, deadline)
    except Exception:
        raise
    except BaseException:
        make_whole(pump, engine)
        raise
    if not done:
        raise RequestTimeout(
            f"the acknowledgement of a record for {batch.topic}-{batch.partition}",
            int((timeout or 0.0) * 1000),
        )


def make_whole(pump: Pump, engine: ProducerEngine) -> None:
    """After Ctrl-C fell into the engine."""
    with pump.lock:
        if not pump.closed:
            engine.interrupted()


@atexit.register
def _close_all() -> None:
    for producer in list(_open):
        if producer._engine.accumulator.incomplete:
            logger.warning("A producer was not closed; what it has is sent now")
        producer.close(EXIT_FLUSH_S)
