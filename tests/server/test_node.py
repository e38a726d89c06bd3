"""A node's listeners, its end, and why it may not start."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.config.broker import BrokerConfig
from barnabas.config.definition import ConfigError
from barnabas.raft.errors import StorageError
from barnabas.raft.snapshot import write_snapshot
from barnabas.record.batch import iterate_batches
from barnabas.server.broker_state import BrokerState
from barnabas.server.development import development_node
from barnabas.server.node import Node, real_world
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from tests.server.running import (
    brokers,
    contents,
    create_topic,
    fetch_request,
    produce_request,
    running,
    send,
)
from tests.server.serving import frame, on_loop

NAMED = {
    "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener_security_protocol_map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller_listener_names": "CONTROLLER",
}


def has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")


# ---- where it listens, and what it tells


@on_loop
async def test_each_named_listener_advertises_itself(tmp_path: Path) -> None:
    advertised = "OUTSIDE://kafka.example.org:19092"
    async with running(tmp_path, **NAMED, advertised_listeners=advertised) as run:
        inside, outside = run.node.broker_listeners
        assert (inside.name, outside.name) == ("INSIDE", "OUTSIDE")
        port = inside.bound.port
        assert await brokers(await run.connect()) == [(1, "127.0.0.1", port)]
        assert await brokers(await run.connect(listener=1)) == [(1, "kafka.example.org", 19092)]


@pytest.mark.parametrize("host", ["0.0.0.0", "", pytest.param("[::]", marks=needs_ipv6)])
def test_the_address_that_was_used_is_advertised(tmp_path: Path, host: str) -> None:
    @on_loop
    async def ask() -> None:
        async with running(tmp_path, listeners=f"PLAINTEXT://{host}:0") as run:
            for used in ("127.0.0.1", "127.0.0.2"):
                peer = await run.connect(used)
                assert await brokers(peer) == [(1, used, run.node.port)]
            if host != "0.0.0.0" and has_ipv6():
                assert await brokers(await run.connect("::1")) == [(1, "::1", run.node.port)]

    ask()


@needs_ipv6
@on_loop
async def test_localhost_is_both_loopback_addresses(tmp_path: Path) -> None:
    async with running(tmp_path, listeners="PLAINTEXT://localhost:0") as run:
        for host in ("127.0.0.1", "::1"):
            assert await brokers(await run.connect(host)) == [(1, host, run.node.port)]
        assert run.node.bootstrap_servers == f"localhost:{run.node.port}"


@on_loop
async def test_a_limit_of_one_listener(tmp_path: Path) -> None:
    limit = {"listener.name.outside.max.connections": 1}
    async with running(tmp_path, **NAMED, **limit) as run:
        first = await run.connect(listener=1)
        assert await brokers(first)
        second = await run.connect(listener=1)
        asked = asyncio.ensure_future(brokers(second))
        assert await brokers(await run.connect())
        assert await brokers(await run.connect())
        assert not asked.done()
        first.close()
        assert await asked


# ---- its end


@on_loop
async def test_what_waits_is_answered_before_the_end(tmp_path: Path) -> None:
    async with running(tmp_path, barnabas_flush_before_ack="true") as run:
        peer, other = await run.connect(), await run.connect()
        await create_topic(peer, "t")
        peer.send(frame(fetch_request("t", 0, max_wait_ms=600_000), 11, 1))
        await run.until(lambda: len(run.node.replicas.fetch_purgatory) == 1)
        other.send(frame(produce_request("t", b"kept"), 9, 2))
        await run.until(lambda: run.node.replicas.partitions["t", 0].log.log_end_offset == 1)  # type: ignore[union-attr]
        await run.node.stop()
        correlation_id, produced = await other.response(ApiKey.PRODUCE, 9)
        assert (correlation_id, produced.responses[0].partition_responses[0].error_code) == (2, 0)
        correlation_id, fetched = await peer.response(ApiKey.FETCH, 11)
        assert (correlation_id, fetched.error_code) == (1, 0)
        assert await peer.closed() == b""
        assert run.node.lifecycle.state is BrokerState.NOT_RUNNING
    async with running(tmp_path) as run:
        peer = await run.connect()
        fetched = await peer.ask(fetch_request("t", 0), 11)
        assert b"kept" in bytes(fetched.responses[0].partitions[0].records)


@on_loop
async def test_a_stopping_node_reads_no_further_requests(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        peer = await run.connect()
        await create_topic(peer, "t")
        run.node.network.stop_reading()
        peer.send(frame(produce_request("t", b"late"), 9, 1))
        await run.node.stop()
        assert await peer.closed() == b""
    async with running(tmp_path) as run:
        log = run.node.logs.get("t", 0)
        assert log is not None
        assert log.log_end_offset == 0


@on_loop
async def test_stopping_twice_and_states_in_order(tmp_path: Path) -> None:
    node = development_node(data=str(tmp_path), port=0)
    assert node.lifecycle.state is BrokerState.NOT_RUNNING
    await node.start()
    assert node.lifecycle.state is BrokerState.RUNNING
    await asyncio.gather(node.stop(), node.stop())
    await node.stop()
    await node.stopped()
    assert node.lifecycle.state is BrokerState.NOT_RUNNING


# ---- why it does not start


def failing(tmp_path: Path, **settings: str) -> str:
    """What a start says when it fails. Afterwards the node must have let go of everything."""

    async def start() -> str:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        node = development_node(data=str(tmp_path / "data"), port=0, overrides=given)
        with pytest.raises(Exception) as failure:  # noqa: PT011
            await node.start()
        assert node.lifecycle.state is BrokerState.NOT_RUNNING
        return str(failure.value)

    return asyncio.run(start())


def formatted(tmp_path: Path) -> Path:
    async def start() -> None:
        async with running(tmp_path / "data"):
            pass

    asyncio.run(start())
    return tmp_path / "data"


def test_a_port_that_is_taken_is_found_before_anything_is_written(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = failing(tmp_path, listeners=f"PLAINTEXT://127.0.0.1:{port}")
        assert f"Cannot listen on 127.0.0.1:{port}: another process already uses" in said
        said = failing(tmp_path, barnabas_metrics_port=str(port))
        assert f"Cannot listen on 127.0.0.1:{port}" in said
    assert not (tmp_path / "data").exists()


def test_a_directory_of_another_broker(tmp_path: Path) -> None:
    @on_loop
    async def start() -> None:
        async with running(tmp_path):
            second = development_node(data=str(tmp_path), port=0)
            with pytest.raises(Exception, match="in use by another broker"):
                await second.start()

    start()


def test_a_directory_of_another_node(tmp_path: Path) -> None:
    formatted(tmp_path)
    assert "meta.properties. Expected 2, but read 1" in failing(tmp_path, node_id="2")


def test_directories_of_two_clusters(tmp_path: Path) -> None:
    data = formatted(tmp_path)
    other = tmp_path / "other"
    shutil.copytree(data, other)
    meta = other / "meta.properties"
    lines = [
        "cluster.id=AAAAAAAAAAAAAAAAAAAAAA" if line.startswith("cluster.id") else line
        for line in meta.read_text().splitlines()
    ]
    meta.write_text("\n".join(lines))
    said = failing(tmp_path, log_dirs=f"{data},{other}")
    assert "Invalid cluster.id in" in said
    assert "AAAAAAAAAAAAAAAAAAAAAA" in said


def another_node(data: Path) -> str:
    meta = data / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=8"))
    return r"belongs to node 8, .* and this node is 1"


def no_quorum_state(data: Path) -> str:
    (data / "__cluster_metadata-0" / "quorum-state").write_bytes(b"")
    return r"quorum-state is corrupt .* format it anew"


def half_a_snapshot(data: Path) -> str:
    path = data / "__cluster_metadata-0" / f"{4:020}-{1:010}.checkpoint"
    path.write_bytes(write_snapshot([b"x"], epoch=1, now_ms=0, last_contained_timestamp_ms=0)[:-9])
    return r"checkpoint is damaged.* Put a sound copy"


def no_footer(data: Path) -> str:
    path = data / "__cluster_metadata-0" / f"{4:020}-{1:010}.checkpoint"
    whole = write_snapshot([b"x"], epoch=1, now_ms=0, last_contained_timestamp_ms=0)
    *_, (_, last, _) = iterate_batches(whole)
    path.write_bytes(whole[:last])
    return r"checkpoint is not complete: it has no footer"


@pytest.mark.parametrize("spoil", [another_node, no_quorum_state, half_a_snapshot, no_footer])
@on_loop
async def test_a_directory_that_is_refused_stays_as_it_is(
    tmp_path: Path, spoil: Callable[[Path], str]
) -> None:
    """Before it is known whose they are and that they are sound, not even the logs are loaded: that
    would cut off what looks damaged and take away the mark of a clean shutdown."""
    async with running(tmp_path) as run:
        peer = await run.connect()
        await create_topic(peer, "kept")
        assert await send(peer, "kept", b"v") == 0
    problem = spoil(tmp_path)
    before = contents(tmp_path)
    again = development_node(
        data=str(tmp_path), port=0, overrides={"barnabas.format.if.empty": "false"}
    )
    with pytest.raises(StorageError, match=problem):
        await again.start()
    assert contents(tmp_path) == before


@on_loop
async def test_a_start_that_is_given_up_leaves_the_logs_clean(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        peer = await run.connect()
        await create_topic(peer, "kept")
    mark = tmp_path / ".kafka_cleanshutdown"
    before = mark.read_bytes()
    nobody = {"process.roles": "broker", "controller.quorum.bootstrap.servers": "127.0.0.1:9",
              "controller.listener.names": "CONTROLLER"}  # fmt: skip
    node = development_node(data=str(tmp_path), port=0, overrides=nobody)
    start = asyncio.ensure_future(node.start())
    while not node.logs.logs:
        await asyncio.sleep(0.002)
    assert not mark.exists()
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert node.lifecycle.state is BrokerState.NOT_RUNNING
    assert mark.read_bytes() == before


def a_file(path: Path) -> None:
    path.write_text("no directory")


def no_rights(path: Path) -> None:
    path.mkdir(mode=0o500)


@pytest.mark.parametrize(
    "make",
    [
        a_file,
        pytest.param(
            no_rights, marks=pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
        ),
    ],
)
def test_a_directory_that_cannot_be_used(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "data")
    assert str(tmp_path / "data") in failing(tmp_path)


@on_loop
async def test_what_is_not_supported_yet_is_refused() -> None:
    with pytest.raises(ConfigError, match="SSL, which is not supported yet"):
        Node(BrokerConfig({"listeners": "SSL://:0"}), real_world())


# ---- bad peers


@on_loop
async def test_a_peer_that_never_reads_costs_a_bounded_amount(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        peer = await run.connect()
        await create_topic(peer, "t")
        for _ in range(8):
            assert await send(peer, "t", bytes(900_000)) == 0
        lazy = await run.connect(receive_buffer_bytes=4096)
        (connection,) = (
            each
            for each in run.node.network.connections()
            if each.peer_address[1] == lazy.writer.get_extra_info("sockname")[1]
        )
        request = frame(fetch_request("t", 0), 11, 1)
        lazy.reader._transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(500):
            lazy.send(request)
        await run.until(lambda: connection.held)
        assert await send(peer, "t", b"others go on") == 0
        assert connection.unsent_bytes < 64 * 1_048_576
        assert run.node.pipeline is not None
        assert run.node.pipeline.requests_in_flight < 500


@on_loop
async def test_a_flood_of_connections_waits_for_its_turn(tmp_path: Path) -> None:
    async with running(tmp_path, max_connection_creation_rate="20") as run:
        peers = [await run.connect() for _ in range(30)]
        for peer in peers[:20]:
            await peer.ask(ApiVersionsRequest(), 0)
        assert run.node.network.listeners[0].accepted_total < 30
        for peer in peers[20:]:
            await peer.ask(ApiVersionsRequest(), 0)
