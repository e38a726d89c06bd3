"""A producer's core against simulated brokers, from one seed, in virtual time.

Brokers keep what Kafka's keep of a producer (epoch, last sequence, the last five batches) and refuse,
repeat or take batches accordingly. Leaders move, with or without what was not acknowledged; connections
end with requests and answers in them; brokers refuse for a while, refuse what is too large, forget a
producer. What the world checks at the end is what a producer promises.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from barnabas.client.core.accumulator import NOTHING, Accumulator
from barnabas.client.core.batch import ProducerBatch
from barnabas.client.core.idempotence import Idempotence
from barnabas.client.core.produce_request import RequestForm
from barnabas.client.core.sender import Outgoing, Sender
from barnabas.client.errors import ClientError, ConnectionLost
from barnabas.client.kernels_producer import SendFuture, SendPath, TopicLane
from barnabas.client.settings import ProducerSettings, load
from barnabas.record.batch import read_header, verify_crc
from barnabas.record.read import read_records
from barnabas.wire.errors import ErrorCode
from barnabas.wire.uuids import ZERO

TOPIC = "t"
REMEMBERED = 5


@dataclass
class ProducerEntry:
    epoch: int
    last_sequence: int
    batches: list[tuple[int, int, int]] = field(default_factory=list)
    """First sequence, last sequence, offset."""

    def copy(self) -> ProducerEntry:
        return ProducerEntry(self.epoch, self.last_sequence, list(self.batches))


class Replica:
    """The log of one partition on its leader."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.producers: dict[int, ProducerEntry] = {}

    def copy(self) -> Replica:
        found = Replica()
        found.values = list(self.values)
        found.producers = {pid: entry.copy() for pid, entry in self.producers.items()}
        return found

    def append(self, data: bytes) -> tuple[ErrorCode, int]:
        header = read_header(data, 0)
        verify_crc(data, header, 0)
        first = header.base_sequence
        last = (first + header.record_count - 1) & 0x7FFFFFFF
        if header.producer_id >= 0:
            code, offset = self._check(header, first, last)
            if code != ErrorCode.NONE:
                return code, offset
        offset = len(self.values)
        self.values += [record.value or b"" for record in read_records(data)]
        if header.producer_id >= 0:
            entry = self.producers.get(header.producer_id)
            if entry is None or entry.epoch != header.producer_epoch:
                entry = ProducerEntry(header.producer_epoch, -1)
                self.producers[header.producer_id] = entry
            entry.last_sequence = last
            entry.batches = [*entry.batches, (first, last, offset)][-REMEMBERED:]
        return ErrorCode.NONE, offset

    def _check(self, header: Any, first: int, last: int) -> tuple[ErrorCode, int]:
        entry = self.producers.get(header.producer_id)
        if entry is None:
            return ErrorCode.NONE, -1
        if header.producer_epoch < entry.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if header.producer_epoch > entry.epoch:
            good = first == 0
            return (ErrorCode.NONE if good else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), -1
        for known_first, known_last, offset in entry.batches:
            if (known_first, known_last) == (first, last):
                return ErrorCode.DUPLICATE_SEQUENCE_NUMBER, offset
        if first != (entry.last_sequence + 1) & 0x7FFFFFFF:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        return ErrorCode.NONE, -1


