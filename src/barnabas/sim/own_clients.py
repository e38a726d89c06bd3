"""Barnabas's own clients at work in a simulation: the very ones that users have.

They keep to the same rules as the others (`history.py`). What differs is who retries: these clients are
asked once and must do the rest. A record that the producer says it could not deliver may be missing
from its lane, or be there after all; one that it does not give up must be there, once and in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from barnabas.client.async_producer import AsyncProducer
from barnabas.client.consumer import AsyncConsumer
from barnabas.client.core.offsets import TopicPartition
from barnabas.client.errors import (
    BrokerError,
    ClientError,
    CommitFailedError,
    RebalanceInProgressError,
)
from barnabas.sim.client import ClientProcess
from barnabas.sim.history import History, Place
from barnabas.wire.errors import ErrorCode

# Nothing is given up while a simulation lasts.
PATIENCE_MS = 1_000_000
PATIENT = {
    "request_timeout_ms": 3_000,
    "default_api_timeout_ms": PATIENCE_MS,
    "reconnect_backoff_max_ms": 400,
    "retry_backoff_max_ms": 400,
    "metadata_max_age_ms": 5_000,
    "socket_connection_setup_timeout_ms": 2_000,
}

# What a broker that lost its memory of a producer answers; the record may be in the log already.
_FORGOTTEN = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)


def options(client: ClientProcess, **more: Any) -> dict[str, Any]:
    servers = ",".join(f"{host}:{port}" for host, port in client.bootstrap)
    return {"bootstrap_servers": servers, "client_id": client.name, **PATIENT, **more}


async def produce(
    client: ClientProcess, history: History, places: list[Place], count: int, pause_s: float
) -> None:
    """Write `count` records to each of several partitions, as fast as the client takes them."""
    producer = AsyncProducer(
        options(
            client,
            acks="all",
            linger_ms=client.rng.choice([0, 5, 50]),
            batch_size=client.rng.choice([1, 200, 16_384]),
            max_in_flight_requests_per_connection=client.rng.randint(1, 5),
            compression_type=client.rng.choice(["none", "lz4"]),
            delivery_timeout_ms=PATIENCE_MS,
            max_block_ms=PATIENCE_MS,
        ),
        reactor=client.reactor(),
    )
    told = []
    for number in range(count):
        for place in places:
            value = f"{client.name}#{number}".encode()
            now_ms = client.loop.clock.now_ms()
            future = await producer.send(place[0], value, partition=place[1], timestamp_ms=now_ms)
            told.append(client.run(_delivered(history, place, client.name, number, value, future)))
        if pause_s:
            await client.rest(pause_s)
    await producer.flush()
    await asyncio.gather(*told)
    await producer.close()


async def _delivered(
    history: History, place: Place, lane: str, number: int, value: bytes, future: Any
) -> None:
    try:
        found = await future
    except ClientError as error:
        if not isinstance(error, BrokerError) or error.code not in _FORGOTTEN:
            history.violated(f"{place}: number {number} of {lane} was given up: {error}")
        history.gave_up(place, lane, number)
    else:
        history.acknowledge(place, found.offset, [value])


async def consume(client: ClientProcess, history: History, places: list[Place]) -> None:
    """Read partitions from their beginning, for ever."""
    consumer = AsyncConsumer(
        options(
            client,
            auto_offset_reset="none",
            max_poll_records=client.rng.choice([1, 7, 500]),
            fetch_max_bytes=client.rng.choice([300, 4_096, 1 << 20]),
            max_partition_fetch_bytes=client.rng.choice([200, 4_096]),
        ),
        reactor=client.reactor(),
        patience_ms=PATIENCE_MS,
    )
    consumer.assign(places)
    for place in places:
        consumer.seek(place, 0)
    while True:
        for record in await consumer.poll(5.0):
            history.read((record.topic, record.partition), record.offset, record.value)


class Member:
    """A member of a group that commits what it has read."""

    def __init__(self, client: ClientProcess, history: History, group: str, topic: str) -> None:
        self._client = client
        self._history = history
        self._group = group
        self._topic = topic
        rng = client.rng
        self._consumer = AsyncConsumer(
            options(
                client,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=6_000,
                heartbeat_interval_ms=rng.choice([300, 1_500]),
                max_poll_interval_ms=20_000,
                max_poll_records=rng.choice([1, 20, 500]),
                partition_assignment_strategy="cooperative-sticky",
            ),
            reactor=client.reactor(),
            patience_ms=PATIENCE_MS,
        )
        self._uncommitted = False

    async def run(self) -> None:
        consumer = self._consumer
        consumer.subscribe([self._topic], listener=self)
        while True:
            records = await consumer.poll(1.0)
            for record in records:
                place = (record.topic, record.partition)
                self._history.read(place, record.offset, record.value)
            if records or self._uncommitted:
                self._uncommitted = not await self._commit()

    @property
    def owned(self) -> list[Place]:
        return [(place.topic, place.partition) for place in self._consumer.assignment()]

    @property
    def generation(self) -> int:
        return int(self._consumer.group_metadata().generation_id)

    async def _commit(self) -> bool:
        """False if the group has changed meanwhile and it must be said again."""
        consumer, history = self._consumer, self._history
        offsets = {place: await consumer.position(place) for place in self.owned}
        before = {place: history.committed(self._group, place) for place in offsets}
        generation = self.generation
        try:
            await consumer.commit(offsets)
        except (CommitFailedError, RebalanceInProgressError):
            return False
        for place, offset in offsets.items():
            history.commit(self._group, generation, place, offset, before[place])
        return True

    # ---- what the consumer tells

    async def on_partitions_assigned(self, partitions: Sequence[Place]) -> None:
        generation = self.generation
        for owned in self.owned:
            self._history.owns(self._group, generation, owned, self._client.name)
        before = {p: self._history.committed(self._group, p) for p in partitions}
        committed = await self._consumer.committed(partitions)
        for place in partitions:
            found = committed.get(TopicPartition(*place))
            offset = -1 if found is None else found.offset
            self._history.fetched(self._group, place, offset, before[place])

    async def on_partitions_revoked(self, partitions: Sequence[Place]) -> None:
        """Nothing to do: what was read is committed."""

    async def on_partitions_lost(self, partitions: Sequence[Place]) -> None:
        """Others have them already."""
