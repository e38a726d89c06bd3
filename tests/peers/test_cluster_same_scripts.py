"""Our cluster scripts beside Apache's, on a cluster of three Apache Kafka nodes: the same words.

Numbers that move between two calls (offsets, lags, times) and rows of hash tables are made equal
before they are compared; everything else must agree to the blank. Where Apache prints a stack trace
after its message, the message is what counts.
"""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.admin import Admin
from barnabas.client.administration.topics import NewTopic
from tests.peers import jvm
from tests.peers.apache import ToolResult, run_tool
from tests.peers.apache_cluster import ApacheCluster, directory_id

pytestmark = pytest.mark.skipif(jvm.missing() is not None, reason=str(jvm.missing()))

CLASSES = {
    "metadata_quorum": "MetadataQuorumCommand",
    "reassign_partitions": "ReassignPartitionsCommand",
    "leader_election": "LeaderElectionCommand",
    "log_dirs": "LogDirsCommand",
    "features": "FeatureCommand",
    "cluster": "ClusterTool",
    "metadata_shell": "MetadataShell",
}
# Their main method ends the JVM itself, which the shared one must not do.
ISOLATED = {"cluster", "metadata_shell"}


def ours(script: str, args: list[str], stdin: str = "") -> ToolResult:
    done = subprocess.run(
        [sys.executable, "-m", f"barnabas.cli.apache.{script}", *args],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ToolResult(done.returncode, done.stdout, done.stderr)


def theirs(script: str, args: list[str]) -> ToolResult:
    return run_tool(CLASSES[script], args)


@pytest.fixture(scope="module")
def cluster(apache_cluster: ApacheCluster) -> ApacheCluster:
    with Admin(bootstrap_servers=apache_cluster.bootstrap) as admin:
        outcomes = admin.create_topics(
            [
                NewTopic("alpha", assignments={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}),
                NewTopic("beta", assignments={0: [1, 2], 1: [2, 3]}),
            ]
        )
        assert [o.error for o in outcomes] == [None, None]
    return apache_cluster


def args_of(line: str, cluster: ApacheCluster, folder: Path) -> list[str]:
    found = []
    for word in line.split():
        word = word.replace("{B}", cluster.bootstrap).replace("{C}", cluster.controllers)
        word = word.replace("{D}", directory_id(3)).replace("{F}", str(folder))
        found.append(word.replace("{P}", str(cluster.node(3).directory / "server.properties")))
    return found


STEADY = [
    (r"(HighWatermark|MaxFollowerLag|MaxFollowerLagTimeMs): +\d+", r"\1"),
    (r"\b\d{13}\b", "TIME"),
    (r"\b\d+ ms ago *", "AGO"),
    (r"Epoch: \d+", "Epoch"),
    (r"(?m)^(\d\s+\S{22}\t)\d+ *\t\d+ *\t", r"\1"),
]
# A voter set is printed as Java's hash table has it.
SETS = re.compile(r"voters \[(.*?)\]")


def steady(text: str) -> list[str]:
    for pattern, replacement in STEADY:
        text = re.sub(pattern, replacement, text)
    text = re.sub(r"(?m)^(org\.apache\.\S+Exception: .*|\tat .*|)\n", "", text)
    text = SETS.sub(lambda m: "voters " + ",".join(sorted(re.findall(r"id=\d", m[1]))), text)
    return sorted(text.splitlines())


def message(text: str) -> str:
    """The first line that is no log line: the reason for a failure."""
    kept = [line for line in text.splitlines() if not re.match(r"\[\d{4}-", line)]
    return steady(kept[0])[0] if kept else ""


SAME = [
    "metadata_quorum --bootstrap-server {B} describe --status",
    "metadata_quorum --bootstrap-controller {C} describe --status",
    "metadata_quorum --bootstrap-server {B} describe --replication",
    "metadata_quorum --bootstrap-server {B} describe --replication --human-readable",
    "metadata_quorum --bootstrap-server {B} describe",
    "metadata_quorum --bootstrap-server {B} describe --status --replication",
    "metadata_quorum --bootstrap-server {B} describe --status --human-readable",
    "metadata_quorum --bootstrap-server {B} remove-controller -i 3 -d {D} --dry-run",
    "metadata_quorum --bootstrap-server {B} remove-controller -i 3 -d AAAAAAAAAAAAAAAAAAAAAQ",
    "metadata_quorum --bootstrap-server {B} remove-controller -i 3 -d nonsense",
    "metadata_quorum --bootstrap-server {B} add-controller",
    "metadata_quorum --bootstrap-server {B} --command-config {P} add-controller --dry-run",
    "metadata_quorum --bootstrap-server {B} --command-config {P} add-controller",
    "leader_election --bootstrap-server {B} --election-type preferred --topic alpha --partition 0",
    "leader_election --bootstrap-server {B} --election-type unclean --topic alpha --partition 0",
    "leader_election --bootstrap-server {B} --election-type preferred --topic nope --partition 0",
    "leader_election --bootstrap-server {B} --election-type preferred --path-to-json-file {F}/elect",
    "leader_election --bootstrap-server {B} --election-type preferred --path-to-json-file {F}/none",
    "leader_election --bootstrap-server {B} --election-type wild --topic alpha --partition 0",
    "leader_election --bootstrap-server {B} --election-type preferred --topic alpha",
    "leader_election --bootstrap-server {B} --election-type preferred",
    "leader_election --bootstrap-server {B} --topic alpha --partition 0",
    "leader_election --bootstrap-server {B} --election-type preferred --all-topic-partitions",
    "reassign_partitions --bootstrap-server {B} --list",
    "reassign_partitions --bootstrap-controller {C} --list",
    "reassign_partitions --bootstrap-server {B} --verify --reassignment-json-file {F}/plan",
    "reassign_partitions --bootstrap-server {B} --verify --reassignment-json-file {F}/plan "
    "--preserve-throttles",
    "reassign_partitions --bootstrap-server {B} --cancel --reassignment-json-file {F}/plan",
    "reassign_partitions --bootstrap-server {B} --execute --reassignment-json-file {F}/present",
    "reassign_partitions --bootstrap-server {B} --generate --topics-to-move-json-file {F}/topics "
    "--broker-list 1,2",
    "reassign_partitions --bootstrap-server {B} --generate --topics-to-move-json-file {F}/topics "
    "--broker-list 7,8",
    "log_dirs --bootstrap-server {B} --describe --broker-list 9",
    "features --bootstrap-server {B} describe",
    "features --bootstrap-controller {C} describe --node-id 2",
    "features --bootstrap-server {B} upgrade --feature group.version=1 --dry-run",
    "features --bootstrap-server {B} upgrade --feature nope=1",
    "features --bootstrap-server {B} upgrade --feature group.version=9",
    "features --bootstrap-server {B} upgrade --release-version 4.3 --dry-run",
    "features --bootstrap-server {B} upgrade",
    "features --bootstrap-server {B} upgrade --feature x",
    "features --bootstrap-server {B} downgrade --feature share.version=0 --dry-run",
    "features --bootstrap-server {B} downgrade --release-version 4.0 --dry-run",
    "features --bootstrap-server {B} disable --feature share.version --dry-run",
    "features version-mapping",
    "features version-mapping --release-version 4.0",
    "features feature-dependencies --feature transaction.version=2",
    "features describe",
    "cluster cluster-id --bootstrap-server {B}",
    "cluster cluster-id --bootstrap-controller {C}",
    "cluster list-endpoints --bootstrap-server {B}",
    "cluster list-endpoints --bootstrap-server {B} --include-fenced-brokers",
    "cluster list-endpoints --bootstrap-controller {C}",
    "cluster list-endpoints --bootstrap-controller {C} --include-fenced-brokers",
    "cluster unregister --bootstrap-server {B} --id 9",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that the lines below name."""
    found = tmp_path_factory.mktemp("plans")
    files: dict[str, Any] = {
        "elect": {
            "partitions": [{"topic": t, "partition": p} for t, p in (("alpha", 0), ("nope", 1))]
        },
        "topics": {"topics": [{"topic": "alpha"}, {"topic": "beta"}], "version": 1},
        "plan": {
            "version": 1,
            "partitions": [
                {"topic": "alpha", "partition": 0, "replicas": [2, 3, 1]},
                {"topic": "beta", "partition": 0, "replicas": [3, 2]},
            ],
        },
        "present": {
            "version": 1,
            "partitions": [{"topic": "beta", "partition": 0, "replicas": [1, 2]}],
        },
    }
    for name, data in files.items():
        (found / name).write_text(json.dumps(data))
    return found


@pytest.mark.parametrize("line", SAME)
def test_the_same_words(cluster: ApacheCluster, folder: Path, line: str) -> None:
    script, *args = args_of(line, cluster, folder)
    mine, apache = ours(script, args), theirs(script, args)
    assert steady(mine.stdout) == steady(apache.stdout), apache.stderr[:2000] + mine.stderr
    assert mine.returncode == apache.returncode
    if apache.returncode and not apache.stdout:
        assert message(mine.stderr) == message(apache.stderr)


@pytest.mark.parametrize("script", ["reassign_partitions", "leader_election", "log_dirs"])
def test_every_flag_of_apache_is_accepted(script: str) -> None:
    shown = run_tool(CLASSES[script], ["--help"])
    flags = set(re.findall(r"^ {0,2}(--[a-z][a-z.-]*)", shown.stdout + shown.stderr, re.MULTILINE))
    assert len(flags) >= 4
    parser: Any = importlib.import_module(f"barnabas.cli.apache.{script}").parser()
    known = {name for action in parser._actions for name in action.option_strings}
    assert flags - known == set()


def test_log_directories(cluster: ApacheCluster) -> None:
    """The same JSON, but for the order of hash tables."""
    args = ["--bootstrap-server", cluster.bootstrap, "--describe", "--topic-list", "alpha"]
    found = [shape(r.stdout) for r in (ours("log_dirs", args), theirs("log_dirs", args))]
    assert found[0] == found[1]


def shape(text: str) -> Any:
    *words, data = text.splitlines()
    brokers = json.loads(data)["brokers"]
    for broker in brokers:
        for directory in broker["logDirs"]:
            directory["partitions"].sort(key=lambda p: p["partition"])
        broker["logDirs"].sort(key=lambda d: d["logDir"])
    return words, brokers


def test_a_move_is_executed_verified_and_undone_by_either(
    cluster: ApacheCluster, tmp_path: Path
) -> None:
    at = ["--bootstrap-server", cluster.bootstrap]
    plan = tmp_path / "plan.json"
    said = []
    for run, replicas in ((ours, [3, 2]), (theirs, [1, 2])):
        entry = {"topic": "beta", "partition": 0, "replicas": replicas}
        plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
        file = ["--reassignment-json-file", str(plan)]
        started = run("reassign_partitions", [*at, "--execute", *file, "--throttle", "1000000"])
        assert started.returncode == 0, started.stdout
        said.append(re.sub(r'\[\d,\d\],"log_dirs":\[.*?\]', "PLACES", started.stdout))
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            while admin.list_partition_reassignments():
                pass
        checked = [r("reassign_partitions", [*at, "--verify", *file]) for r in (ours, theirs)]
        assert checked[0].stdout == checked[1].stdout
        assert "Reassignment of partition beta-0 is completed." in checked[0].stdout
    assert said[0] == said[1]


SHELL = [
    "find /",
    "ls",
    "ls /",
    "ls /image",
    "ls /image/topics /image/producerIds",
    "ls /image/features /nope",
    "ls /image/topics/byName/*/id",
    "tree /image/configs",
    "tree /image/topics/byName/beta",
    "tree /image/features",
    "cat /image/topics/byName/beta/0 /image/topics/byName/beta/name",
    "cat /image/cluster/brokers/2",
    "cat /image/provenance",
    "cat /image/topics",
    "cat /nope",
    "find /image/producerIds /nope",
    "pwd",
]


def test_the_same_shell(cluster: ApacheCluster, tmp_path: Path) -> None:
    log = cluster.node(1).data_dir / "__cluster_metadata-0" / "00000000000000000000.log"
    copy = tmp_path / log.name
    shutil.copy(log, copy)
    for line in SHELL:
        args = ["-s", str(copy), *line.split()]
        mine, apache = ours("metadata_shell", args), theirs("metadata_shell", args)
        for _ in range(2):
            # Apache's shell loads in a thread of its own and may look before that has ended.
            if mine.stdout != apache.stdout:
                apache = theirs("metadata_shell", args)
        assert mine.stdout == apache.stdout, line
        assert mine.returncode == apache.returncode


def test_the_same_dump_of_the_metadata_log(cluster: ApacheCluster, tmp_path: Path) -> None:
    folder = cluster.node(1).data_dir / "__cluster_metadata-0"
    for file in (*folder.glob("*.log"), *folder.glob("*.checkpoint")):
        copy = tmp_path / file.name
        shutil.copy(file, copy)
        args = ["--cluster-metadata-decoder", "--files", str(copy)]
        mine, apache = ours("dump_log", args), run_tool("DumpLogSegments", args)
        assert mine.stdout == apache.stdout
