"""Incremental fetch sessions: which requests open, continue, close or refuse them."""

from __future__ import annotations

import random

import pytest

from barnabas.replica import fetch_session
from barnabas.replica.fetch_session import FetchSession, FetchSessionCache, FetchTarget
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

ID = bytes(range(16))


class Names:
    def __init__(self, **names: bytes) -> None:
        self.names = {topic_id: name for name, topic_id in names.items()}

    def topic_name(self, topic_id: bytes) -> str | None:
        return self.names.get(topic_id)


def request(
    *partitions: int,
    session: tuple[int, int] = (0, -1),
    topic: str = "t",
    topic_id: bytes = bytes(16),
    offset: int = 0,
    forget: tuple[int, ...] = (),
) -> FetchRequest:
    return FetchRequest(
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            FetchTopic(
                topic=topic,
                topic_id=topic_id,
                partitions=[
                    FetchPartition(partition=each, fetch_offset=offset, partition_max_bytes=100)
                    for each in partitions
                ],
            )
        ]
        if partitions
        else [],
        forgotten_topics_data=[ForgottenTopic(topic=topic, topic_id=topic_id, partitions=[*forget])]
        if forget
        else [],
    )


def cache(slots: int = 10) -> FetchSessionCache:
    return FetchSessionCache(slots, random.Random(1), eviction_ms=1000)


def opened(sessions: FetchSessionCache, *partitions: int, now_ms: int = 0) -> FetchSession:
    session, _, incremental = sessions.open(
        request(*partitions, session=(0, 0)), 12, Names(), now_ms
    )
    assert session is not None
    assert not incremental
    return session


def indexes(targets: list[FetchTarget]) -> list[int]:
    return [target.index for target in targets]


def test_without_a_session() -> None:
    sessions = cache()
    session, targets, incremental = sessions.open(request(0, 1), 12, Names(), 0)
    assert (session, indexes(targets), incremental) == (None, [0, 1], False)
    assert len(sessions) == 0


def test_a_session_remembers_updates_and_forgets() -> None:
    sessions = cache()
    session = opened(sessions, 0, 1, 2)
    key = session.session_id
    _, targets, incremental = sessions.open(request(session=(key, 1)), 12, Names(), 0)
    assert (indexes(targets), incremental) == ([0, 1, 2], True)
    _, targets, _ = sessions.open(request(1, session=(key, 2), offset=7), 12, Names(), 0)
    assert [target.fetch_offset for target in targets] == [0, 7, 0]
    _, targets, _ = sessions.open(request(5, session=(key, 3), forget=(0,)), 12, Names(), 0)
    assert indexes(targets) == [1, 2, 5]


@pytest.mark.parametrize(
    ("session_offset", "epoch", "version", "code"),
    [
        (1, 1, 12, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (0, 5, 12, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (0, 1, 13, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_refusals(session_offset: int, epoch: int, version: int, code: ErrorCode) -> None:
    sessions = cache()
    session = opened(sessions, 0)
    asked = request(session=(session.session_id + session_offset, epoch))
    with pytest.raises(ApiError) as caught:
        sessions.open(asked, version, Names(), 0)
    assert caught.value.code is code


def test_the_final_epoch_closes_and_epoch_zero_replaces() -> None:
    sessions = cache()
    first = opened(sessions, 0)
    second, _, _ = sessions.open(request(1, session=(first.session_id, 0)), 12, Names(), 0)
    assert second is not None
    assert len(sessions) == 1
    closed, targets, _ = sessions.open(request(3, session=(second.session_id, -1)), 12, Names(), 0)
    assert (closed, indexes(targets), len(sessions)) == (None, [3], 0)


def test_epochs_wrap_to_one() -> None:
    sessions = cache()
    session = opened(sessions, 0)
    session.epoch = 2**31 - 1
    sessions.open(request(session=(session.session_id, 2**31 - 1)), 12, Names(), 0)
    assert session.epoch == 1


def test_topic_ids_are_resolved_when_the_topic_appears() -> None:
    sessions = cache()
    asked = request(0, session=(0, 0), topic="", topic_id=ID)
    session, targets, _ = sessions.open(asked, 13, Names(), 0)
    assert session is not None
    assert targets[0].topic is None
    _, targets, _ = sessions.open(request(session=(session.session_id, 1)), 13, Names(late=ID), 0)
    assert targets[0].topic == "late"


def test_a_full_cache_keeps_busy_sessions_and_evicts_idle_ones() -> None:
    sessions = cache(slots=2)
    opened(sessions, 0)
    opened(sessions, 0, 1)
    refused, targets, _ = sessions.open(request(0, 1, 2, session=(0, 0)), 12, Names(), 500)
    assert refused is None
    assert indexes(targets) == [0, 1, 2]
    assert opened(sessions, 0, now_ms=2000).session_id
    assert (len(sessions), sessions.evictions) == (2, 1)


def test_an_old_smaller_session_makes_room_for_a_larger_one() -> None:
    sessions = cache(slots=1)
    small = opened(sessions, 0)
    sessions.open(request(session=(small.session_id, 1)), 12, Names(), 1500)
    larger, _, _ = sessions.open(request(0, 1, session=(0, 0)), 12, Names(), 1600)
    assert larger is not None
    same_size, _, _ = sessions.open(request(0, 1, session=(0, 0)), 12, Names(), 1700)
    assert same_size is None


def test_only_news_is_told() -> None:
    target = FetchTarget("t", bytes(16), FetchPartition(partition=0))
    same = {"high_watermark": 5, "log_start_offset": 0, "records": b""}
    assert target.has_news(PartitionData(**same))
    assert not target.has_news(PartitionData(**same))
    assert target.has_news(PartitionData(**{**same, "records": b"x"}))
    assert target.has_news(PartitionData(**{**same, "high_watermark": 6}))
    assert target.has_news(PartitionData(**{**same, "high_watermark": 6, "error_code": 3}))
    assert target.has_news(PartitionData(**{**same, "high_watermark": 6}))


def test_partitions_that_gave_data_go_to_the_end() -> None:
    sessions = cache()
    session = opened(sessions, 0, 1, 2)
    session.rotate([next(iter(session.targets.values()))])
    assert indexes(list(session.targets.values())) == [1, 2, 0]


def test_a_session_has_no_more_partitions_than_there_can_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch_session, "ALWAYS_ALLOWED", 3)
    here = 4
    sessions = FetchSessionCache(10, random.Random(1), partitions_here=lambda: here)

    def opened(count: int) -> FetchSession | None:
        return sessions.open(request(*range(count), session=(0, 0)), 12, Names(), 0)[0]

    assert opened(9) is None
    session = opened(8)
    assert session is not None
    same = request(7, session=(session.session_id, 1), offset=3)
    assert sessions.open(same, 12, Names(), 0)[2]
    grown = request(8, session=(session.session_id, 2))
    with pytest.raises(ApiError) as refused:
        sessions.open(grown, 12, Names(), 0)
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 0
    here = 0
    assert opened(4) is None
    assert opened(3) is not None


def test_all_sessions_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "ALWAYS_ALLOWED", 3)
    monkeypatch.setattr(fetch_session, "MAX_PARTITIONS", 10)
    sessions = FetchSessionCache(10, random.Random(1), partitions_here=lambda: 100)

    def opened(count: int) -> bool:
        found = sessions.open(request(*range(count), session=(0, 0)), 12, Names(), 0)[0]
        return found is not None

    assert [opened(5), opened(5), opened(4), opened(3)] == [True, True, False, True]
