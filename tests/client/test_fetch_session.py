"""The client's side of fetch sessions."""

from __future__ import annotations

from barnabas.client.core.fetch_session import FetchSession, Wanted
from barnabas.wire.errors import ErrorCode
from barnabas.wire.uuids import ZERO

A, B, C = ("t", 0), ("t", 1), ("u", 0)
ID, OTHER_ID = b"1" * 16, b"2" * 16


def wanted(offset: int, topic_id: bytes = ID) -> Wanted:
    return Wanted(topic_id, offset, 5, 100)


def established() -> FetchSession:
    session = FetchSession()
    session.request({A: wanted(0), B: wanted(0)})
    session.answered(77)
    return session


def test_the_first_request_is_full_and_asks_for_a_session() -> None:
    request = FetchSession().request({A: wanted(0)})
    assert (request.session_id, request.epoch) == (0, 0)
    assert request.is_full
    assert request.changed == {A: wanted(0)}
    assert request.forgotten == {}


def test_then_only_what_differs_is_said() -> None:
    session = established()
    request = session.request({A: wanted(0), C: wanted(3)})
    assert (request.session_id, request.epoch) == (77, 1)
    assert request.changed == {C: wanted(3)}
    assert request.forgotten == {B: ID}
    session.answered(77)
    request = session.request({A: wanted(9), C: wanted(3)})
    assert request.epoch == 2
    assert request.changed == {A: wanted(9)}
    session.answered(77)
    assert session.request({A: wanted(9), C: wanted(3)}).changed == {}


def test_a_topic_with_another_id_is_forgotten_and_added() -> None:
    request = established().request({A: wanted(0, OTHER_ID), B: wanted(0)})
    assert request.changed == {A: wanted(0, OTHER_ID)}
    assert request.forgotten == {A: ID}


def test_a_broker_without_sessions_is_asked_in_full() -> None:
    session = FetchSession()
    for _ in range(3):
        request = session.request({A: wanted(0)})
        assert (request.session_id, request.epoch) == (0, 0)
        session.answered(0)


def test_a_session_that_the_broker_ended() -> None:
    session = established()
    session.request({A: wanted(0)})
    session.answered(0)
    request = session.request({A: wanted(0)})
    assert (request.session_id, request.epoch) == (0, 0)


def test_errors_begin_anew() -> None:
    for code, session_id in (
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 77),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 77),
    ):
        session = established()
        session.request({A: wanted(1)})
        session.refused(code)
        request = session.request({B: wanted(2)})
        assert (request.session_id, request.epoch) == (session_id, 0)
        assert request.changed == {B: wanted(2)}
        assert request.forgotten == {}


def test_a_lost_answer_closes_the_session_with_the_next_request() -> None:
    session = established()
    session.request({A: wanted(1)})
    session.restart()
    request = session.request({A: wanted(1)})
    assert (request.session_id, request.epoch) == (77, 0)
    session.answered(78)
    assert session.request({A: wanted(1)}).session_id == 78


def test_epochs_wrap() -> None:
    session = established()
    session.epoch = 0x7FFFFFFF
    session.request({A: wanted(1)})
    session.answered(77)
    assert session.request({A: wanted(1)}).epoch == 1


def test_names_and_ids_are_not_mixed() -> None:
    session = established()
    request = session.request({A: wanted(0), C: wanted(0, ZERO)})
    assert not request.by_id
    assert (request.session_id, request.epoch) == (77, 0)
    assert request.changed.keys() == {A, C}
