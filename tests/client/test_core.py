"""The parts of the clients that do no I/O."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from barnabas.client.core.assignment import assign_range
from barnabas.client.core.backoff import Backoff
from barnabas.client.core.fetcher import Fetcher
from barnabas.record.build import build_batch
from barnabas.record.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
)


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


PLACE = ("t", 0)

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
