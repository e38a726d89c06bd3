"""The parts of the clients that do no I/O."""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.client.core.accumulator import Accumulator
from barnabas.client.core.assignment import assign_range
from barnabas.client.core.backoff import Backoff
from barnabas.client.core.fetcher import Fetcher
from barnabas.client.core.partitioner import StickyPartitioner, murmur2, partition_for_key
from barnabas.record.build import build_batch
from barnabas.record.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
)


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


def test_range_assignment() -> None:
    assert assign_range({"a": 5, "b": 2}, {"m2": ["a"], "m1": ["a", "b"]}) == {
        "m1": {"a": [0, 1, 2], "b": [0, 1]},
        "m2": {"a": [3, 4]},
    }
    assert assign_range({"a": 1}, {"m2": ["a"], "m1": ["a"]}, {"m2": "static"}) == {
        "m1": {},
        "m2": {"a": [0]},
    }
    assert assign_range({}, {"m": ["gone"]}) == {"m": {}}


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


# -- fetcher


def fetched(*batches: bytes | bytearray, aborted: list[tuple[int, int]] | None = None) -> Any:
    return SimpleNamespace(
        high_watermark=100,
        last_stable_offset=100,
        log_start_offset=0,
        records=b"".join(batches),
        aborted_transactions=[
            SimpleNamespace(producer_id=p, first_offset=o) for p, o in aborted or ()
        ],
    )


def batch(first: int, count: int, **more: Any) -> bytearray:
    return build_batch(
        [(0, None, b"%d" % (first + i), ()) for i in range(count)], base_offset=first, **more
    )


def fetcher(read_committed: bool = False) -> Fetcher:
    found = Fetcher(max_buffered_bytes=1 << 20, read_committed=read_committed, check_crcs=True)
    found.assign([PLACE])
    found.seek(PLACE, 0)
    return found


def offsets(found: Fetcher, limit: int = 100) -> list[int]:
    return [record.offset for record in found.records(limit)]


def test_records_below_the_position_are_dropped() -> None:
    found = fetcher()
    found.seek(PLACE, 2)
    state = found.partitions[PLACE]
    found.take(state, state.seek_count, fetched(batch(0, 5), batch(5, 2)))
    assert state.next_fetch == 7
    assert offsets(found) == [2, 3, 4, 5, 6]
    assert state.position == 7
    assert found.buffered_bytes == 0


def test_a_limit_cuts_a_batch_and_nothing_is_lost() -> None:
    found = fetcher()
    state = found.partitions[PLACE]
    found.take(state, state.seek_count, fetched(batch(0, 5), batch(5, 2)))
    assert offsets(found, 2) == [0, 1]
    assert state.position == 2
    assert offsets(found, 2) == [2, 3]
    assert offsets(found) == [4, 5, 6]


def test_answers_from_before_a_seek_are_ignored() -> None:
    found = fetcher()
    state = found.partitions[PLACE]
    count = state.seek_count
    found.seek(PLACE, 50)
    found.take(state, count, fetched(batch(0, 5)))
    assert offsets(found) == []
    assert state.next_fetch == 50


def test_a_partial_last_batch_waits_for_the_next_fetch() -> None:
    found = fetcher()
    state = found.partitions[PLACE]
    found.take(state, state.seek_count, fetched(batch(0, 2), batch(2, 2)[:-3]))
    assert offsets(found) == [0, 1]
    assert state.next_fetch == 2


def test_read_committed_drops_aborted_transactions_only() -> None:
    def in_transaction(first: int, producer: int) -> bytearray:
        return batch(
            first, 2, producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True
        )

    def marker(offset: int, producer: int, kind: ControlType) -> bytearray:
        return build_end_transaction_marker(
            EndTransactionMarker(kind, 0),
            producer_id=producer,
            producer_epoch=0,
            timestamp_ms=0,
            base_offset=offset,
        )

    log = [
        in_transaction(0, 7),
        in_transaction(2, 8),
        marker(4, 7, ControlType.ABORT),
        marker(5, 8, ControlType.COMMIT),
        in_transaction(6, 7),
        marker(8, 7, ControlType.COMMIT),
        batch(9, 1),
    ]
    found = fetcher(read_committed=True)
    state = found.partitions[PLACE]
    found.take(state, state.seek_count, fetched(*log, aborted=[(7, 0)]))
    assert offsets(found) == [2, 3, 6, 7, 9]
    found = fetcher()
    state = found.partitions[PLACE]
    found.take(state, state.seek_count, fetched(*log))
    assert offsets(found) == [0, 1, 2, 3, 6, 7, 9]


def test_paused_and_full_partitions_are_not_fetched() -> None:
    found = fetcher()
    assert len(list(found.fetchable(0.0))) == 1
    found.partitions[PLACE].paused = True
    assert list(found.fetchable(0.0)) == []
    found.partitions[PLACE].paused = False
    found.buffered_bytes = 1 << 20
    assert list(found.fetchable(0.0)) == []
