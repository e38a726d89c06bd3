"""`barnabas up --nodes`: several processes from one command, stopped together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.raft.errors import StorageError
from barnabas.server.local_cluster import plan_cluster

TIMEOUT_S = 60


@contextmanager
def up(data: Path, nodes: int) -> Iterator[tuple[subprocess.Popen[str], str, list[int]]]:
    command = [sys.executable, "-m", "barnabas.cli.main", "up", "--nodes", str(nodes)]
    process = subprocess.Popen(
        [*command, "--data", str(data), "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        bootstrap, pids = "", []
        for line in process.stdout:
            word = line.strip().rstrip(",")
            if word.startswith('"bootstrap"') and not bootstrap:
                bootstrap = word.split('"')[3]
            if word.startswith('"pid"'):
                pids.append(int(word.split(":")[1]))
            if line.startswith("}"):
                break
        yield process, bootstrap, pids
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT_S)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_three_processes_are_one_cluster_and_stop_together(tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient

    with up(tmp_path, 3) as (process, bootstrap, pids):
        assert len(bootstrap.split(",")) == 3
        assert len(pids) == 3
        described = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=TIMEOUT_S)
        assert sorted(described.brokers) == [1, 2, 3]
        os.kill(pids[1], signal.SIGKILL)
        assert process.stderr is not None
        assert "node 2 has ended (signal SIGKILL)" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 0
        assert not any(map(is_alive, pids))


def test_the_same_directory_is_the_same_cluster(tmp_path: Path) -> None:
    first = plan_cluster(str(tmp_path), 2, host="127.0.0.1")
    again = plan_cluster(str(tmp_path), 2, host="127.0.0.1")
    assert first == again
    assert [plan.settings["node.id"] for plan in first] == ["1", "2"]
    with pytest.raises(StorageError, match="cluster of 2 nodes"):
        plan_cluster(str(tmp_path), 3)


def test_the_directory_of_a_single_node_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    with pytest.raises(StorageError, match="single node"):
        plan_cluster(str(tmp_path), 3)
    assert [path.name for path in tmp_path.iterdir()] == ["meta.properties"]
