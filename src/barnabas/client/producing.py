"""What the two producers share: the way of a record that needs more than the quick path.

`send` comes here with records that have headers, and with all records where interceptors, a partitioner
of the user, or missing compiled kernels ask for it. Nothing is buffered before everything about a
record was found right, so a refusal never leaves half of anything behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from barnabas.client.core.batch import DeliveryCallback
from barnabas.client.errors import ClientError, SerializationError
from barnabas.client.interceptors import ProducerRecord
from barnabas.client.kernels_producer import COMPILED, Accepted, SendFuture, SendPath
from barnabas.client.options import together
from barnabas.client.reactor import Reactor
from barnabas.client.sending import EncodedHeaders, ProducerEngine, unheard
from barnabas.client.serialization import serializer
from barnabas.client.settings import ProducerSettings, load


class ProducerFace(SendPath):
    """The part of a producer that neither waits nor awaits."""

    _guard: AbstractContextManager[Any]
    """Held while the engine is touched."""

    def __init__(
        self,
        options: Mapping[str, Any] | None,
        more: Mapping[str, Any],
        reactor: Reactor,
    ) -> None:
        super().__init__()
        settings = load(ProducerSettings, together(options, more))
        self._key_serializer = serializer(settings.key_serializer, "key")
        self._value_serializer = serializer(settings.value_serializer, "value")
        self._engine = ProducerEngine(settings, reactor, self)
        chain = self._engine.interceptors
        own = self._engine.partitioner is not None
        if chain.on_send or chain.on_acknowledgement or own:
            self._quick = False

    @property
    def settings(self) -> ProducerSettings:
        return self._engine.settings

    def metrics(self) -> dict[str, dict[str, Any]]:
        """`{group: {metric: number}}`, under the names of Kafka's JMX beans."""
        return self._engine.metrics.as_dict(self._engine.reactor.now())

    def prometheus(self) -> str:
        """The same in Prometheus' text format."""
        return self._engine.metrics.prometheus(self._engine.reactor.now())

    def _send_any(
        self,
        topic: Any,
        value: Any,
        key: Any,
        partition: Any,
        headers: Any,
        timestamp_ms: Any,
        on_delivery: DeliveryCallback | None,
    ) -> Any:
        chain = self._engine.interceptors
        if chain.on_send:
            given = ProducerRecord(topic, value, key, partition, headers or (), timestamp_ms)
            topic, value, key, partition, headers, timestamp_ms = chain.send(given)
        if not chain.on_acknowledgement:
            return self._send_prepared(
                topic, value, key, partition, headers, timestamp_ms, on_delivery
            )
        try:
            return self._send_prepared(
                topic, value, key, partition, headers, timestamp_ms, on_delivery or unheard
            )
        except ClientError as error:
            self._engine.refused_record(topic, partition, timestamp_ms, error)
            raise

    def _send_prepared(
        self,
        topic: Any,
        value: Any,
        key: Any,
        partition: Any,
        headers: Any,
        timestamp_ms: Any,
        on_delivery: DeliveryCallback | None,
    ) -> Any:
        if value is not None:
            value = self._serialized(topic, value, self._value_serializer, "value")
        if key is not None:
            key = self._serialized(topic, key, self._key_serializer, "key")
        encoded = encode_headers(topic, headers) if headers else None
        engine = self._engine
        lane = self._lanes.get(topic) if type(topic) is str else None
        if partition is None and engine.partitioner is not None and lane is not None:
            partition = engine.partition_by_function(topic, value, key, lane)
        if COMPILED:
            future = self._append(topic, value, key, partition, encoded, timestamp_ms, on_delivery)
        else:
            with self._guard:
                future = self._append(
                    topic, value, key, partition, encoded, timestamp_ms, on_delivery
                )
        if future is not None:
            return Accepted(future) if self._awaited else future
        return self._send_slowly(topic, value, key, partition, encoded, timestamp_ms, on_delivery)

    def _send_slowly(
        self,
        topic: Any,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        headers: EncodedHeaders,
        timestamp_ms: int | None,
        on_delivery: DeliveryCallback | None,
    ) -> Any:
        raise NotImplementedError

    def _begin(self, size: int, *record: Any) -> SendFuture | None:
        """With the guard: append what needs no waiting, and have it sent if it is due."""
        future = self._engine.append(size, *record)
        if future is not None:
            self._engine.turn()
        return future


def encode_headers(topic: Any, headers: Any) -> EncodedHeaders:
    """Headers as pairs of bytes: text becomes UTF-8, None stays."""
    try:
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        return [(_header_key(name), _header_value(content)) for name, content in pairs]
    except (TypeError, ValueError) as error:
        raise SerializationError(
            f"The headers of a record for topic {topic} are not pairs of text and bytes: {error}.",
            topic=topic,
            field="headers",
            next_step="Give a list like [('trace', b'1')], or a dict.",
        ) from None


def _header_key(name: Any) -> bytes:
    if type(name) is not str:
        raise TypeError(f"a header's key is of type {type(name).__name__}")
    return name.encode("utf-8", "surrogateescape")


def _header_value(content: Any) -> bytes | None:
    if content is None or type(content) is bytes:
        return content
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, (bytes, bytearray, memoryview)):
        return bytes(content)
    raise TypeError(f"a header's value is of type {type(content).__name__}")
