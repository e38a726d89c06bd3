"""Producers and consumers over TLS and SASL, plain and asyncio, against Apache Kafka."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

import pytest

from barnabas import AsyncConsumer, AsyncProducer, Consumer, Producer
from barnabas.client.errors import AuthenticationError
from tests.peers.test_client_security import LIFETIME_MS, USERS, SecureBroker, secure

__all__ = ["secure"]

LOGIN = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "alice"}
WAYS: list[tuple[str, dict[str, Any]]] = [
    ("TLS", {}),
    ("LOGIN", {**LOGIN, "sasl_password": USERS["alice"]}),
    ("BOTH", {**LOGIN, "sasl_password": USERS["alice"]}),
]
COUNT = 2_000


def values(count: int = COUNT) -> list[str]:
    """Some small, some larger than a TLS record."""
    return [f"{number}:" + "x" * (40_000 if number % 400 == 0 else 100) for number in range(count)]


@pytest.mark.parametrize(("listener", "more"), WAYS)
def test_plain_clients(secure: SecureBroker, listener: str, more: dict[str, Any]) -> None:
    topic, options = f"plain-{uuid.uuid4().hex}", secure.options(listener, **more)
    with Producer(options, value_serializer="string") as producer:
        for value in values():
            producer.send(topic, value)
        producer.flush()
    read: list[str] = []
    with Consumer(
        options, group_id=topic, auto_offset_reset="earliest", value_deserializer="string"
    ) as consumer:
        consumer.subscribe([topic])
        end = time.monotonic() + 30
        while len(read) < COUNT and time.monotonic() < end:
            read += [record.value for record in consumer.poll(1.0)]
        consumer.commit()
    assert read == values()


@pytest.mark.parametrize(("listener", "more"), WAYS)
def test_async_clients(secure: SecureBroker, listener: str, more: dict[str, Any]) -> None:
    topic, options = f"async-{uuid.uuid4().hex}", secure.options(listener, **more)

    async def work() -> list[str]:
        async with AsyncProducer(options, value_serializer="string") as producer:
            for value in values():
                await producer.send(topic, value)
            await producer.flush()
        read: list[str] = []
        async with AsyncConsumer(
            options, group_id=topic, auto_offset_reset="earliest", value_deserializer="string"
        ) as consumer:
            consumer.subscribe([topic])
            end = time.monotonic() + 30
            while len(read) < COUNT and time.monotonic() < end:
                read += [record.value for record in await consumer.poll(1.0)]
        return read

    assert asyncio.run(work()) == values()


def test_records_go_on_while_sessions_are_renewed(secure: SecureBroker) -> None:
    topic = f"renewed-{uuid.uuid4().hex}"
    options = secure.options(
        "BRIEF", sasl_mechanism="PLAIN", sasl_username="alice", sasl_password=USERS["alice"]
    )
    sent = 0
    with Producer(options, value_serializer="int") as producer:
        end = time.monotonic() + 3 * LIFETIME_MS / 1000
        while time.monotonic() < end:
            producer.send(topic, sent).result(10)
            sent += 1
    with Consumer(options, auto_offset_reset="earliest", value_deserializer="int") as consumer:
        consumer.assign([(topic, 0)])
        read: list[int] = []
        while len(read) < sent:
            found = consumer.poll(5.0)
            assert found
            read += [record.value for record in found]
    assert read == list(range(sent))


def test_a_wrong_password_is_told_to_who_sends(secure: SecureBroker) -> None:
    options = secure.options("LOGIN", **LOGIN, sasl_password="guess")
    with Producer(options) as producer, pytest.raises(AuthenticationError):
        producer.send("t", b"x").result(10)
