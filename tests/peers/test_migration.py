"""From a cluster of one project to a cluster of the other while it is in use.

A node of the other kind joins, becomes a voter, gets all replicas; then the first node leaves the voters
and goes. Everything that was acknowledged is there, and the cluster goes on without the first kind.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.peers import jvm
from tests.peers.node_cluster import BOTH, Plan, State, barnabas, environment, start_nodes, until
from tests.peers.test_mixed_cluster import SMALL, WITHOUT, consume, produce

pytestmark = pytest.mark.skipif(jvm.missing() is not None, reason=str(jvm.missing()))

COUNT = 500
OLD, NEW = 1, 2


def run(*arguments: str) -> str:
    done = subprocess.run(
        barnabas(*arguments),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize(("first", "then"), [("apache", "barnabas"), ("barnabas", "apache")])
def test_all_of_a_cluster_moves_to_the_other_kind(tmp_path: Path, first: str, then: str) -> None:
    cluster = start_nodes(tmp_path, {OLD: Plan(first)}, SMALL, WITHOUT if first == "apache" else ())
    try:
        old = cluster.node(OLD).bootstrap
        State(old).create("moved", replicas=[[OLD]])
        values = [b"%d" % n for n in range(3 * COUNT)]
        produce(old, "moved", 0, values[:COUNT])

        cluster.plans[NEW], cluster.features = Plan(then), ()
        cluster.add_node(NEW, BOTH)
        new = cluster.node(NEW).bootstrap
        config = str(cluster.node(NEW).directory / "server.properties")
        run("quorum", "add", "--config", config, "-b", old)
        run("topic", "reassign", "--all", "--drain", str(OLD), "--execute", "-b", old)
        until(lambda: State(new).leader("moved", 0) == NEW, what="the partition has not moved")
        produce(cluster.bootstrap, "moved", 0, values[COUNT : 2 * COUNT])

        run("quorum", "remove", str(OLD), "-b", new)
        until(lambda: quorum(new) == ([NEW], NEW), what="the quorum has not moved")
        cluster.kill(OLD)
        run("cluster", "unregister", str(OLD), "--force", "-b", new)
        produce(new, "moved", 0, values[2 * COUNT :])
        assert consume(new, "moved", 0, len(values)) == values
        State(new).create("fresh", replicas=[[NEW]])
        assert (
            json.loads(run("cluster", "status", "-b", new, "--wait", "30", "--format", "json"))[
                "verdict"
            ]
            == "healthy"
        )
    finally:
        cluster.stop()


def quorum(bootstrap: str) -> tuple[list[int], int]:
    found = json.loads(run("quorum", "describe", "-b", bootstrap, "--format", "json"))
    return found["voters"], found["leader"]
