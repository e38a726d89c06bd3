"""Barnabas: Apache Kafka's system in Python.

The clients are `Producer`, `Consumer` and `Admin`, and the same for asyncio with `Async` before their
names. Nothing is loaded before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.client.admin import Admin as Admin
    from barnabas.client.admin import AsyncAdmin as AsyncAdmin
    from barnabas.client.async_producer import AsyncProducer as AsyncProducer
    from barnabas.client.consumer import AsyncConsumer as AsyncConsumer
    from barnabas.client.consumer import Consumer as Consumer
    from barnabas.client.core.batch import RecordMetadata as RecordMetadata
    from barnabas.client.core.offsets import OffsetAndMetadata as OffsetAndMetadata
    from barnabas.client.core.offsets import TopicPartition as TopicPartition
    from barnabas.client.kernels_consumer import ConsumerRecord as ConsumerRecord
    from barnabas.client.producer import Producer as Producer

_PLACES = {
    "Admin": "barnabas.client.admin",
    "AsyncAdmin": "barnabas.client.admin",
    "AsyncConsumer": "barnabas.client.consumer",
    "AsyncProducer": "barnabas.client.async_producer",
    "Consumer": "barnabas.client.consumer",
    "ConsumerRecord": "barnabas.client.kernels_consumer",
    "OffsetAndMetadata": "barnabas.client.core.offsets",
    "Producer": "barnabas.client.producer",
    "RecordMetadata": "barnabas.client.core.batch",
    "TopicPartition": "barnabas.client.core.offsets",
}

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "Consumer",
    "ConsumerRecord",
    "OffsetAndMetadata",
    "Producer",
    "RecordMetadata",
    "TopicPartition",
]


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'barnabas' has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(place), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
