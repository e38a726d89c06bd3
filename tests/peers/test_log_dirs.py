"""Replicas moved between log directories, by Apache's own tool and by ours."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.testing import Cluster
from tests.peers import jvm
from tests.peers.clients import CLIENTS, Record

WAIT_S = 20
TOPIC = "moved"
RECORDS = [Record(0, b"k%d" % n, b"v%d" % n) for n in range(2_000)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    directories = ",".join(str(tmp_path / name) for name in "ab")
    with Cluster(overrides={"log.dirs": directories}, data=tmp_path) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(WAIT_S)
        CLIENTS["confluent"].produce(cluster.bootstrap_servers, TOPIC, RECORDS)
        yield cluster


def place(cluster: Cluster) -> str:
    return cluster.node.replicas.partition(TOPIC, 0).online_log().parent_directory


def other(cluster: Cluster) -> str:
    return next(path for path in cluster.node.config.log_dirs if path != place(cluster))


def _plan(cluster: Cluster, path: str) -> str:
    moved = {
        "topic": TOPIC,
        "partition": 0,
        "replicas": [cluster.node.node_id],
        "log_dirs": [path],
    }
    return json.dumps({"version": 1, "partitions": [moved]})


def started(cluster: Cluster, path: str) -> str:
    return (
        f"Successfully started moving log directory to {path} for replica {TOPIC}-0 with broker "
        f"{cluster.node.node_id} "
    )


def until_complete(verify: Callable[[], str]) -> None:
    deadline = time.monotonic() + WAIT_S
    done = f"Reassignment of replica {TOPIC}-0-1 completed successfully."
    while done not in (said := verify()):
        assert time.monotonic() < deadline, said


def check(cluster: Cluster, path: str) -> None:
    """The replica is there with all of its records, and the controller knows."""
    node = cluster.node
    assert place(cluster) == path
    assert node.replicas.partition(TOPIC, 0).online_log().log_end_offset == len(RECORDS)
    wanted = node.replicas.directory_ids[path]
    registration = node.metadata.image.topics[TOPIC].partitions[0]
    assert registration.directory(node.node_id) == wanted
    consumed = CLIENTS["confluent"].consume(cluster.bootstrap_servers, TOPIC, len(RECORDS))
    assert [each.value for each in consumed] == [each.value for each in RECORDS]


@pytest.mark.skipif(jvm.missing() is not None, reason=str(jvm.missing()))
def test_apache_reassign_partitions(cluster: Cluster, tmp_path: Path) -> None:
    from tests.peers.apache import ToolResult, run_tool

    target = other(cluster)
    plan = tmp_path / "plan.json"
    plan.write_text(_plan(cluster, target))

    def tool(*arguments: str) -> ToolResult:
        return run_tool(
            "ReassignPartitionsCommand",
            [
                *("--bootstrap-server", cluster.bootstrap_servers),
                *("--reassignment-json-file", str(plan), *arguments),
            ],
        )

    executed = tool("--execute", "--replica-alter-log-dirs-throttle", "100000000").check()
    assert started(cluster, target) in executed
    until_complete(lambda: tool("--verify", "--preserve-throttles").check())
    check(cluster, target)


def test_ours(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    from barnabas.cli.main import run

    target = other(cluster)
    command = ["log", "dirs", "move", f"{TOPIC}-0", "--broker", str(cluster.node.node_id)]
    command += ["--to", target, "--execute", "--bootstrap-server", cluster.bootstrap_servers]
    assert run(command) == 0
    assert "moved" in capsys.readouterr().out
    check(cluster, target)


def test_our_reassign_partitions(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from barnabas.cli.apache.reassign_partitions import command

    target = other(cluster)
    plan = tmp_path / "plan.json"
    plan.write_text(_plan(cluster, target))
    common = ["--bootstrap-server", cluster.bootstrap_servers]
    common += ["--reassignment-json-file", str(plan)]
    assert not command([*common, "--execute"])
    assert started(cluster, target) in capsys.readouterr().out
    until_complete(lambda: (command([*common, "--verify"]), capsys.readouterr().out)[1])
    check(cluster, target)
