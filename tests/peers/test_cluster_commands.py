"""barnabas quorum, cluster, topic reassign, log dirs and metadata shell on three Apache Kafka nodes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.producer import Producer
from tests.cli import conftest
from tests.cli.conftest import Ran
from tests.peers import jvm
from tests.peers.apache_cluster import ApacheCluster

pytestmark = pytest.mark.skipif(jvm.missing() is not None, reason=str(jvm.missing()))

Run = Callable[..., Ran]
run = conftest.run


@pytest.fixture(scope="module")
def cluster(apache_cluster: ApacheCluster) -> ApacheCluster:
    return apache_cluster


@pytest.fixture
def bootstrap(cluster: ApacheCluster) -> str:
    return cluster.bootstrap


def status_until(run: Run, wanted: Callable[[Any], bool], within_s: float = 60.0) -> Any:
    deadline = time.monotonic() + within_s
    while True:
        found = run("cluster", "status", "--format", "json")
        if found.out and wanted(found.json):
            return found.json
        assert time.monotonic() < deadline, found.out + found.err


def test_a_healthy_cluster(cluster: ApacheCluster, run: Run) -> None:
    assert run("topic", "create", "calm", "--replica-assignment", "1:2:3,2:3:1").code == 0
    found = status_until(run, lambda s: s["verdict"] == "healthy")
    assert [n["node"] for n in found["nodes"]] == [1, 2, 3]
    assert sum(n["controller"] == "active" for n in found["nodes"]) == 1
    assert run("cluster", "status").code == 0
    described = run("quorum", "describe", "--format", "json").json
    assert described["leader"] == described["replicas"][0]["node"]
    assert {r["role"] for r in described["replicas"]} == {"leader", "voter"}
    assert run("quorum", "describe", "-C", cluster.controllers, "--status").code == 0


def test_a_move_with_throttle_and_rollback(
    run: Run, cluster: ApacheCluster, tmp_path: Path
) -> None:
    assert run("topic", "create", "moved", "--replica-assignment", "1:2").code == 0
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for index in range(200):
            producer.send("moved", b"x" * 1000, str(index))
    back = tmp_path / "back.json"
    shown = run("topic", "reassign", "moved", "--brokers", "2,3")
    assert "Dry run" in shown.out
    done = run(
        *("topic", "reassign", "moved", "--assign", "0=3:2", "--execute", "--throttle", "10MB"),
        *("--save", str(back), "--format", "json"),
    )
    assert done.code == 0, done.err
    assert done.json["partitions"][0]["status"] == "moved"
    assert run("topic", "reassign", "moved", "--brokers", "7").code == 3
    settings = run("config", "describe", "topic", "moved", "--format", "json").out
    assert "throttled" not in settings
    assert run("topic", "reassign", "--file", str(back), "--execute", "--no-wait").code == 0
    deadline = time.monotonic() + 30
    while run("topic", "reassign", "--file", str(back), "--verify").code != 0:
        assert time.monotonic() < deadline
    assert json.loads(back.read_text())["partitions"][0]["replicas"] == [1, 2]


def test_a_replica_changes_its_directory(run: Run, cluster: ApacheCluster) -> None:
    assert run("topic", "create", "placed", "--replica-assignment", "2").code == 0
    found = run("log", "dirs", "--broker", "2", "--format", "json").json
    other = next(d for d in found if not any(r["replica"] == "placed-0" for r in d["held"]))
    move = ("log", "dirs", "move", "placed-0", "--broker", "2", "--to", other["directory"])
    assert "Dry run" in run(*move).out
    assert "moved" in run(*move, "--execute").out
    assert run(*move[:-1], "/nowhere").code == 3


def test_the_metadata_of_a_running_cluster_and_of_its_files(
    run: Run, cluster: ApacheCluster
) -> None:
    live = run("metadata", "shell", "cat", "/image/topics/byName/calm/0", "--format", "json").json
    assert live["replicas"] == [1, 2, 3]
    directory = str(cluster.node(2).data_dir)
    stored = run("metadata", "shell", "-s", directory, "cat", "/image/topics/byName/calm/0")
    assert "partitionEpoch" in stored.out
    piped = run("metadata", "shell", stdin="cd image/topics/byName\nls\nexit\nls\n")
    assert "calm" in piped.out.splitlines()
    assert run("metadata", "shell", "cat", "/nowhere").code == 3


def test_a_voter_is_removed_and_added(run: Run, cluster: ApacheCluster) -> None:
    leader = run("quorum", "describe", "--format", "json").json["leader"]
    node = next(n for n in (1, 2, 3) if n != leader)
    assert "would remove" in run("quorum", "remove", str(node), "--dry-run").out
    assert run("quorum", "remove", str(node)).code == 0
    deadline = time.monotonic() + 30
    while node in run("quorum", "describe", "--format", "json").json["voters"]:
        assert time.monotonic() < deadline
    assert run("quorum", "remove", str(node)).code == 3
    config = str(cluster.node(node).directory / "server.properties")
    while run("quorum", "add", "--config", config).code != 0:
        assert time.monotonic() < deadline
    assert sorted(run("quorum", "describe", "--format", "json").json["voters"]) == [1, 2, 3]


def test_a_fenced_broker_is_the_reason(run: Run, cluster: ApacheCluster) -> None:
    least = "min.insync.replicas=2"
    assert run("topic", "create", "tight", "--replica-assignment", "1:3", "-c", least).code == 0
    assert run("topic", "create", "only", "--replica-assignment", "3").code == 0
    cluster.node(3).kill()
    found = status_until(
        run, lambda s: s["verdict"] == "unavailable" and s["counts"]["offline"] == 1
    )
    by_name = {f"{p['topic']}-{p['partition']}": p for p in found["partitions"]}
    assert by_name["only-0"]["state"] == "offline"
    assert by_name["tight-0"]["state"] == "under-min-ISR"
    assert by_name["tight-0"]["missing"] == [{"replica": 3, "reason": "broker fenced"}]
    assert by_name["calm-0"]["state"] == "under-replicated"
    text = run("cluster", "status")
    assert text.code == 1
    assert "3: broker fenced" in text.out
    assert run("cluster", "unregister", "1").code == 1
    assert run("cluster", "unregister", "3").code == 0
    gone = status_until(
        run, lambda s: [n["node"] for n in s["nodes"] if n["leads"] is not None] == [1, 2]
    )
    reasons = {m["reason"] for p in gone["partitions"] for m in p["missing"]}
    assert reasons == {"broker not registered"}
    cluster.node(3).start()
    assert run("cluster", "status", "--wait", "40").code == 0
    assert run("topic", "elect-leader", "--all").code == 0
