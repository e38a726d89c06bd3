"""The cluster's commands against one node: a quorum of one is a cluster as well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from barnabas.testing import Cluster
from tests.cli.conftest import Ran

Run = Callable[..., Ran]


def test_quorum(run: Run) -> None:
    found = run("quorum", "describe", "--format", "json").json
    assert found["voters"] == [found["leader"]]
    assert found["replicas"][0]["role"] == "leader"
    assert "replicas" not in run("quorum", "describe", "--status", "--format", "json").json
    shown = run("quorum", "describe", "--replication")
    assert shown.out.startswith("NODE  ROLE")
    assert run("quorum", "remove", "99").code == 3
    assert run("quorum", "add").code == 2
    assert run("quorum", "add", "5", "--endpoint", "nonsense").code == 2
    assert run("quorum", "add", "--config", "/nowhere").code == 3


def test_status(run: Run, topic: str) -> None:
    found = run("cluster", "status", "--format", "json").json
    assert found["verdict"] == "healthy"
    assert found["counts"]["offline"] == 0
    assert found["nodes"][0]["controller"] == "active"
    assert yaml.safe_load(run("cluster", "status", "--format", "yaml").out)["verdict"] == "healthy"
    text = run("cluster", "status")
    assert text.code == 0
    assert " is healthy" in text.out
    assert run("topic", "alter", topic, "-c", "min.insync.replicas=2").code == 0
    assert run("cluster", "status").code == 0, "more than there are replicas means all of them"


def test_endpoints_and_identity(run: Run) -> None:
    (only,) = run("cluster", "list-endpoints", "--format", "json").json
    assert only["state"] == "unfenced"
    assert run("cluster", "id").out.strip()
    assert run("cluster", "unregister", "99").code == 3
    assert run("cluster", "unregister", str(only["id"])).code == 1


def test_features(run: Run) -> None:
    found = {
        f["feature"]: f for f in run("features", "describe", "--format", "json").json["features"]
    }
    assert found["metadata.version"]["level"] > 0
    assert run("features", "upgrade").code == 2
    assert run("features", "upgrade", "nonsense").code == 2
    assert run("features", "upgrade", "nonsense=1").code == 1
    level = found["metadata.version"]["level"]
    same = run("features", "upgrade", f"metadata.version={level}")
    assert same.out.startswith("Nothing to change")


def test_directories(run: Run, topic: str) -> None:
    (only,) = run("log", "dirs", "--topic", topic, "--format", "json").json
    assert {r["replica"] for r in only["held"]} == {f"{topic}-0", f"{topic}-1"}
    assert f"{topic}-0" in run("log", "dirs", "describe", "--replicas").out
    assert run("log", "dirs", "--broker", "99").code == 3
    place = ("--broker", str(only["broker"]), "--to", only["directory"])
    stays = run("log", "dirs", "move", f"{topic}-0", *place)
    assert "there already" in stays.out
    assert run("log", "dirs", "move", f"{topic}-9", *place).code == 3
    assert run("log", "dirs", "move", "nonsense", *place).code == 2


def test_reassign_and_elect(run: Run, topic: str) -> None:
    node = run("cluster", "list-endpoints", "--format", "json").json[0]["id"]
    same = run("topic", "reassign", topic, "--brokers", str(node))
    assert same.out.startswith("Nothing to move")
    assert run("topic", "reassign", topic, "--brokers", "99").code == 3
    assert run("topic", "reassign", topic).code == 2
    assert run("topic", "reassign", "--list").code == 0
    assert run("topic", "reassign", topic, "--verify").code == 0
    assert run("topic", "reassign", topic, "--assign", "7=1").code == 3
    assert run("topic", "reassign", "--list", "--cancel").code == 2
    elected = run("topic", "elect-leader", topic, "--format", "json").json
    assert {row["status"] for row in elected} == {"not needed"}
    assert run("topic", "elect-leader").code == 2
    assert run("topic", "elect-leader", "nowhere").code == 3


def test_the_metadata_of_a_directory(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Cluster(data=data) as cluster:
        cluster.create_topic("kept", 2)
    for place in (data, data / "__cluster_metadata-0"):
        listed = run("metadata", "shell", "-s", str(place), "ls", "/image/topics/byName/kept")
        assert listed.out.split() == ["0", "1", "id", "name"]
    assert run("metadata", "shell", "-s", str(tmp_path), "ls").code == 3
    assert run("metadata", "shell", "-s", str(tmp_path / "none"), "ls").code == 3
    bad = tmp_path / "bad.checkpoint"
    bad.write_bytes(b"\x01" * 100)
    assert run("metadata", "shell", "-s", str(bad), "ls").code == 1


@pytest.mark.parametrize("noun", ["quorum", "cluster", "features", "metadata", "log dirs"])
def test_help_has_examples(run: Run, noun: str) -> None:
    shown = run(*noun.split(), "--help")
    assert shown.code == 0
    for line in shown.out.split("Commands:")[1].splitlines():
        if line.strip():
            assert "Examples:" in run(*noun.split(), line.split()[0], "--help").out
