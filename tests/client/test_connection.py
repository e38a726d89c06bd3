"""A connection in virtual time: what it sends, how it takes answers, when it gives up."""

from __future__ import annotations

import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client import connection as module
from barnabas.client.connection import Connection, Step
from barnabas.client.errors import (
    ClientError,
    ClosedError,
    ConnectionLost,
    ConnectionRefused,
    ConnectTimeout,
    ProtocolMismatch,
    QueueFull,
    RequestTimeout,
    VersionError,
)
from barnabas.client.settings import ClientSettings
from barnabas.streams import SocketStream
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.metadata import MetadataRequest
from tests.client.fake_broker import offer, respond
from tests.client.virtual import VirtualReactor, VirtualStream

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class Peer:
    """The broker's end: reads requests out of what was sent, and answers them."""

    def __init__(self, **options: Any) -> None:
        self.made: VirtualStream | OSError | None = None
        self.reactor = VirtualReactor(lambda host, port: self.made or self.new_stream())
        self.stream = VirtualStream(self.reactor)
        self.opened: list[ClientError | None] = []
        self.closed: list[ClientError] = []
        self.answers: list[tuple[Any, ClientError | None]] = []
        self.taken = 0
        self.connection = Connection(
            "there",
            9092,
            ClientSettings(request_timeout_ms=10_000, **options),
            self.reactor,
            opened=self.opened.append,
            closed=self.closed.append,
        )

    def new_stream(self) -> VirtualStream:
        return self.stream

    def open(self) -> Peer:
        self.connection.open()
        self.reactor.settle()
        if self.connection.step == Step.NEGOTIATING and self.stream.sent:
            self.answer(offer(ApiKey.HEARTBEAT, ApiKey.METADATA), 4)
        return self

    def requests(self) -> list[tuple[int, int, int]]:
        """Key, version, correlation id of each whole request that was not taken yet."""
        found = []
        sent = self.stream.sent
        while len(sent) >= self.taken + 4:
            size = int.from_bytes(sent[self.taken : self.taken + 4], "big")
            if len(sent) < self.taken + 4 + size:
                break
            start = self.taken + 4
            found.append(
                (
                    int.from_bytes(sent[start : start + 2], "big"),
                    int.from_bytes(sent[start + 2 : start + 4], "big"),
                    int.from_bytes(sent[start + 4 : start + 8], "big"),
                )
            )
            self.taken = start + size
        return found

    def answer(self, response: Any, version: int) -> None:
        ((_, _, correlation_id),) = self.requests()
        self.stream.receive(respond(response, version, correlation_id))
        self.reactor.settle()

    def beat(self, **more: Any) -> None:
        self.connection.send(HEARTBEAT, 4, lambda *it: self.answers.append(it), **more)


def test_it_asks_for_versions_and_is_ready() -> None:
    peer = Peer().open()
    assert peer.opened == [None]
    assert peer.connection.ready
    assert peer.connection.versions.offers(ApiKey.HEARTBEAT)


def test_failures_to_connect_have_classes_of_their_own() -> None:
    for error, cause in [
        (ConnectionRefusedError(), ConnectionRefused),
        (TimeoutError(), ConnectTimeout),
    ]:
        peer = Peer()
        peer.made = error
        peer.open()
        (failure,) = peer.opened
        assert isinstance(failure, cause)
        assert "there:9092" in str(failure)
        assert peer.closed == []


def test_a_callback_never_comes_before_send_returns() -> None:
    peer = Peer().open()
    peer.connection.close()
    returned = False

    def done(_response: Any, error: ClientError | None) -> None:
        assert returned
        assert isinstance(error, ClosedError)
        peer.answers.append((None, error))

    peer.connection.send(HEARTBEAT, 4, done)
    returned = True
    peer.reactor.settle()
    assert len(peer.answers) == 1


@settings(max_examples=60)
@given(
    throttles=st.lists(st.integers(0, 1 << 30), min_size=1, max_size=30),
    cuts=st.lists(st.integers(1, 40), min_size=1, max_size=40),
)
def test_answers_cut_anywhere_are_matched_in_order(throttles: list[int], cuts: list[int]) -> None:
    peer = Peer().open()
    for _ in throttles:
        peer.beat()
    frames = b"".join(
        respond(HeartbeatResponse(throttle_time_ms=throttle), 4, asked[2])
        for throttle, asked in zip(throttles, peer.requests(), strict=True)
    )
    position = turn = 0
    while position < len(frames):
        size = cuts[turn % len(cuts)]
        peer.stream.receive(frames[position : position + size])
        position, turn = position + size, turn + 1
    assert [response.throttle_time_ms for response, _ in peer.answers] == throttles
    assert peer.connection.in_flight == 0


def test_an_answer_larger_than_the_buffer_has_memory_of_its_own() -> None:
    peer = Peer().open()
    request = MetadataRequest()
    peer.connection.send(request, 12, lambda *it: peer.answers.append(it))
    peer.beat()
    from barnabas.wire.messages.metadata import MetadataResponse, MetadataResponseTopic

    topics = [MetadataResponseTopic(name="t" * 200 + str(n)) for n in range(1_000)]
    first, second = peer.requests()
    peer.stream.receive(
        respond(MetadataResponse(topics=topics), 12, first[2])
        + respond(HeartbeatResponse(throttle_time_ms=7), 4, second[2])
    )
    (metadata, _), (beat, _) = peer.answers
    assert len(metadata.topics) == 1_000
    assert beat.throttle_time_ms == 7


def test_what_the_socket_does_not_take_follows_in_order() -> None:
    peer = Peer().open()
    peer.stream.room = 5
    for _ in range(20):
        peer.beat()
    assert peer.requests() == []
    for _ in range(100):
        peer.stream.give_room(13)
    assert [asked[2] for asked in peer.requests()] == list(range(2, 22))


