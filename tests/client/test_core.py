"""The parts of the clients that do no I/O."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from barnabas.client.core.accumulator import Accumulator
from barnabas.client.core.backoff import Backoff
from barnabas.client.core.partitioner import StickyPartitioner, murmur2, partition_for_key


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


def test_partition_for_key() -> None:
    assert {partition_for_key(str(i).encode(), 5) for i in range(100)} == set(range(5))


def test_sticky_moves_on_after_a_batch() -> None:
    sticky = StickyPartitioner(100, random.Random(1).random)
    chosen = [sticky.choose(50, [0, 1, 2]) for _ in range(12)]
    pairs = [chosen[i : i + 2] for i in range(0, 12, 2)]
    assert all(a == b for a, b in pairs)
    assert all(first[0] != second[0] for first, second in itertools.pairwise(pairs))
    assert sticky.choose(1, [7]) == 7


def test_backoff_doubles_within_bounds() -> None:
    backoff = Backoff(100, 1000, lambda: 0.5)
    assert [backoff.next_ms() for _ in range(6)] == [100, 200, 400, 800, 1000, 1000]
    backoff.reset()
    assert backoff.next_ms() == 100


# -- accumulator

PLACE = ("t", 0)


def add(accumulator: Accumulator, size: int = 10, now: float = 0.0) -> Any:
    return accumulator.append(PLACE, 0, None, b"x" * size, (), size, now)


def test_a_batch_is_due_when_full_or_lingered() -> None:
    accumulator = Accumulator(200, 1.0)
    _batch, index, news = add(accumulator)
    assert (index, news) == (0, True)
    assert list(accumulator.due(0.5)) == []
    assert accumulator.next_due() == 1.0
    assert len(list(accumulator.due(1.0))) == 1
    while not add(accumulator)[2]:
        pass
    assert len(list(accumulator.due(0.0))) == 1


def test_flush_makes_everything_due() -> None:
    accumulator = Accumulator(200, 10.0)
    add(accumulator)
    accumulator.flushing += 1
    assert len(list(accumulator.due(0.0))) == 1


def test_retries_go_first_in_order_of_sequence_and_wait_for_what_is_in_flight() -> None:
    accumulator = Accumulator(1, 0.0)
    batches = []
    for number in range(3):
        add(accumulator)
        queue = accumulator.queue(PLACE)
        batch = accumulator.take(queue)
        batch.base_sequence = (0x7FFFFFFF + number) & 0x7FFFFFFF
        batches.append(batch)
    add(accumulator)
    accumulator.put_back(batches[1], 0.0)
    assert list(accumulator.due(100.0)) == []
    accumulator.put_back(batches[0], 0.0)
    accumulator.put_back(batches[2], 0.0)
    assert list(accumulator.due(100.0)) == [queue]
    assert [accumulator.take(queue) for _ in range(3)] == batches
    for batch in batches:
        accumulator.finish(batch)
    assert len(queue.batches) == 1


def test_memory_is_given_back() -> None:
    accumulator = Accumulator(1000, 0.0)
    for _ in range(5):
        add(accumulator)
    assert accumulator.buffered_bytes > 50
    accumulator.finish(accumulator.take(accumulator.queue(PLACE)))
    assert accumulator.buffered_bytes == 0