class World:
    def __init__(self, seed: int, *, faults: bool = True, **options: Any) -> None:
        self.random = random.Random(seed)
        chosen = {
            "batch_size": self.random.choice([100, 200, 1000]),
            "linger_ms": self.random.choice([0, 5, 50]),
            "buffer_memory": self.random.choice([1200, 5000, 50_000]),
            "delivery_timeout_ms": self.random.choice([3_000, 20_000]),
            "request_timeout_ms": 1_000,
            "retry_backoff_ms": 10,
            "retry_backoff_max_ms": 200,
            "max_in_flight_requests_per_connection": self.random.choice([1, 2, 5]),
            "compression_type": self.random.choice(["none", "none", "lz4"]),
            **options,
        }
        self.settings = load(ProducerSettings, chosen)
        self.faults = faults
        self.now = 0.0
        self.events: list[tuple[float, int, Callable[[], object]]] = []
        self.count = 0
        self.nodes = self.random.choice([1, 2, 3])
        self.partitions = self.random.choice([1, 2, 4])
        self.leaders = [self.random.randrange(self.nodes) for _ in range(self.partitions)]
        self.known = list(self.leaders)
        self.replicas = [Replica() for _ in range(self.partitions)]
        self.committed = [Replica() for _ in range(self.partitions)]
        self.connection = [0] * self.nodes
        self.arrives = [0.0] * self.nodes
        self.answers_at = [0.0] * self.nodes
        self.too_large = self.random.choice([10_000, 10_000, 300])
        self.sick_until = [0.0] * self.partitions
        self.calm_at = 8.0
        self.producer_ids = 0
        self.refreshing = False
        self.idempotence = Idempotence(self.settings.enable_idempotence)
        self.accumulator = Accumulator(
            batch_size=min(self.settings.batch_size, self.settings.buffer_memory),
            linger_s=self.settings.linger_ms / 1000,
            buffer_memory=self.settings.buffer_memory,
            leader_of=lambda _topic, index: self.known[index],
            one_in_flight=self.settings.max_in_flight_requests_per_connection == 1,
            idempotent=self.settings.enable_idempotence,
        )
        self.sender = Sender(self.settings, self.accumulator, self.idempotence, self.random.random)
        self.form = RequestForm(self.settings.acks, self.settings.compression_type, None, 1000)
        self.path = SendPath()
        self.lane = TopicLane(TOPIC, self.partitions, NOTHING)
        self.path._lanes[TOPIC] = self.lane
        self.sent: list[tuple[int, bytes, SendFuture]] = []
        self.next_turn = float("inf")
        self.most_in_flight = 0

    # -- time

    def at(self, when: float, call: Callable[[], object]) -> None:
        self.count += 1
        heapq.heappush(self.events, (max(when, self.now), self.count, call))

    def soon(self, spread: float, call: Callable[[], object]) -> None:
        self.at(self.now + self.random.random() * spread, call)

    def run(self, until: float) -> None:
        while self.events and self.events[0][0] <= until:
            self.now, _, call = heapq.heappop(self.events)
            call()
        self.now = max(self.now, until)

    # -- the client

    def send(self, partition: int, value: bytes) -> bool:
        """False where a producer would wait for memory."""
        record = (TOPIC, value, None, partition, None, int(self.now * 1000), None)
        future = self.path._append(*record)
        if future is None:
            self.accumulator.full(self.lane, partition)
            size = self.accumulator.room_for(61 + 40 + len(value))
            if not self.accumulator.pool.reserve(size):
                self.turn()
                return False
            self.accumulator.open(self.lane, partition, size, self.now)
            future = self.path._append(*record)
            assert future is not None
        self.sent.append((partition, value, future))
        self.turn()
        return True

    def turn(self) -> None:
        sender = self.sender
        if self.idempotence.wanted and self.accumulator.due:
            self.idempotence.asking()
            self.soon(0.05, self.give_id)
        for outgoing in sender.take(self.now, lambda _node: True):
            self.dispatch(outgoing)
        self.most_in_flight = max(self.most_in_flight, sender.in_flight)
        sender.completed.clear()
        self.check_bounds()
        if sender.stale:
            sender.stale = False
            if not self.refreshing:
                self.refreshing = True
                self.soon(0.1, self.refresh)
        when = sender.next_at()
        if when < self.next_turn:
            self.next_turn = when
            self.at(when, self.rang)

    def rang(self) -> None:
        self.next_turn = float("inf")
        self.turn()

    def give_id(self) -> None:
        if self.faults and self.random.random() < 0.2:
            self.idempotence.refused()
            self.soon(0.2, self.turn)
            return
        self.producer_ids += 1
        self.idempotence.given(self.producer_ids, 0)
        self.turn()

    def refresh(self) -> None:
        self.refreshing = False
        self.known[:] = self.leaders
        self.accumulator.leaders_changed()
        self.turn()

    def check_bounds(self) -> None:
        pool = self.accumulator.pool
        assert 0 <= pool.available <= pool.total
        held = sum(batch.reserved for batch in self.accumulator.incomplete)
        assert held == pool.total - pool.available
        for flying in self.sender._flying.values():
            assert len(flying) <= self.settings.max_in_flight_requests_per_connection
        for queue in self.accumulator.queued():
            batches = [*queue.in_flight, *queue.waiting]
            assert len(set(batches)) == len(batches)
            orders = [batch.order for batch in queue.waiting]
            assert orders == sorted(orders)

    # -- the network

    def dispatch(self, outgoing: Outgoing) -> None:
        self.form.request(outgoing.batches, {TOPIC: ZERO})
        datas = [(batch, bytes(batch.data or b"")) for batch in outgoing.batches]
        node = outgoing.node
        connection = self.connection[node]
        when = max(self.arrives[node], self.now + self.random.random() * 0.05)
        self.arrives[node] = when
        lost = [False]

        def arrive() -> None:
            # What was sent before a connection ended may still be read by the broker.
            if self.connection[node] != connection and self.random.random() < 0.5:
                return
            answers = {
                (batch.topic, batch.partition): self.decide(node, batch.partition, data)
                for batch, data in datas
            }
            back = max(self.answers_at[node], self.now + self.random.random() * 0.05)
            self.answers_at[node] = back
            self.at(back, lambda: answer(answers))

        def answer(answers: dict[Any, Any]) -> None:
            if self.connection[node] != connection:
                return
            lost[0] = True
            self.sender.answered(outgoing, answers, self.now, self.leader_is_new)
            self.turn()

        def time_out() -> None:
            if not lost[0]:
                self.cut(node)

        self.flights.setdefault(node, []).append((connection, outgoing, lost))
        self.at(when, arrive)
        self.at(self.now + self.settings.request_timeout_ms / 1000, time_out)

    @property
    def flights(self) -> dict[int, list[tuple[int, Outgoing, list[bool]]]]:
        return self.__dict__.setdefault("_flights", {})

    def cut(self, node: int) -> None:
        """The connection ends: everything without an answer is told so."""
        self.connection[node] += 1
        flights = self.flights.pop(node, [])
        error: ClientError = ConnectionLost(f"node {node}", "PRODUCE", "cut")
        for _connection, outgoing, answered in flights:
            if not answered[0]:
                answered[0] = True
                self.sender.lost(outgoing, error, self.now)
        self.turn()

    # -- the brokers

    def decide(self, node: int, partition: int, data: bytes) -> Any:
        code, offset = self._decide(node, partition, data)
        hint = self.leaders[partition] if self.random.random() < 0.5 else -1
        return SimpleNamespace(
            error_code=int(code),
            base_offset=offset,
            log_append_time_ms=-1,
            record_errors=[],
            error_message=None,
            current_leader=SimpleNamespace(leader_id=hint, leader_epoch=0),
        )

    def _decide(self, node: int, partition: int, data: bytes) -> tuple[ErrorCode, int]:
        if self.leaders[partition] != node:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        if len(data) > self.too_large:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        sick = self.now < self.sick_until[partition]
        if sick and self.random.random() < 0.5:
            return ErrorCode.NOT_ENOUGH_REPLICAS, -1
        replica = self.replicas[partition]
        code, offset = replica.append(data)
        if sick and code == ErrorCode.NONE:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, -1
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self.committed[partition] = replica.copy()
        return code, offset

    def leader_is_new(self, batch: ProducerBatch, answer: Any) -> bool:
        leader = answer.current_leader.leader_id
        if leader < 0 or leader == self.known[batch.partition]:
            return False
        self.known[batch.partition] = leader
        self.accumulator.leaders_changed()
        return True

    def move(self, partition: int) -> None:
        """Another leader, which has all that was acknowledged and perhaps the rest."""
        self.leaders[partition] = self.random.randrange(self.nodes)
        if self.random.random() < 0.5:
            self.replicas[partition] = self.committed[partition].copy()

    def trouble(self) -> None:
        if self.now > self.calm_at:
            return
        partition = self.random.randrange(self.partitions)
        kind = self.random.randrange(4)
        if kind == 0:
            self.cut(self.random.randrange(self.nodes))
        elif kind == 1:
            self.move(partition)
        elif kind == 2:
            self.sick_until[partition] = self.now + self.random.random() * 2
        else:
            self.soon(0.3, lambda: self.cut(self.random.randrange(self.nodes)))
        self.soon(0.5, self.trouble)

    # -- a whole run

    def run_all(self, records: int) -> None:
        if self.faults:
            self.soon(0.5, self.trouble)
        for number in range(records):
            partition = self.random.randrange(self.partitions)
            value = b"%d-" % number + b"x" * self.random.choice([0, 5, 60])
            while not self.send(partition, value):
                self.run(self.now + 0.01)
            if self.random.random() < 0.2:
                self.run(self.now + self.random.random() * 0.1)
        self.accumulator.hurry(list(self.accumulator.incomplete))
        self.turn()
        self.run(self.now + 60.0)

    def check(self) -> None:
        """Nothing forgotten; nothing lost, doubled or reordered."""
        assert not self.accumulator.incomplete
        assert self.accumulator.pool.available == self.accumulator.pool.total
        assert not self.accumulator.queued()
        assert self.sender.in_flight == 0
        for partition in range(self.partitions):
            log = self.replicas[partition].values
            places = {value: place for place, value in enumerate(log)}
            order: list[int] = []
            for where, value, future in self.sent:
                if where != partition:
                    continue
                assert future.done()
                batch, index = future.batch.part_of(future.index)
                if batch.error is None:
                    assert value in places, f"{value!r} is lost"
                    if batch.base_offset >= 0:
                        assert log[batch.base_offset + index] == value
                if value in places:
                    order.append(places[value])
            if self.settings.enable_idempotence:
                assert len(places) == len(log), "doubled"
                assert order == sorted(order), "reordered"