def test_a_produce_without_an_answer_is_done_once_written() -> None:
    peer = Peer().open()
    peer.beat(answered=False)
    assert peer.answers == []
    peer.reactor.settle()
    assert peer.answers == [(None, None)]
    assert peer.connection.in_flight == 0


def test_what_is_not_written_yet_is_not_done() -> None:
    peer = Peer().open()
    peer.stream.room = 5
    for _ in range(3):
        peer.beat(answered=False)
    peer.reactor.settle()
    assert peer.answers == []
    done = 0
    while len(peer.requests()) < 3 and done < 3:
        peer.stream.give_room(10)
        peer.reactor.settle()
        assert len(peer.answers) >= done
        done = len(peer.answers)
    peer.stream.give_room(1_000)
    peer.reactor.settle()
    assert peer.answers == [(None, None)] * 3
    peer.stream.room = 0
    peer.beat(answered=False)
    peer.connection.close()
    peer.reactor.settle()
    assert isinstance(peer.answers[3][1], ClosedError)


def test_time_is_up() -> None:
    peer = Peer().open()
    peer.beat(what="a heartbeat")
    peer.beat()
    peer.reactor.advance(9.9)
    assert peer.answers == []
    peer.reactor.advance(0.2)
    (_, first), (_, second) = sorted(peer.answers, key=lambda it: type(it[1]).__name__)
    assert isinstance(second, RequestTimeout)
    assert "a heartbeat from there:9092" in str(second)
    assert isinstance(first, ConnectionLost)
    assert peer.stream.closed
    assert len(peer.closed) == 1


def test_an_answer_on_its_way_is_not_cut_off() -> None:
    peer = Peer().open()
    peer.beat()
    ((_, _, correlation_id),) = peer.requests()
    frame = respond(HeartbeatResponse(throttle_time_ms=3), 4, correlation_id)
    for byte in frame[:-1]:
        peer.reactor.advance(5)
        peer.stream.receive(bytes([byte]))
    assert peer.answers == []
    peer.stream.receive(frame[-1:])
    assert peer.answers[0][0].throttle_time_ms == 3


def test_a_request_may_have_more_time_than_others() -> None:
    peer = Peer().open()
    peer.beat(timeout_ms=60_000)
    peer.reactor.advance(59)
    assert peer.answers == []
    peer.reactor.advance(2)
    assert isinstance(peer.answers[0][1], RequestTimeout)


@pytest.mark.parametrize(
    ("bytes_of", "text"),
    [
        (lambda _: b"HTTP/1.1 400 Bad Request\r\n", "HTTP"),
        (lambda _: b"\xff\xff\xff\xff", "-1 bytes"),
        (lambda _: b"\x7f\xff\xff\xff", "2147483647 bytes"),
        (lambda _: b"\0\0\0\3abc", "3 bytes"),
        (lambda frame: frame[:4] + b"\0\0\x30\x39" + frame[8:], "12345"),
        (lambda frame: frame[:3] + b"\7" + frame[4:9] + b"\x05\x05", "malformed"),
    ],
)
def test_nonsense_ends_the_connection(bytes_of: Callable[[bytes], bytes], text: str) -> None:
    peer = Peer().open()
    peer.beat()
    peer.beat()
    first, _ = peer.requests()
    peer.stream.receive(bytes_of(respond(HeartbeatResponse(), 4, first[2])))
    assert len(peer.answers) == 2
    for _, error in peer.answers:
        assert isinstance(error, ProtocolMismatch)
        assert text in str(error)
    assert peer.stream.closed


def test_an_answer_that_was_not_asked_for() -> None:
    peer = Peer().open()
    peer.stream.receive(respond(HeartbeatResponse(), 4, 77))
    assert isinstance(peer.closed[0], ProtocolMismatch)


def test_the_peer_hangs_up() -> None:
    peer = Peer().open()
    peer.beat(what="a heartbeat")
    peer.stream.end()
    (_, error) = peer.answers[0]
    assert isinstance(error, ConnectionLost)
    assert "a heartbeat" in str(error)
    assert peer.closed == [error]
    assert peer.opened == [None]


def test_requests_in_flight_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_IN_FLIGHT", 3)
    peer = Peer().open()
    for _ in range(4):
        peer.beat()
    peer.reactor.settle()
    ((_, error),) = peer.answers
    assert isinstance(error, QueueFull)
    assert error.retriable


def test_a_request_that_a_version_cannot_express_is_refused_alone() -> None:
    peer = Peer().open()
    request = FindCoordinatorRequest(key="g", key_type=1)
    peer.connection.send(request, 0, lambda *it: peer.answers.append(it))
    peer.beat()
    peer.reactor.settle()
    ((_, error),) = peer.answers
    assert isinstance(error, VersionError)
    assert "key_type" in str(error)
    assert peer.connection.in_flight == 1


def test_the_sizes_of_socket_buffers_are_set() -> None:
    """What the operating system makes of them differs, but larger is larger."""
    found = []
    for size in (8_192, 65_536):
        near, far = socket.socketpair()
        peer = Peer(send_buffer_bytes=size, receive_buffer_bytes=size)
        watcher: Any = SimpleNamespace(
            add_reader=lambda *_: None,
            remove_reader=lambda *_: None,
            add_writer=lambda *_: None,
            remove_writer=lambda *_: None,
        )
        peer.made = SocketStream(near, watcher)  # type: ignore[assignment]
        peer.open()
        found.append(
            (
                near.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF),
                near.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
            )
        )
        peer.connection.close()
        far.close()
    assert found[0][0] < found[1][0]
    assert found[0][1] < found[1][1]
