"""A node as a process: what signals do."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.cli.conftest import environment
from tests.cli.served import Served, serve
from tests.peers.wire_connection import Wire
from tests.server.running import fetch_request, produce_request

DEADLINE_S = 30.0


def with_topic(served: Served) -> Wire:
    wire = Wire(served.bootstrap)
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    created = wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    assert created.topics[0].error_code == 0
    return wire


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_sigterm_answers_who_waits_and_ends_well(tmp_path: Path) -> None:
    with serve(tmp_path) as served, with_topic(served) as wire:
        wire.send_bytes(wire.frame(fetch_request("t", 0, max_wait_ms=600_000), 11))
        with Wire(served.bootstrap) as other:
            other.ask(produce_request("t", b"v" * 10), 9)
        wire.answer(ApiKey.FETCH, 11)
        wire.send_bytes(wire.frame(fetch_request("t", 1, max_wait_ms=600_000), 11))
        served.process.send_signal(signal.SIGTERM)
        answer = wire.receive_frame()
        # Read before the signal: answered; after it: the connection was closed.
        assert answer is None or answer[:4] == wire.correlation_id.to_bytes(4, "big")
        assert served.process.wait(DEADLINE_S) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_start_that_waits_for_others(tmp_path: Path, number: int) -> None:
    settings = {
        "process.roles": "broker",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9",
        "log.dirs": str(tmp_path / "data"),
        "barnabas.format.if.empty": "true",
    }
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = [sys.executable, "-m", "barnabas.cli.main", "server", "start", str(file)]
    with subprocess.Popen(command, env=environment(None), stderr=subprocess.PIPE) as process:
        until(lambda: (tmp_path / "data" / "__cluster_metadata-0" / "partition.metadata").exists()
              or process.poll() is not None)  # fmt: skip
        process.send_signal(number)
        assert process.wait(DEADLINE_S) == 0
        assert process.stderr is not None
        assert b"before the start was over" in process.stderr.read()


def test_a_second_interrupt_does_not_wait(tmp_path: Path) -> None:
    with serve(tmp_path) as served, with_topic(served) as wire:
        for _ in range(8):
            wire.ask(produce_request("t", bytes(900_000)), 9)
        host, port = served.bootstrap.rsplit(":", 1)
        with socket.socket() as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.connect((host, int(port)))
            for _ in range(40):
                lazy.sendall(wire.frame(fetch_request("t", 0), 11))
            until(lambda: len(lazy.recv(1, socket.MSG_PEEK)) == 1)
            served.process.send_signal(signal.SIGINT)
            until(lambda: not accepts(host, int(port)))
            assert served.process.poll() is None, "it gives the slow reader time"
            served.process.send_signal(signal.SIGINT)
            assert served.process.wait(DEADLINE_S) == 130
        assert served.process.stderr is not None
        assert "interrupted again" in served.process.stderr.read()
    with serve(tmp_path) as served, Wire(served.bootstrap) as wire:
        fetched = wire.ask(fetch_request("t", 7), 11).responses[0].partitions[0]
        assert (fetched.error_code, fetched.high_watermark) == (0, 8)
        assert served.stop()[0] == 0


def accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True
