"""Commits: one under way, the rest in order; nothing is overtaken, nothing forgotten."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.core.backoff import Backoff
from barnabas.client.core.commits import MAX_WAITING, UNKNOWN_TOPIC_ATTEMPTS, Commits
from barnabas.client.core.offsets import OffsetAndMetadata
from barnabas.client.errors import (
    BrokerError,
    ClientError,
    CommitFailedError,
    ConnectionLost,
    QueueFull,
    RebalanceInProgressError,
    RequestTimeout,
    broker_error,
)
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

Partition = tuple[str, int]
LOST = ConnectionLost("broker:9092", "a commit", "the test wants it")


class Desk:
    """A member and its commits. `ended` is what was told, in order."""

    def __init__(self) -> None:
        self.identity = ("m", 1)
        self.refusal: ClientError | None = None
        self.owned: frozenset[Partition] | None = frozenset({("t", i) for i in range(4)})
        self.now = 0.0
        self.ended: list[tuple[int, ClientError | None]] = []
        self.count = 0
        self.commits = Commits(
            "g",
            None,
            Backoff(100, 1_000, lambda: 0.5),
            identity=lambda: self.identity,
            refusal=lambda: self.refusal,
            owned=lambda: self.owned,
        )

    def add(self, offsets: dict[int, int], timeout_ms: float = 10_000) -> int:
        self.count += 1
        number = self.count
        wanted = {("t", i): OffsetAndMetadata(offset, "x", 7) for i, offset in offsets.items()}
        self.commits.add(
            self.now, wanted, timeout_ms, lambda error: self.ended.append((number, error))
        )
        return number

    def send(self) -> dict[int, int] | None:
        request = self.commits.next_request(self.now)
        return None if request is None else offsets_of(request)

    def answer(self, **codes: ErrorCode) -> None:
        """`p1=…` is the code of t-1."""
        self.commits.answered(self.now, response({i: codes.get(f"p{i}", 0) for i in range(4)}))

    def errors(self) -> list[Any]:
        return [None if error is None else type(error) for _, error in self.ended]


def offsets_of(request: OffsetCommitRequest) -> dict[int, int]:
    return {
        p.partition_index: p.committed_offset for topic in request.topics for p in topic.partitions
    }


def response(codes: dict[int, int]) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name="t",
                partitions=[
                    OffsetCommitResponsePartition(partition_index=i, error_code=code)
                    for i, code in codes.items()
                ],
            )
        ]
    )


def test_what_is_sent() -> None:
    desk = Desk()
    desk.add({0: 5, 1: 6})
    request = desk.commits.next_request(0.0)
    assert request is not None
    assert (request.group_id, request.member_id) == ("g", "m")
    assert request.generation_id_or_member_epoch == 1
    [topic] = request.topics
    assert [(p.committed_leader_epoch, p.committed_metadata) for p in topic.partitions] == [
        (7, "x"),
        (7, "x"),
    ]
    desk.answer()
    assert desk.ended == [(1, None)]
    assert desk.commits.idle


def test_what_comes_meanwhile_waits_and_goes_together() -> None:
    desk = Desk()
    desk.add({0: 5})
    assert desk.send() == {0: 5}
    desk.add({0: 6, 1: 1})
    desk.add({0: 7})
    assert desk.send() is None
    desk.answer()
    assert desk.send() == {0: 7, 1: 1}
    desk.answer()
    assert desk.ended == [(1, None), (2, None), (3, None)]


def test_a_retry_never_goes_back_behind_a_later_commit() -> None:
    desk = Desk()
    desk.add({0: 5, 1: 5})
    desk.add({0: 6})
    assert desk.send() == {0: 6, 1: 5}
    desk.answer(p1=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    # The second is stored, but told after the first.
    assert desk.ended == []
    desk.add({0: 8})
    assert desk.send() is None, "after a pause"
    desk.now = desk.commits.due() or 0.0
    assert desk.send() == {0: 8, 1: 5}
    desk.answer()
    assert desk.ended == [(1, None), (2, None), (3, None)]


def test_no_answer_is_tried_again_until_the_time_is_up() -> None:
    desk = Desk()
    desk.add({0: 5}, timeout_ms=1_000)
    for _ in range(20):
        if desk.send() is not None:
            desk.commits.failed(desk.now, LOST)
        if desk.commits.idle:
            break
        desk.now = desk.commits.due() or 0.0
    [(_, error)] = desk.ended
    assert isinstance(error, RequestTimeout | ConnectionLost)
    assert 1.0 <= desk.now < 3.0


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, CommitFailedError),
        (ErrorCode.ILLEGAL_GENERATION, CommitFailedError),
        (ErrorCode.REBALANCE_IN_PROGRESS, RebalanceInProgressError),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, BrokerError),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, BrokerError),
        (ErrorCode.FENCED_INSTANCE_ID, BrokerError),
    ],
)
def test_errors_that_are_final(code: ErrorCode, kind: type[ClientError]) -> None:
    desk = Desk()
    desk.add({0: 5, 1: 5})
    desk.send()
    desk.answer(p1=code)
    [(_, error)] = desk.ended
    assert isinstance(error, kind)
    assert "g" in str(error)


def test_an_unknown_topic_is_tried_only_a_few_times() -> None:
    desk = Desk()
    desk.add({3: 5}, timeout_ms=1e9)
    attempts = 0
    while not desk.ended:
        assert desk.send() == {3: 5}
        attempts += 1
        desk.answer(p3=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        desk.now = desk.commits.due() or desk.now
    assert attempts == UNKNOWN_TOPIC_ATTEMPTS
    assert "t-3" in str(desk.ended[0][1])


def test_a_refusal_is_told_at_once() -> None:
    desk = Desk()
    desk.refusal = CommitFailedError("g", "this consumer left")
    with pytest.raises(CommitFailedError):
        desk.add({0: 5})
    assert desk.commits.idle


def test_a_rebalance_in_between() -> None:
    """What waited is stored in the new generation if the member kept the partitions."""
    desk = Desk()
    desk.add({0: 5})
    desk.add({1: 5})
    desk.refusal = broker_error(ErrorCode.REBALANCE_IN_PROGRESS)
    assert desk.send() is None
    assert desk.commits.due() == 10.0, "nothing to do before the deadline"
    desk.refusal = None
    desk.identity = ("m", 2)
    desk.owned = frozenset({("t", 1)})
    assert desk.send() == {1: 5}
    desk.answer()
    assert desk.errors() == [CommitFailedError, None]


def test_partitions_that_are_given_up_take_their_commits_along() -> None:
    desk = Desk()
    desk.add({0: 5})
    desk.add({1: 5})
    desk.commits.partitions_lost(frozenset({("t", 0)}))
    assert desk.errors() == [CommitFailedError]
    assert desk.send() == {1: 5}


def test_an_identity_that_is_gone() -> None:
    desk = Desk()
    desk.add({0: 5})
    desk.identity = ("", -1)
    assert desk.send() is None
    assert desk.errors() == [CommitFailedError]


def test_nothing_to_commit_is_a_commit_that_waits_its_turn() -> None:
    desk = Desk()
    desk.add({0: 5})
    desk.add({})
    assert desk.send() == {0: 5}
    assert desk.ended == []
    desk.answer()
    assert desk.ended == [(1, None), (2, None)]


def test_the_line_is_bounded_and_closing_ends_everything() -> None:
    desk = Desk()
    desk.add({0: 1})
    desk.send()
    for n in range(MAX_WAITING):
        desk.add({0: n})
    with pytest.raises(QueueFull):
        desk.add({0: 1})
    desk.commits.close(LOST)
    assert len(desk.ended) == MAX_WAITING + 1


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_in_any_order_of_events(seed: int) -> None:
    """Offsets only grow, so a coordinator that sees one go back shows that an old one overtook."""
    chance = random.Random(seed)
    desk = Desk()
    stored: dict[int, int] = {}
    offset = 0
    expected: dict[int, dict[int, int]] = {}
    under_way: dict[int, int] | None = None
    for _ in range(60):
        event = chance.random()
        desk.now += chance.choice([0.0, 0.05, 0.5])
        if event < 0.5:
            offset += 1
            wanted = dict.fromkeys(chance.sample(range(4), chance.randint(0, 3)), offset)
            expected[desk.add(wanted, timeout_ms=chance.choice([100, 1e9]))] = wanted
        elif under_way is None:
            under_way = desk.send()
        else:
            codes = {
                i: chance.choice([0, 0, 0, int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)])
                for i in under_way
            }
            lost = chance.random() < 0.3
            if not lost or chance.random() < 0.5:  # an answer that is lost was stored all the same
                for i, at in under_way.items():
                    if not codes[i]:
                        assert at >= stored.get(i, 0)
                        stored[i] = at
            if lost:
                desk.commits.failed(desk.now, LOST)
            else:
                desk.commits.answered(desk.now, response(codes))
            under_way = None
    numbers = [number for number, _ in desk.ended]
    assert numbers == list(range(1, len(numbers) + 1)), "told in order, once each"
    for number, error in desk.ended:
        if error is None:
            assert all(stored.get(i, 0) >= at for i, at in expected[number].items())
