"""Streams between hosts: order, delay, cuts, resets, and hosts that lose their power."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.seams import Stream
from barnabas.sim.loop import VirtualLoop
from barnabas.sim.network import CONNECT_TIMEOUT_NS
from barnabas.sim.stream import WINDOW_BYTES, VirtualStream, VirtualTransport
from tests.sim.world import SECOND_NS, World, read_all


class Pair:
    """A client connected to a server."""

    def __init__(self, seed: int = 0) -> None:
        self.world = World(seed)
        self.server, self.server_loop = self.world.transport("server")
        self.client, self.client_loop = self.world.transport("client")
        self.accepted: list[Stream] = []
        self.listen()
        self.near: VirtualStream = self.world.run(
            self.client_loop, self.client.connect("server", 9092), 1
        )
        self.far = self.accepted[0]
        assert isinstance(self.far, VirtualStream)

    def listen(self) -> None:
        self.listening = listen(self.server, self.accepted)


def listen(transport: VirtualTransport, accepted: list[Stream], backlog: int = 5):  # type: ignore[no-untyped-def]
    return transport.listen(
        "",
        9092,
        accepted.append,
        backlog=backlog,
        send_buffer_bytes=1,
        receive_buffer_bytes=1,
    )


@pytest.mark.parametrize("seed", range(20))
def test_bytes_arrive_in_order_and_whole_however_they_are_cut(seed: int) -> None:
    pair = Pair(seed)
    pair.world.network.link("client", "server").loss = 0.2
    sent = b"".join(bytes([number]) * 50 for number in range(100))
    for start in range(0, len(sent), 50):
        assert pair.near.send(sent[start : start + 50]) == 50
    pair.near.close()
    pair.world.go_on(60)
    assert read_all(pair.far) == sent
    assert pair.far.recv_into(memoryview(bytearray(1))) == 0


def test_readers_are_told_while_there_is_something_to_read() -> None:
    pair = Pair()
    calls = []

    def read_one() -> None:
        buffer = bytearray(1)
        pair.far.recv_into(memoryview(buffer))
        calls.append(bytes(buffer))

    pair.far.on_readable(read_one)
    pair.near.send(b"abc")
    pair.world.go_on(1)
    assert calls == [b"a", b"b", b"c"]


def test_a_sender_has_only_so_much_room() -> None:
    pair = Pair()
    assert pair.near.send(bytes(WINDOW_BYTES + 1)) == WINDOW_BYTES
    with pytest.raises(BlockingIOError):
        pair.near.send(b"x")
    told: list[bool] = []
    pair.near.on_writable(lambda: told.append(True) or pair.near.on_writable(None))
    pair.world.go_on(1)
    assert told == []
    read_all(pair.far)
    pair.world.go_on(1)
    assert told == [True]
    assert pair.near.send(b"x") == 1


def test_what_is_sent_into_a_blocked_link_waits_and_the_other_way_is_free() -> None:
    pair = Pair()
    pair.world.network.block("client", "server")
    pair.near.send(b"question")
    pair.far.send(b"news")
    pair.world.go_on(100)
    assert read_all(pair.far) == b""
    assert read_all(pair.near) == b"news"
    pair.world.network.heal()
    pair.world.go_on(1)
    assert read_all(pair.far) == b"question"


def test_a_killed_process_resets_its_peers() -> None:
    pair = Pair()
    pair.far.send(b"lost with it")
    pair.world.network.kill("server")
    pair.world.go_on(1)
    with pytest.raises(ConnectionResetError):
        read_all(pair.near)
    with pytest.raises(ConnectionRefusedError):
        pair.world.run(pair.client_loop, pair.client.connect("server", 9092), 1)


def test_a_host_without_power_says_nothing_until_it_is_back() -> None:
    pair = Pair()
    pair.world.network.cut_power("server")
    pair.near.send(b"hello?")
    pair.world.go_on(30)
    with pytest.raises(BlockingIOError):
        pair.near.recv_into(memoryview(bytearray(1)))
    pair.world.network.start("server")
    pair.world.go_on(1)
    with pytest.raises(ConnectionResetError):
        pair.near.recv_into(memoryview(bytearray(1)))


def test_connecting_to_a_host_that_is_off_takes_long_and_fails() -> None:
    pair = Pair()
    pair.world.network.cut_power("server")
    before_ns = pair.world.scheduler.now_ns
    with pytest.raises(TimeoutError):
        pair.world.run(pair.client_loop, pair.client.connect("server", 9092), 60)
    assert pair.world.scheduler.now_ns - before_ns >= CONNECT_TIMEOUT_NS
    with pytest.raises(OSError, match="no address"):
        pair.world.run(pair.client_loop, pair.client.connect("nowhere", 9092), 60)


def test_peers_of_a_paused_listener_wait_in_the_backlog() -> None:
    pair = Pair()
    pair.listening.pause()
    stream = pair.world.run(pair.client_loop, pair.client.connect("server", 9092), 1)
    stream.send(b"early")
    pair.world.go_on(1)
    assert len(pair.accepted) == 1
    pair.listening.resume()
    pair.world.go_on(1)
    assert read_all(pair.accepted[1]) == b"early"  # type: ignore[arg-type]


def test_who_stops_waiting_for_a_connection_leaves_none_behind() -> None:
    pair = Pair()
    pair.world.network.block("server", "client")

    async def impatient() -> None:
        async with asyncio.timeout(1):
            await pair.client.connect("server", 9092)

    with pytest.raises(TimeoutError):
        pair.world.run(pair.client_loop, impatient(), 5)
    pair.world.network.heal()
    pair.world.go_on(5)
    with pytest.raises(ConnectionResetError):
        read_all(pair.accepted[1])  # type: ignore[arg-type]


def test_a_connection_broken_in_the_middle_fails_on_both_sides() -> None:
    pair = Pair()
    (stream,) = pair.world.network.connections()
    stream.break_off()
    for side in (pair.near, pair.far):
        with pytest.raises(ConnectionResetError):
            side.send(b"x")


def test_a_slow_link_is_slow() -> None:
    pair = Pair()
    pair.world.network.link("client", "server").slowness = 100_000
    loop: VirtualLoop = pair.server_loop
    pair.far.on_readable(lambda: (read_all(pair.far), arrived.append(loop.time())))  # type: ignore[arg-type]
    arrived: list[float] = []
    start_s = pair.world.scheduler.now_ns / SECOND_NS
    pair.near.send(b"x")
    pair.world.go_on(100)
    assert arrived[0] - start_s > 1
