"""One quorum of two Apache Kafka controllers and one of ours: either kind leads, and the other follows.

Both kinds write the same log: what one leads, the other appends byte for byte.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.peers import apache, jvm
from tests.peers.apache import run_tool
from tests.peers.apache_cluster import ApacheCluster, ClusterNode

pytestmark = pytest.mark.skipif(jvm.missing() is not None, reason=str(jvm.missing()))

BIN = Path(__file__).parent.parent.parent / "bin"
OURS = 3
PATIENCE_S = 40.0
LOG = "data/__cluster_metadata-0/00000000000000000000.log"


class MixedQuorum:
    """Controllers 1 and 2 are Apache's, 3 is ours."""

    def __init__(self, directory: Path) -> None:
        self.apache = ApacheCluster(directory)
        for node_id in (1, 2, OURS):
            self.apache._prepare(node_id, ("controller",))
        nodes = list(self.apache.nodes.values())
        self.initial = ",".join(f"{n.node_id}@{n.controller}:{n.directory_id}" for n in nodes)
        self.apache.initial = self.initial
        self.process: subprocess.Popen[bytes] | None = None

    def format(self) -> None:
        for node_id in (1, 2):
            self.apache._format(self.node(node_id), ("controller",), {}, initial=True)
        properties = self.apache._properties(self.node(OURS), ("controller",), {})
        command = [BIN / "kafka-storage.sh", "format", "-t", apache.CLUSTER_ID]
        command += ["-c", properties, "--initial-controllers", self.initial]
        subprocess.run(command, check=True, capture_output=True)

    def node(self, node_id: int) -> ClusterNode:
        return self.apache.node(node_id)

    def start(self, node_id: int) -> None:
        node = self.node(node_id)
        if node_id != OURS:
            node.launch()
            return
        with node.log_file.open("ab") as log:
            command = [BIN / "kafka-server-start.sh", node.directory / "server.properties"]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self, node_id: int) -> None:
        if node_id != OURS:
            self.node(node_id).kill()
        elif self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def replication(self, asked: int) -> dict[int, tuple[str, int, int]]:
        """Of each voter: what it is, where its log ends, and how far behind that is."""
        args = ["--bootstrap-controller", self.node(asked).controller, "describe", "--replication"]
        try:
            shown = run_tool("MetadataQuorumCommand", args, timeout_s=10).stdout
        except TimeoutError:
            return {}
        rows = [line.split() for line in shown.splitlines()]
        return {
            int(row[0]): (row[-1], int(row[2]), int(row[3]))
            for row in rows
            if row and row[-1] in ("Leader", "Follower")
        }

    def wait(
        self, asked: int, condition: Callable[[dict[int, tuple[str, int, int]]], bool]
    ) -> dict[int, tuple[str, int, int]]:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            found = self.replication(asked)
            if found and condition(found):
                return found
            time.sleep(0.2)
        raise AssertionError(f"{found}\n{self.node(OURS).tail}\n{self.node(asked).tail}")

    def stop(self) -> None:
        for node_id in (1, 2, OURS):
            self.kill(node_id)


def leader_of(found: dict[int, tuple[str, int, int]]) -> int:
    return next((each for each, (status, _, _) in found.items() if status == "Leader"), -1)


def all_fetch(found: dict[int, tuple[str, int, int]]) -> bool:
    return leader_of(found) > 0 and all(end > 0 and lag <= 1 for _, end, lag in found.values())


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[MixedQuorum]:
    quorum = MixedQuorum(tmp_path)
    quorum.format()
    try:
        yield quorum
    finally:
        quorum.stop()


def test_either_kind_leads_and_the_other_follows(quorum: MixedQuorum) -> None:
    for node_id in (1, 2, OURS):
        quorum.start(node_id)
    led: set[bool] = set()
    asked = 1
    for _ in range(6):
        found = quorum.wait(asked, all_fetch)
        leader = leader_of(found)
        led.add(leader == OURS)
        if len(led) == 2:
            break
        quorum.kill(leader)
        asked = next(each for each in (1, 2, OURS) if each != leader)
        quorum.wait(asked, lambda found, gone=leader: leader_of(found) not in (-1, gone))
        quorum.start(leader)
    assert led == {True, False}, "one of the kinds never led"
    ends = quorum.wait(asked, all_fetch)
    quorum.stop()
    logs = [(quorum.node(each).directory / LOG).read_bytes() for each in (1, 2, OURS)]
    shortest = min(len(each) for each in logs)
    assert min(end for _, end, _ in ends.values()) > 0
    assert shortest > 0
    assert len({each[:shortest] for each in logs}) == 1, "the logs differ"
