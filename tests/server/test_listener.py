"""Addresses, limits on connections, and errors that say what to do."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from barnabas.server.connection import ConnectionSettings
from barnabas.server.connection_limits import SECOND_NS, ConnectionLimits
from barnabas.server.endpoint import Advertised, Endpoint, parse_endpoints
from barnabas.server.network import Network
from barnabas.server.pipeline import Pipeline
from barnabas.server.real import (
    ListenFailure,
    SocketTransport,
    SystemClock,
)
from barnabas.streams import plain_address
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.server.serving import api, on_loop, serving


def beat(node: Any, context: Any, request: Any) -> HeartbeatResponse:
    return HeartbeatResponse()


BEATING = api(ApiKey.HEARTBEAT, beat)
HEARTBEAT = HeartbeatRequest(group_id="g")


def network() -> tuple[Network, Pipeline]:
    loop = asyncio.get_running_loop()
    clock = SystemClock()
    made = Network(loop=loop, clock=clock, transport=SocketTransport(loop))
    return made, Pipeline(None, {ApiKey.HEARTBEAT: BEATING}, clock=clock, loop=loop)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PLAINTEXT://:9092", ("PLAINTEXT", "", 9092)),
        ("plaintext://localhost:0", ("PLAINTEXT", "localhost", 0)),
        ("INTERNAL_1://10.0.0.1:19092", ("INTERNAL_1", "10.0.0.1", 19092)),
        ("A://[::1]:9", ("A", "::1", 9)),
        ("A://0.0.0.0:9", ("A", "0.0.0.0", 9)),
    ],
)
def test_endpoints(text: str, expected: tuple[str, str, int]) -> None:
    endpoint = Endpoint.parse(f" {text} ")
    assert (endpoint.name, endpoint.host, endpoint.port) == expected
    assert Endpoint.parse(str(endpoint)) == endpoint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("localhost:9092", "NAME://HOST:PORT"),
        ("PLAINTEXT://localhost", "NAME://HOST:PORT"),
        ("PLAINTEXT://::1:9092", "NAME://HOST:PORT"),
        ("PLAINTEXT://h:70000", "between 0 and 65535"),
        ("PLAINTEXT://h:-1", "between 0 and 65535"),
        ("A://x:1,A://y:2", "more than once"),
    ],
)
def test_endpoints_that_are_wrong(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_endpoints(text)


def test_the_address_the_client_used_is_advertised() -> None:
    advertised = Advertised([Endpoint("OUTSIDE", "kafka.example", 443)])
    assert advertised.to_client("INSIDE", ("10.1.2.3", 9092)) == Endpoint(
        "INSIDE", "10.1.2.3", 9092
    )
    assert advertised.to_client("OUTSIDE", ("10.1.2.3", 9093)).host == "kafka.example"
    assert advertised.to_cluster(Endpoint("INSIDE", "", 9092), "me") == Endpoint(
        "INSIDE", "me", 9092
    )
    assert advertised.to_cluster(Endpoint("INSIDE", "h", 9092), "me").host == "h"
    assert advertised.to_cluster(Endpoint("OUTSIDE", "", 9092), "me").host == "kafka.example"


def test_ipv4_peers_look_like_ipv4() -> None:
    assert plain_address(("::ffff:10.0.0.1", 5, 0, 0)) == ("10.0.0.1", 5)
    assert plain_address(("::1", 5, 0, 0)) == ("::1", 5)
    assert plain_address("") == ("local", 0)


@pytest.mark.parametrize("host", ["", "127.0.0.1", "localhost", "0.0.0.0"])
@on_loop
async def test_port_0_picks_a_port_for_all_addresses(host: str) -> None:
    made, pipeline = network()
    listeners = made.listen(
        [Endpoint("A", host, 0), Endpoint("B", host, 0)], pipeline, ConnectionSettings()
    )
    try:
        for listener in listeners:
            assert listener.bound.port > 0
            assert {port for _, port in listener.addresses} == {listener.bound.port}
            _, writer = await asyncio.open_connection("127.0.0.1", listener.bound.port)
            writer.close()
        assert listeners[0].bound.port != listeners[1].bound.port
    finally:
        made.close()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
@on_loop
async def test_all_interfaces_are_ipv6_too() -> None:
    made, pipeline = network()
    (listener,) = made.listen([Endpoint("A", "", 0)], pipeline, ConnectionSettings())
    try:
        for host in ("127.0.0.1", "::1"):
            _, writer = await asyncio.open_connection(host, listener.bound.port)
            local = writer.get_extra_info("peername")[:2]
            for _ in range(1000):
                if listener.connections:
                    break
                await asyncio.sleep(0.001)
            (connection,) = listener.connections
            assert connection.local_address == local
            connection.close("test")
            writer.close()
    finally:
        made.close()


@on_loop
async def test_an_address_in_use_is_named_with_what_to_do() -> None:
    made, pipeline = network()
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    port = taken.getsockname()[1]
    try:
        with pytest.raises(ListenFailure) as failure:
            made.listen(
                [Endpoint("A", "127.0.0.1", 0), Endpoint("B", "127.0.0.1", port)],
                pipeline,
                ConnectionSettings(),
            )
        assert f"127.0.0.1:{port}" in str(failure.value)
        assert "another process" in str(failure.value)
        assert "--port" in str(failure.value)
        assert made.listeners == []
    finally:
        taken.close()
        made.close()


@pytest.mark.parametrize(
    ("host", "said"), [("192.0.2.1", "no such address"), ("no.such.host.invalid", "no address")]
)
@on_loop
async def test_an_address_of_another_machine(host: str, said: str) -> None:
    made, pipeline = network()
    with pytest.raises(ListenFailure, match=said):
        made.listen([Endpoint("A", host, 0)], pipeline, ConnectionSettings())
    made.close()


# Limits


@on_loop
async def test_at_the_limit_peers_wait_until_one_has_gone() -> None:
    async with serving(BEATING, limits=ConnectionLimits(max_connections=2)) as served:
        peers = [await served.connect() for _ in range(3)]
        await peers[0].ask(HEARTBEAT, 4)
        await peers[1].ask(HEARTBEAT, 4)
        waiting = asyncio.create_task(peers[2].ask(HEARTBEAT, 4))
        await asyncio.sleep(0.02)
        assert len(served.listener.connections) == 2
        assert not waiting.done()
        peers[0].close()
        await waiting
        assert served.network.limits.count == 2


@on_loop
async def test_a_raised_limit_lets_waiting_peers_in() -> None:
    limits = ConnectionLimits(max_connections=1)
    async with serving(BEATING, limits=limits) as served:
        first, second = await served.connect(), await served.connect()
        await first.ask(HEARTBEAT, 4)
        waiting = asyncio.create_task(second.ask(HEARTBEAT, 4))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        limits.max_connections = 2
        served.network.make_room()
        await waiting


@on_loop
async def test_a_paused_listener_lets_peers_wait() -> None:
    async with serving(BEATING) as served:
        served.listener.pause()
        peer = await served.connect()
        waiting = asyncio.create_task(peer.ask(HEARTBEAT, 4))
        await asyncio.sleep(0.01)
        served.network.make_room()
        await asyncio.sleep(0.01)
        assert not waiting.done()
        assert not served.listener.connections
        served.listener.resume()
        await waiting


@on_loop
async def test_one_address_cannot_have_more_than_its_share(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = ConnectionLimits(max_per_host=100, overrides={"127.0.0.1": 2})
    async with serving(BEATING, limits=limits) as served:
        peers = [await served.connect() for _ in range(2)]
        for peer in peers:
            await peer.ask(HEARTBEAT, 4)
        refused = await served.connect()
        assert await refused.closed() == b""
        assert "max.connections.per.ip" in caplog.text
        assert limits.refused_total == 1
        await peers[0].ask(HEARTBEAT, 4)
        peers[0].close()
        await served.until(lambda: limits.count == 1)
        again = await served.connect()
        await again.ask(HEARTBEAT, 4)


def test_limits_are_kept_for_each_listener() -> None:
    limits = ConnectionLimits(max_per_listener={"A": 1})
    assert limits.has_room("A")
    assert limits.open("A", "h")
    assert not limits.has_room("A")
    assert limits.has_room("B")
    assert limits.of_listener("A") == 1
    limits.close("A", "h")
    assert limits.has_room("A")
    assert limits.count == 0


@on_loop
async def test_closing_ends_connections_and_frees_the_port() -> None:
    async with serving(BEATING) as served:
        peer = await served.connect()
        await peer.ask(HEARTBEAT, 4)
        served.network.close()
        assert await peer.closed() == b""
        assert served.network.limits.count == 0
        again = socket.create_server(("127.0.0.1", served.port))
        again.close()


@on_loop
async def test_the_transport_connects() -> None:
    async with serving(BEATING) as served:
        transport = SocketTransport(asyncio.get_running_loop())
        stream = await transport.connect("127.0.0.1", served.port)
        assert stream.peer_address == ("127.0.0.1", served.port)
        await served.until(lambda: len(served.listener.connections) == 1)
        stream.close()
        stream.close()
        await served.until(lambda: not served.listener.connections)
        served.network.stop_accepting()
        with pytest.raises(OSError):  # noqa: PT011
            await transport.connect("127.0.0.1", served.port)


def test_the_rate_of_connections_allows_a_second_of_them_at_once() -> None:
    limits = ConnectionLimits(max_creation_rate=10, max_creation_rate_per_listener={"A": 2})
    now_ns = 5_000_000_000
    assert [limits.rest_ms("B", now_ns) for _ in range(12)] == [0] * 10 + [100, 200]
    assert limits.rest_ms("B", now_ns + 10 * SECOND_NS) == 0
    later_ns = now_ns + 20 * SECOND_NS
    assert [limits.rest_ms("A", later_ns) for _ in range(4)] == [0, 0, 500, 1000]
    assert ConnectionLimits().rest_ms("A", now_ns) == 0
    assert ConnectionLimits(max_creation_rate=0).rest_ms("A", now_ns) == 1000
