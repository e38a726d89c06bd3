"""An idempotent producer: `acks=all`, several batches in flight, the same batches again until they
are acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from barnabas.record.build import build_batch
from barnabas.sim.client import TIMEOUT_S, ClientProcess, Connection
from barnabas.sim.history import History, Place
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE_VERSION = 9
INIT_PRODUCER_ID_VERSION = 4
IN_FLIGHT = 5
ALL = -1

_NEVER = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.MESSAGE_TOO_LARGE,
    }
)


class Batch:
    __slots__ = ("acknowledged", "sequence", "tries", "values")

    def __init__(self, sequence: int, values: list[bytes]) -> None:
        self.sequence = sequence
        self.values = values
        self.acknowledged = False
        self.tries = 0


class Lane:
    """One producer on one partition."""

    def __init__(
        self, client: ClientProcess, history: History, place: Place, producer_id: int, epoch: int
    ) -> None:
        self.name = f"{client.name}.{producer_id}.{epoch}"
        self._client = client
        self._history = history
        self._place = place
        self._producer_id = producer_id
        self._epoch = epoch
        self._next = 0
        self.lost = False
        self._pending: list[Batch] = []

    async def produce(self, count: int, pause_s: float) -> None:
        """Write `count` records; comes back when all of them are acknowledged."""
        batches = self._batches(count)
        more = True
        while (more or self._pending) and not self.lost:
            while more and len(self._pending) < self._client.rng.randint(1, IN_FLIGHT):
                batch = next(batches, None)
                if batch is None:
                    more = False
                else:
                    self._pending.append(batch)
            if self._pending and not await self._round():
                await self._client.look_again(self._place[0])
            elif pause_s:
                await self._client.rest(pause_s)

    def _batches(self, count: int) -> Iterator[Batch]:
        end = self._next + count
        while self._next < end:
            size = min(self._client.rng.randint(1, 4), end - self._next)
            numbers = range(self._next, self._next + size)
            yield Batch(self._next, [f"{self.name}#{number}".encode() for number in numbers])
            self._next += size

    async def _round(self) -> bool:
        """Send all that is pending, in order; False if something has to be sent again."""
        topic, partition = self._place
        try:
            connection, _ = await self._client.to_leader(topic, partition)
        except OSError:
            return False
        answers = [(batch, self._send(connection, batch)) for batch in self._pending]
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await asyncio.wait([answer for _, answer in answers])
        except TimeoutError:
            connection.close()
        good = True
        for index, (batch, answer) in enumerate(answers):
            if not answer.done() or answer.exception() is not None:
                good = False
                continue
            (response,) = answer.result().responses[0].partition_responses
            code = ErrorCode.of(response.error_code)
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                batch.acknowledged = True
                self._history.acknowledge(self._place, response.base_offset, batch.values)
            else:
                good = False
                self._judge(code, batch, all(each.acknowledged for each, _ in answers[:index]))
        self._pending = [batch for batch in self._pending if not batch.acknowledged]
        return good

    def _judge(self, code: ErrorCode, batch: Batch, is_next: bool) -> None:
        what = f"{self._place}: batch {batch.sequence} of {self.name}"
        if code in _NEVER:
            self._history.violated(f"{what} was answered with {code.name}")
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and is_next:
            if batch.tries == 1:
                self._history.violated(f"{what} is the next one and was called out of order")
            # Snapshots of producers keep only the last batch: a broker that was restarted cannot
            # tell that an earlier one is in its log. As with Kafka, this producer is at its end.
            self.lost = True

    def _send(self, connection: Connection, batch: Batch) -> asyncio.Future[Any]:
        topic, partition = self._place
        batch.tries += 1
        records = build_batch(
            [(1_780_000_000_000, None, value, ()) for value in batch.values],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=batch.sequence,
        )
        request = ProduceRequest(
            acks=ALL,
            timeout_ms=int(TIMEOUT_S * 700),
            topic_data=[
                TopicProduceData(
                    name=topic,
                    partition_data=[PartitionProduceData(index=partition, records=records)],
                )
            ],
        )
        return connection.send(request, PRODUCE_VERSION)


async def new_producer_id(client: ClientProcess, history: History) -> tuple[int, int]:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    while True:
        try:
            answer = await (await client.to_any()).ask(request, INIT_PRODUCER_ID_VERSION)
        except OSError:
            await client.rest(0.2)
            continue
        if answer.error_code == ErrorCode.NONE:
            history.producer_id(answer.producer_id, answer.producer_epoch)
            return answer.producer_id, answer.producer_epoch
        code = ErrorCode.of(answer.error_code)
        if code == ErrorCode.UNKNOWN_SERVER_ERROR:
            history.violated(f"InitProducerId was answered with {code.name}")
        await client.rest(0.2)


async def produce(
    client: ClientProcess, history: History, places: list[Place], count: int, pause_s: float
) -> None:
    """A producer that writes `count` records to each of several partitions, side by side; where it
    comes to its end, it starts anew under another id."""
    while places:
        producer_id, epoch = await new_producer_id(client, history)
        lanes = [Lane(client, history, place, producer_id, epoch) for place in places]
        await asyncio.gather(*[lane.produce(count, pause_s) for lane in lanes])
        places = [place for place, lane in zip(places, lanes, strict=True) if lane.lost]
