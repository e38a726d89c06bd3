"""What a consumer asks of whom, decision by decision; `test_fetcher_model.py` has all of it at once."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.core.fetcher import Fetcher, NodeFetch
from barnabas.client.core.metadata import Broker, ClusterMetadata, PartitionInfo, TopicInfo
from barnabas.client.core.partition_state import Step
from barnabas.client.core.reset_policy import ResetPolicy
from barnabas.client.errors import (
    AuthorizationError,
    ConnectionLost,
    LogTruncationError,
    OffsetOutOfRangeError,
)
from barnabas.client.settings import ConsumerSettings
from barnabas.record.build import build_batch
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import fetch as api

A, B, C = ("t", 0), ("t", 1), ("t", 2)
ID = b"i" * 16
LEADERS = {A: 1, B: 1, C: 2}


def metadata(leaders: dict[Any, int] = LEADERS, epoch: int = 5) -> ClusterMetadata:
    found = ClusterMetadata()
    found.brokers = {n: Broker(n, "host", 9090 + n) for n in (1, 2, 3)}
    partitions = {p[1]: PartitionInfo(*p, node, epoch, (1,), (1,)) for p, node in leaders.items()}
    found.topics["t"] = TopicInfo("t", ID, False, partitions)
    return found


class Bench:
    """A fetcher whose partitions begin at 0, with the time in hand."""

    def __init__(self, reset: str = "earliest", **options: Any) -> None:
        self.metadata = metadata()
        self.now = 100.0
        settings = ConsumerSettings(**options)
        self.fetcher = Fetcher(settings, self.metadata, ResetPolicy(reset), lambda: 0.5)
        self.fetcher.assign([A, B, C])
        for place in (A, B, C):
            self.fetcher.seek(place, 0)

    def plan(self) -> dict[int, NodeFetch]:
        return {fetch.node_id: fetch for fetch in self.fetcher.plan(self.now)}

    def answer(self, fetch: NodeFetch, **partitions: Any) -> None:
        """`p0=batch bytes` or `p0=dict of fields`; the session is number 9."""
        answers = []
        for name, given in partitions.items():
            fields = given if isinstance(given, dict) else {"records": memoryview(given)}
            fields = {"high_watermark": 100, "log_start_offset": 0, **fields}
            answers.append(api.PartitionData(partition_index=int(name[1:]), **fields))
        topics = [api.FetchableTopicResponse(topic_id=ID, partitions=answers)]
        response = api.FetchResponse(session_id=9, responses=topics if answers else [])
        self.fetcher.answered(fetch, response, self.now)

    def refuse(self, fetch: NodeFetch, code: ErrorCode, **more: Any) -> None:
        self.answer(fetch, p0={"error_code": int(code), **more})

    def take(self, limit: int = 1_000) -> list[tuple[int, int]]:
        found: list[Any] = []
        self.fetcher.begin_turn()
        self.fetcher.take(found, limit)
        return [(r.partition, r.offset) for r in found]


def batch(first: int, count: int = 2, size: int = 1) -> bytes:
    return bytes(
        build_batch(
            [(0, None, b"x" * size, ())] * count, base_offset=first, partition_leader_epoch=5
        )
    )


def asked(fetch: NodeFetch) -> dict[Any, int]:
    return {place: each.offset for place, each in fetch.asked.items()}


def test_each_broker_is_asked_for_its_partitions_once() -> None:
    bench = Bench()
    plans = bench.plan()
    assert {node: set(asked(fetch)) for node, fetch in plans.items()} == {1: {A, B}, 2: {C}}
    assert bench.plan() == {}
    bench.answer(plans[1], p0=batch(0))
    (again,) = bench.plan().values()
    assert asked(again) == {A: 2, B: 0}
    assert set(again.session.changed) == {A}


def test_the_next_fetch_leaves_before_records_are_handed_out() -> None:
    bench = Bench()
    bench.answer(bench.plan()[1], p0=batch(0))
    assert 1 in bench.plan()
    assert bench.take() == [(0, 0), (0, 1)]


def test_a_full_partition_is_left_out_and_others_are_looked_at_without_waiting() -> None:
    bench = Bench(max_partition_fetch_bytes=100, fetch_max_wait_ms=500)
    bench.answer(bench.plan()[1], p0=batch(0, 4, 50))
    assert bench.plan() == {}
    bench.now += 0.5
    (look,) = bench.plan().values()
    assert set(asked(look)) == {B}
    assert look.max_wait_ms == 0
    assert look.session.forgotten.keys() == {A}
    bench.answer(look)
    assert bench.plan() == {}
    bench.take()
    (after,) = bench.plan().values()
    assert asked(after) == {A: 4, B: 0}
    assert after.max_wait_ms == 500


def test_what_is_buffered_and_on_its_way_is_bounded() -> None:
    bench = Bench(max_partition_fetch_bytes=1_000, fetch_max_bytes=1_500)
    plans = bench.plan()
    assert sum(fetch.max_bytes for fetch in plans.values()) <= 3_000
    bench.answer(plans[1], p0=batch(0, 2, 400), p1=batch(0, 2, 400))
    bench.answer(plans[2], p2=batch(0, 2, 400))
    assert sum(fetch.max_bytes for fetch in bench.plan().values()) <= 3_000 - 2_400


def test_a_batch_that_was_cut_off_is_asked_for_whole() -> None:
    bench = Bench(max_partition_fetch_bytes=100, fetch_max_bytes=200)
    large = batch(0, 1, 5_000)
    bench.answer(bench.plan()[1], p0=large[:100])
    assert bench.take() == []
    (again,) = bench.plan().values()
    assert again.session.changed[A].max_bytes == len(large)
    assert again.max_bytes >= len(large)
    bench.answer(again, p0=large)
    assert bench.take() == [(0, 0)]


def test_paused_partitions_are_not_asked_for_and_keep_what_they_have() -> None:
    bench = Bench()
    bench.answer(bench.plan()[1], p0=batch(0), p1=batch(0))
    bench.fetcher.pause(A)
    assert bench.take() == [(1, 0), (1, 1)]
    (fetch,) = bench.plan().values()
    assert set(asked(fetch)) == {B}
    bench.fetcher.resume(A)
    assert bench.take() == [(0, 0), (0, 1)]


def test_partitions_take_turns() -> None:
    bench = Bench()
    bench.answer(bench.plan()[1], p0=batch(0, 4), p1=batch(0, 4))
    turns = [bench.take(2) for _ in range(4)]
    assert turns == [[(0, 0), (0, 1)], [(1, 0), (1, 1)], [(0, 2), (0, 3)], [(1, 2), (1, 3)]]


def test_answers_from_before_a_seek_are_dropped() -> None:
    bench = Bench()
    fetch = bench.plan()[1]
    bench.fetcher.seek(A, 50)
    bench.answer(fetch, p0=batch(0))
    assert bench.take() == []
    (again,) = bench.plan().values()
    assert asked(again)[A] == 50


def test_an_error_leaves_one_partition_alone_for_a_backoff() -> None:
    bench = Bench(retry_backoff_ms=100)
    bench.refuse(bench.plan()[1], ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert bench.fetcher.needs_metadata
    (fetch,) = bench.plan().values()
    assert set(asked(fetch)) == {B}
    bench.answer(fetch)
    bench.now += 0.1
    assert set(asked(bench.plan()[1])) == {A, B}


def test_a_hint_of_the_leader_is_followed_at_once() -> None:
    bench = Bench()
    hint = api.LeaderIdAndEpoch(leader_id=3, leader_epoch=6)
    bench.refuse(bench.plan()[1], ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=hint)
    assert not bench.fetcher.needs_metadata
    plans = bench.plan()
    assert set(asked(plans[3])) == {A}
    assert plans[3].session.changed[A].leader_epoch == 6


def test_a_lost_connection_begins_the_session_anew() -> None:
    bench = Bench(retry_backoff_ms=100)
    bench.answer(bench.plan()[1])
    bench.fetcher.failed(bench.plan()[1], ConnectionLost("host:1", "records", "x"), bench.now)
    assert 1 not in bench.plan()
    bench.now += 1
    (fetch,) = bench.plan().values()
    assert fetch.session.is_full
    assert fetch.session.session_id == 9


def test_a_closer_replica_is_read_from_until_it_expires() -> None:
    bench = Bench(metadata_max_age_ms=10_000)
    bench.answer(bench.plan()[1], p0={"preferred_read_replica": 3})
    plans = bench.plan()
    assert set(asked(plans[3])) == {A}
    assert set(asked(plans[1])) == {B}
    bench.answer(plans[3])
    bench.answer(plans[1])
    bench.now += 10
    assert set(asked(bench.plan()[1])) == {A, B}


@pytest.mark.parametrize("how", ["out of range", "error", "lost"])
def test_a_closer_replica_that_fails_gives_way_to_the_leader(how: str) -> None:
    bench = Bench(retry_backoff_ms=1)
    bench.answer(bench.plan()[1], p0={"preferred_read_replica": 3})
    plans = bench.plan()
    bench.answer(plans[1])
    if how == "lost":
        bench.fetcher.failed(plans[3], ConnectionLost("host:1", "records", "x"), bench.now)
    elif how == "error":
        bench.refuse(plans[3], ErrorCode.NOT_LEADER_OR_FOLLOWER)
    else:
        bench.refuse(plans[3], ErrorCode.OFFSET_OUT_OF_RANGE)
    assert bench.fetcher.partitions[A].step is Step.FETCH
    bench.now += 1
    assert set(asked(bench.plan()[1])) == {A, B}


def test_out_of_range_at_the_leader_follows_the_policy() -> None:
    bench = Bench()
    bench.refuse(bench.plan()[1], ErrorCode.OFFSET_OUT_OF_RANGE)
    (state,) = bench.fetcher.in_step(Step.RESET, bench.now)
    bench.fetcher.offset_found(state, state.version, 30)
    assert asked(bench.plan()[1])[A] == 30


def test_out_of_range_without_a_policy_is_raised_and_tried_again() -> None:
    bench = Bench(reset="none")
    bench.refuse(bench.plan()[1], ErrorCode.OFFSET_OUT_OF_RANGE)
    (fetch,) = bench.plan().values()
    assert set(asked(fetch)) == {B}
    bench.answer(fetch)
    with pytest.raises(OffsetOutOfRangeError, match="Offset 0"):
        bench.take()
    assert bench.take() == []
    assert set(asked(bench.plan()[1])) == {A, B}


def test_out_of_range_ahead_of_the_reader_waits_for_the_reader() -> None:
    bench = Bench(reset="none")
    bench.answer(bench.plan()[1], p0=batch(0))
    bench.refuse(bench.plan()[1], ErrorCode.OFFSET_OUT_OF_RANGE)
    assert A not in asked(bench.plan()[1])
    assert bench.take() == [(0, 0), (0, 1)]
    assert bench.fetcher.partitions[A].step is Step.FETCH


def test_what_may_not_be_read_is_raised() -> None:
    bench = Bench()
    bench.refuse(bench.plan()[1], ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(AuthorizationError, match="t-0"):
        bench.take()


def test_a_new_leader_is_asked_whether_its_log_is_the_same() -> None:
    bench = Bench()
    bench.answer(bench.plan()[1], p0=batch(0))
    state = bench.fetcher.partitions[A]
    bench.metadata.topics = metadata(epoch=6).topics
    bench.fetcher.metadata_updated()
    assert state.step is Step.VALIDATE
    assert state.next_epoch == 5
    assert bench.fetcher.partitions[B].step is Step.FETCH  # nothing read, nothing to compare
    bench.fetcher.validated(state, state.version, 5, 2)
    assert state.step is Step.FETCH
    assert bench.take() == [(0, 0), (0, 1)]


def test_a_truncation_of_what_was_only_buffered_is_fetched_again() -> None:
    bench = Bench()
    bench.answer(bench.plan()[1], p0=batch(0, 4))
    assert bench.take(1) == [(0, 0)]
    state = bench.fetcher.partitions[A]
    state.validate()
    bench.fetcher.validated(state, state.version, 5, 2)
    assert (state.step, state.position, state.next_fetch) == (Step.FETCH, 1, 1)
    assert state.buffer.is_empty


@pytest.mark.parametrize(("reset", "end"), [("none", 1), ("none", -1), ("earliest", 1)])
def test_a_truncation_of_what_was_read(reset: str, end: int) -> None:
    bench = Bench(reset=reset)
    bench.answer(bench.plan()[1], p0=batch(0, 4))
    bench.take()
    state = bench.fetcher.partitions[A]
    state.validate()
    bench.fetcher.validated(state, state.version, 4 if end >= 0 else -1, end)
    if reset == "none":
        with pytest.raises(LogTruncationError) as caught:
            bench.take()
        assert caught.value.position == 4
        assert caught.value.divergent_offset == (end if end >= 0 else None)
        assert state.step is Step.VALIDATE
    else:
        assert (state.step, state.position) == (Step.FETCH, 1)


def test_a_topic_made_anew_is_another_topic() -> None:
    bench = Bench()
    bench.answer(bench.plan()[1], p0=batch(0))
    other = metadata(epoch=0)
    other.topics["t"].topic_id = b"j" * 16
    bench.metadata.topics = other.topics
    bench.fetcher.metadata_updated()
    state = bench.fetcher.partitions[A]
    assert (state.step, state.next_epoch, state.leader_epoch) == (Step.FETCH, -1, 0)


def test_what_was_taken_in_vain_is_taken_back() -> None:
    bench = Bench()
    bench.answer(bench.plan()[1], p0=batch(0, 4))
    assert bench.take(3) == [(0, 0), (0, 1), (0, 2)]
    assert bench.fetcher.positions()[A] == (3, 5)
    assert bench.fetcher.positions(dealt_with=True)[A] == (0, -1)
    bench.fetcher.take_back()
    assert bench.fetcher.positions()[A] == (0, -1)
    (fetch,) = bench.plan().values()
    assert asked(fetch)[A] == 0


def test_a_position_that_had_nobody_to_be_asked_of_is_asked_for_when_a_leader_is_known() -> None:
    bench = Bench()
    bench.metadata.forget("t")
    fetcher = bench.fetcher
    fetcher.reset(A)
    (state,) = fetcher.in_step(Step.RESET, bench.now)
    fetcher.not_positioned(state, state.version, bench.now, leaderless=True)
    fetcher.metadata_updated()
    assert fetcher.in_step(Step.RESET, bench.now) == []
    bench.metadata.topics.update(metadata().topics)
    fetcher.metadata_updated()
    assert fetcher.in_step(Step.RESET, bench.now) == [state]

    fetcher.not_positioned(state, state.version, bench.now)  # its leader refused: that takes time
    fetcher.metadata_updated()
    assert fetcher.in_step(Step.RESET, bench.now) == []
