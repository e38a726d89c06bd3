"""The producer's parts that do no I/O: memory, queues, numbers, partitioners, splitting."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client import kernels_producer
from barnabas.client.core.accumulator import NOTHING, Accumulator
from barnabas.client.core.batch import ProducerBatch
from barnabas.client.core.buffer_pool import BufferPool, Ticket
from barnabas.client.core.idempotence import LAST_EPOCH, Idempotence, IdState
from barnabas.client.core.partitioner import StickyPartitioner, weights
from barnabas.client.core.produce_request import seal
from barnabas.client.core.splitting import split
from barnabas.client.kernels_producer import (
    SendFuture,
    SendPath,
    TopicLane,
    murmur2,
    partition_for_key,
)
from barnabas.record.batch import read_header, verify_crc
from barnabas.record.read import read_records
from tests.record.kernel_versions import interpreted

# -- partitioners


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
        (b"", 275646681),
    ],
)
def test_murmur2_is_javas(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFFFFFF


INTERPRETED = interpreted(kernels_producer)


@given(st.binary(max_size=50))
def test_interpreted_murmur2_is_the_same(key: bytes) -> None:
    assert INTERPRETED.murmur2(key) == murmur2(key)


def test_partition_for_key() -> None:
    assert {partition_for_key(str(i).encode(), 5) for i in range(100)} == set(range(5))


def test_sticky_moves_on_after_a_batch_of_bytes() -> None:
    sticky = StickyPartitioner(100, lambda: [0, 0, 0], random.Random(1).random)
    chosen = [sticky.used(50, 0.0) for _ in range(400)]
    assert all(chosen[i] == chosen[i + 1] for i in range(1, 399, 2))
    assert min(Counter(chosen).values()) > 90


def test_sticky_prefers_short_queues_and_leaves_out_the_unavailable() -> None:
    sticky = StickyPartitioner(1, lambda: [0, 9, None, 4], random.Random(2).random)
    counts = Counter(sticky.draw(0.0) for _ in range(1700))
    assert counts[2] == 0
    assert counts[0] > counts[3] > counts[1] > 0
    assert weights([None, None]) == [1, 1]
    assert weights([3, 3]) == [1, 1]


def test_loads_are_looked_at_now_and_then() -> None:
    looked: list[int] = []

    def loads() -> list[int]:
        looked.append(1)
        return [0, 0]

    sticky = StickyPartitioner(1, loads, random.Random(3).random)
    for _ in range(100):
        sticky.draw(0.0)
    sticky.draw(1.0)
    assert len(looked) == 2


# -- memory


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 100)), max_size=60))
def test_memory_is_given_out_in_order_and_all_comes_back(steps: list[tuple[int, int]]) -> None:
    pool = BufferPool(100, 10)
    held: list[int] = []
    line: list[Ticket] = []
    granted: list[Ticket] = []
    for kind, size in steps:
        if kind == 0 and pool.reserve(size):
            assert not pool.waiting
            held.append(size)
        elif kind == 1:
            box: list[Ticket] = []
            box.append(pool.wait(size, lambda: None))
            line.append(box[0])
        elif held:
            size = held.pop()
            pool.give_back(size, bytearray(size))
        while line and line[0].granted:
            granted.append(line[0])
            held.append(line.pop(0).size)
        assert not any(ticket.granted for ticket in line), "passed over"
        assert sum(held) + pool.available == 100
        if line:
            assert line[0].size > pool.available
        assert len(pool._free) * 10 <= max(pool.available, 0)
    for ticket in line:
        pool.leave(ticket)
    assert pool.available + sum(held) == 100


def test_leaving_the_line_lets_the_next_one_go() -> None:
    pool = BufferPool(100, 10)
    assert pool.reserve(60)
    told: list[str] = []
    large = pool.wait(90, lambda: told.append("large"))
    small = pool.wait(40, lambda: told.append("small"))
    assert told == []
    pool.leave(large)
    assert told == ["small"]
    pool.leave(small)
    assert pool.available == 40


# -- the accumulator


def accumulator(**more: Any) -> Accumulator:
    options = {"batch_size": 200, "linger_s": 1.0, "buffer_memory": 10_000, **more}
    return Accumulator(leader_of=options.pop("leader_of", lambda _t, _p: 1), **options)


class Filler:
    def __init__(self, accumulator: Accumulator) -> None:
        self.accumulator = accumulator
        self.path = SendPath()
        self.lane = TopicLane("t", 2, NOTHING)
        self.path._lanes["t"] = self.lane

    def add(self, partition: int = 0, now: float = 0.0, size: int = 10) -> SendFuture:
        record = ("t", b"x" * size, None, partition, None, 5, None)
        future = self.path._append(*record)
        if future is None:
            self.accumulator.full(self.lane, partition)
            room = self.accumulator.room_for(100 + size)
            assert self.accumulator.pool.reserve(room)
            self.accumulator.open(self.lane, partition, room, now)
            future = self.path._append(*record)
        assert future is not None
        return future

    def drain(self, now: float, node: int = 1, size: int = 100_000) -> list[ProducerBatch]:
        self.accumulator.wake(now)
        return self.accumulator.drain(node, now, size, lambda _queue: True)


def test_a_batch_is_due_when_full_or_lingered() -> None:
    filler = Filler(accumulator())
    first = filler.add()
    assert filler.drain(0.5) == []
    assert filler.accumulator.next_wake() == 1.0
    assert filler.drain(1.0) == [first.batch]
    assert first.batch.closed
    following = filler.add(now=2.0).batch
    while filler.add(now=2.0).batch is following:
        pass
    assert filler.drain(2.0) == [following]
    assert filler.drain(2.5) == []


def test_hurry_makes_it_due() -> None:
    filler = Filler(accumulator())
    batch = filler.add().batch
    filler.accumulator.hurry([batch])
    assert filler.drain(0.0) == [batch]


def test_a_request_has_one_batch_of_a_partition_and_a_size() -> None:
    filler = Filler(accumulator(linger_s=0.0))
    first, second = filler.add(0, size=150).batch, filler.add(1, size=150).batch
    third = filler.add(0, size=150).batch
    assert filler.drain(0.0, size=300) == [first]
    assert filler.drain(0.0) == [second, third]


def test_what_is_sent_again_goes_first_and_alone() -> None:
    filler = Filler(accumulator(linger_s=0.0))
    batches = []
    for _ in range(3):
        filler.add(size=150)
        batches += filler.drain(0.0)
    later = filler.add(size=150).batch
    filler.accumulator.put_back(batches[1], 5.0)
    assert filler.drain(9.0) == []
    filler.accumulator.put_back(batches[0], 5.0)
    filler.accumulator.put_back(batches[2], 5.0)
    assert filler.drain(4.0) == []
    assert filler.accumulator.next_wake() == 5.0
    for batch in batches:
        assert filler.drain(9.0) == [batch]
        assert filler.drain(9.0) == []
        batch.succeed(0, -1)
        filler.accumulator.finish(batch)
    assert filler.drain(9.0) == [later]


def test_nothing_goes_to_a_new_leader_before_the_old_one_has_answered() -> None:
    leader = [1]
    filler = Filler(accumulator(linger_s=0.0, leader_of=lambda _t, _p: leader[0]))
    first = filler.add(size=150)
    assert filler.drain(0.0) == [first.batch]
    second = filler.add(size=150)
    leader[0] = 2
    filler.accumulator.leaders_changed()
    assert filler.drain(0.0, node=1) == []
    assert filler.drain(0.0, node=2) == []
    first.batch.succeed(0, -1)
    filler.accumulator.finish(first.batch)
    assert filler.drain(0.0, node=2) == [second.batch]


def test_a_new_leader_is_not_kept_waiting() -> None:
    leader = [1]
    filler = Filler(accumulator(linger_s=0.0, leader_of=lambda _t, _p: leader[0]))
    batch = filler.add().batch
    assert filler.drain(0.0) == [batch]
    filler.accumulator.put_back(batch, 100.0)
    assert filler.drain(0.0) == []
    leader[0] = 2
    filler.accumulator.leaders_changed()
    assert filler.drain(0.0, node=2) == [batch]


def test_memory_is_given_back_and_used_again() -> None:
    filler = Filler(accumulator(linger_s=0.0))
    batch = filler.add().batch
    assert filler.accumulator.pool.available == 9_800
    filler.drain(0.0)
    data = seal(batch, 0, None)
    batch.succeed(0, -1)
    filler.accumulator.finish(batch, recycle=True)
    assert filler.accumulator.pool.available == 10_000
    again = filler.add().batch
    assert seal(again, 0, None) is data


# -- sequence numbers


def numbered(idempotence: Idempotence, filler: Filler, now: float = 0.0) -> ProducerBatch:
    (batch,) = filler.accumulator.drain(1, now, 10_000, idempotence.ready)
    queue = filler.accumulator.queues["t", batch.partition]
    idempotence.number(queue, batch)
    return batch


def test_the_first_batch_of_an_id_goes_alone() -> None:
    idempotence = Idempotence(True)
    filler = Filler(accumulator(linger_s=0.0, idempotent=True))
    filler.add(size=150)
    filler.add(size=150)
    assert filler.accumulator.drain(1, 0.0, 10_000, idempotence.ready) == []
    idempotence.asking()
    idempotence.given(7, 0)
    first = numbered(idempotence, filler)
    assert filler.drain(0.0) == []
    queue = filler.accumulator.queues["t", 0]
    idempotence.acknowledged(queue, first)
    first.succeed(0, -1)
    filler.accumulator.finish(first)
    second = numbered(idempotence, filler)
    assert (first.base_sequence, second.base_sequence) == (0, 1)
    filler.add(size=150)
    assert numbered(idempotence, filler).base_sequence == 2


def test_sequence_numbers_wrap() -> None:
    idempotence = Idempotence(True)
    idempotence.asking()
    idempotence.given(7, 0)
    filler = Filler(accumulator(linger_s=0.0, idempotent=True))
    queue = filler.accumulator.queue("t", 0)
    queue.producer_id, queue.producer_epoch, queue.acknowledged = 7, 0, True
    queue.next_sequence = 0x7FFFFFFF
    filler.add()
    assert numbered(idempotence, filler).base_sequence == 0x7FFFFFFF
    assert queue.next_sequence == 0


def test_a_used_up_epoch_asks_for_another_id() -> None:
    idempotence = Idempotence(True)
    idempotence.asking()
    idempotence.given(7, LAST_EPOCH - 1)
    filler = Filler(accumulator(linger_s=0.0, idempotent=True))
    filler.add()
    batch = numbered(idempotence, filler)
    queue = filler.accumulator.queues["t", 0]
    idempotence.failed(queue, batch)
    filler.accumulator.finish(batch)
    filler.add()
    assert numbered(idempotence, filler).producer_epoch == LAST_EPOCH
    assert idempotence.state is IdState.NONE
    assert idempotence.wanted


def test_states_have_their_steps() -> None:
    idempotence = Idempotence(True)
    with pytest.raises(AssertionError, match="cannot become"):
        idempotence.given(1, 0)


# -- splitting and sealing


@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=30), st.none() | st.binary(max_size=30))),
    st.integers(0, 2**41),
    st.sampled_from([0, 1, 2, 3, 4]),
)
def test_a_split_batch_has_the_same_records(
    records: list[tuple[bytes | None, bytes | None]], base: int, codec: int
) -> None:
    batch = ProducerBatch("t", 0, (4,), 100_000, 0.0)
    batch.base_sequence = 0x7FFFFFFF
    for number, (key, value) in enumerate([*records, (b"a", b"b"), (None, None)]):
        batch.builder.append(base + number, key, value, [("h", None)] if number % 2 else ())
    batch.close()
    before = list(read_records(bytes(seal(batch, codec, None))))
    parts = split(batch)
    after: list[Any] = []
    for first, part in parts:
        assert first == len(after)
        data = bytes(seal(part, codec, None))
        header = read_header(data, 0)
        verify_crc(data, header, 0)
        assert header.base_sequence == (0x7FFFFFFF + first) & 0x7FFFFFFF
        after += [
            record._replace(offset=len(after) + i) for i, record in enumerate(read_records(data))
        ]
    assert after == before
    assert [part.order for _, part in parts] == [(4, 0), (4, 1)]


def test_answers_follow_a_record_through_splits() -> None:
    batch = ProducerBatch("t", 0, (1,), 10_000, 0.0)
    for number in range(5):
        batch.builder.append(0, None, b"%d" % number)
    futures = [SendFuture(batch, number, 0) for number in range(5)]  # type: ignore[call-arg]
    batch.close()
    seal(batch, 0, None)
    (_, first), (_, second) = parts = split(batch)
    batch.replace(parts)
    first.succeed(100, -1)
    assert [future.done() for future in futures] == [True, True, True, False, False]
    seal(second, 0, None)
    halves = split(second)
    second.replace(halves)
    halves[0][1].succeed(200, 77)
    halves[1][1].succeed(300, -1)
    found = [batch.future_metadata(future) for future in futures]
    assert [metadata.offset for metadata in found] == [100, 101, 102, 200, 300]
    assert found[3].timestamp_ms == 77


# -- the kernel


def test_interpreted_and_compiled_make_the_same_batches() -> None:
    made: list[bytes] = []
    for module in (kernels_producer, INTERPRETED):
        batch = module.AppendableBatch(10_000)
        path = module.SendPath()
        lane = module.TopicLane("t", 3, batch)
        path._lanes["t"] = lane
        for number in range(20):
            key = None if number % 3 else b"k%d" % number
            headers = [(b"h", None), (b"i", b"%d" % number)] if number % 5 == 0 else None
            partition = number % 3 if number % 2 else None
            future = path._append("t", b"v" * number, key, partition, headers, 1000 + number, None)
            assert (future.index, future.timestamp_ms) == (number, 1000 + number)
        assert path._append("t", b"", None, 3, None, 0, None) is None
        assert path._append("t", b"", None, 2**70, None, 0, None) is None
        assert path._append("t", b"", None, 0, None, 2**64, None) is None
        assert path._append("t", b"x" * 10_000, None, 0, None, 0, None) is None
        batch.closed = True
        assert path._append("t", b"", None, 0, None, 0, None) is None
        made.append(bytes(batch.builder.finish()))
    assert made[0] == made[1]


@pytest.mark.parametrize("module", [kernels_producer, INTERPRETED])
def test_a_lane_that_rotates(module: Any) -> None:
    path = module.SendPath()
    batches = [module.AppendableBatch(10_000) for _ in range(3)]
    lane = module.TopicLane("t", 3, batches[0], rotates=True)
    lane.batches[:] = batches
    path._lanes["t"] = lane
    for _ in range(7):
        path._append("t", b"v", b"key", None, None, 0, None)
    assert sorted(batch.builder.record_count for batch in batches) == [2, 2, 3]
    batches[1].closed = True
    refused = [path._append("t", b"v", None, None, None, 0, None) for _ in range(9)].count(None)
    assert refused >= 7


@pytest.mark.parametrize("module", [kernels_producer, INTERPRETED])
def test_rows_of_columns(module: Any) -> None:
    def numbers(*values: int) -> bytes:
        return b"".join(value.to_bytes(8, "little", signed=True) for value in values)

    values = module.RowColumn(bytes([0b1011]), numbers(0, 1, 3, 3, 6), b"abbccc", 0, 4)
    keys = module.RowColumn(None, numbers(0, 0, 2, 4, 5), b"kkllm", 0, 4)
    times = module.RowColumn(None, numbers(1, 2, 3, 4), None, 0, 4)
    rows = module.Rows(4, keys, values, None, times)
    batch = module.AppendableBatch(10_000)
    lane = module.TopicLane("t", 3, batch)
    assert rows.largest() == 1
    assert rows.fill(lane) == 4
    assert rows.touched == [batch, batch, batch][: len(rows.touched)]
    batch.closed = True
    made = ProducerBatch("t", 0, (1,), 10_000, 0.0)
    made.builder = batch.builder
    made.close()
    found = [(r.timestamp, r.key, r.value) for r in read_records(bytes(seal(made, 0, None)))]
    assert found == [(1, b"", b"a"), (2, b"kk", b"bb"), (3, b"ll", None), (4, b"m", b"ccc")]
    with pytest.raises(ValueError, match="offsets"):
        module.RowColumn(None, numbers(0, 9), b"abc", 0, 1)
    with pytest.raises(ValueError, match="bytes of numbers"):
        module.RowColumn(None, numbers(0, 1), b"abc", 1, 1)
    inside = module.RowColumn(None, numbers(0, 9, 3), b"abc", 0, 2)
    with pytest.raises(ValueError, match="outside"):
        module.Rows(2, None, inside, None, None).fill(module.TopicLane("t", 1, batch))
