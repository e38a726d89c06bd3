"""The cluster's commands on three Barnabas nodes: what is missing is named, replicas and voters move."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing import Cluster
from tests.cli import conftest
from tests.cli.conftest import Ran

Run = Callable[..., Ran]
run = conftest.run
DEADLINE_S = 40.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    data = tmp_path_factory.mktemp("three")
    quick = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500}
    with Cluster(nodes=3, data=data, overrides=quick) as running:
        yield running


@pytest.fixture
def bootstrap(cluster: Cluster) -> str:
    return cluster.bootstrap_servers


def until(ask: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = ask()
        if wanted(found):
            return found
        assert time.monotonic() < deadline, found


def ids_of(run: Run) -> list[int]:
    return [row["id"] for row in run("cluster", "list-endpoints", "--format", "json").json]


def test_replicas_move_and_leaders_are_elected(run: Run) -> None:
    a, b, c = ids_of(run)
    assert run("topic", "create", "moved", "--replica-assignment", f"{a}:{b}").code == 0
    assert run("produce", "moved", stdin="one\ntwo\n").code == 0
    shown = run("topic", "reassign", "moved", "--brokers", f"{b},{c}")
    assert "Dry run" in shown.out
    done = run("topic", "reassign", "moved", "--assign", f"0={c}:{b}", "--execute")
    assert done.code == 0, done.err
    assert run("topic", "reassign", "moved", "--verify").code == 0
    (described,) = run("topic", "describe", "moved", "--format", "json").json
    assert described["partitions"][0]["replicas"] == [c, b]
    assert run("consume", "moved", "-o", "start", "-e", "-f", "%v\\n").out.split() == ["one", "two"]
    assert run("topic", "elect-leader", "moved").code == 0


def test_the_quorum_and_its_metadata(run: Run) -> None:
    found = run("quorum", "describe", "--format", "json").json
    assert len(found["voters"]) == 3
    assert found["leader"] in found["voters"]
    assert all(r["endpoints"] for r in found["replicas"])
    assert run("topic", "create", "seen", "-r", "3").code == 0
    live = run("metadata", "shell", "cat", "/image/topics/byName/seen/0", "--format", "json").json
    assert sorted(live["replicas"]) == ids_of(run)


def test_a_dead_node_is_the_reason(run: Run, cluster: Cluster, tmp_path: Path) -> None:
    a, b, c = ids_of(run)
    least = "min.insync.replicas=2"
    assert (
        run("topic", "create", "tight", "--replica-assignment", f"{a}:{c}", "-c", least).code == 0
    )
    assert run("topic", "create", "only", "--replica-assignment", f"{c}").code == 0
    until(lambda: run("cluster", "status"), lambda ran: ran.code == 0)
    cluster.kill(c)
    at_once = run("cluster", "status", "--format", "json").json
    assert at_once["verdict"] != "healthy", "its session has not ended yet, but it does not answer"
    (dead,) = [node for node in at_once["nodes"] if node["node"] == c]
    assert dead["state"] in ("silent", "fenced")
    found = until(
        lambda: run("cluster", "status", "--format", "json"),
        lambda r: bool(r.out) and r.json["counts"]["offline"] == 1,
    ).json
    by_name = {f"{p['topic']}-{p['partition']}": p for p in found["partitions"]}
    assert by_name["only-0"]["state"] == "offline"
    assert by_name["tight-0"]["missing"] == [{"replica": c, "reason": "broker fenced"}]
    assert found["verdict"] == "unavailable"
    cluster.start_node(c)
    until(lambda: run("cluster", "status"), lambda ran: ran.code == 0)
    assert run("topic", "elect-leader", "--all").code == 0
    assert b in ids_of(run)
