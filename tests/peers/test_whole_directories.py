"""A whole data directory changes hands: metadata, records, settings and committed offsets.

Apache Kafka 4.3 starts on what Barnabas wrote, uses it, and Barnabas goes on where it stopped; and
the other way round. Nothing is copied or formatted again; node id and cluster id are in the files.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from tests.peers import apache, jvm, systems
from tests.peers.apache import ApacheBroker, run_tool
from tests.peers.clients import CLIENTS, Record
from tests.peers.systems import TEST_SIZED, System, start_barnabas
from tests.peers.topics import create_topic

pytestmark = pytest.mark.skipif(
    jvm.missing() is not None or systems.SUT == "apache", reason="needs both brokers"
)

GROUP = "moving"


def start_apache(directory: Path) -> ApacheBroker:
    """On `directory/data` as it is: without the voters of the configuration, as they are in the log."""
    port = apache.free_port()
    properties = apache.write_properties(directory, port, TEST_SIZED)
    lines = properties.read_text().splitlines(keepends=True)
    voters = next(line for line in lines if line.startswith("controller.quorum.voters"))
    address = voters.partition("@")[2].strip()
    lines[lines.index(voters)] = f"controller.quorum.bootstrap.servers={address}\n"
    properties.write_text("".join(lines))
    if not (directory / "data" / "meta.properties").exists():
        run_tool(
            "StorageTool",
            ["format", "--standalone", "-t", apache.CLUSTER_ID, "-c", str(properties)],
            isolated=True,
        ).check()
    broker = ApacheBroker(directory, f"127.0.0.1:{port}")
    broker.start()
    return broker


def records(start: int, count: int) -> list[Record]:
    return [
        Record(0, b"k%d" % n, b"v%d" % n, (("h", b"x"),), 1_700_000_000_000 + n)
        for n in range(start, start + count)
    ]


def use(system: System, turn: int) -> None:
    """What every broker does while it has the directory."""
    bootstrap = system.bootstrap
    create_topic(bootstrap, f"made-{turn}", 2, {"retention.ms": str(1_000_000 + turn)})
    CLIENTS["confluent"].produce(bootstrap, "t", records(turn * 50, 50), idempotent=True)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    where = TopicPartition("t", 0, turn * 50 + 7, metadata=f"turn {turn}")
    consumer.commit(offsets=[where], asynchronous=False)
    consumer.close()


def check(system: System, turns: int) -> None:
    """Everything that the turns before left behind."""
    bootstrap = system.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = admin.list_topics(timeout=20).topics
    assert {"t", *(f"made-{turn}" for turn in range(turns))} <= topics.keys()
    for turn in range(turns):
        assert len(topics[f"made-{turn}"].partitions) == 2
        resource = ConfigResource(ConfigResource.Type.TOPIC, f"made-{turn}")
        values = admin.describe_configs([resource])[resource].result(20)
        assert values["retention.ms"].value == str(1_000_000 + turn)
    found = CLIENTS["confluent"].consume(bootstrap, "t", turns * 50)
    assert [(r.offset, r.key, r.value, r.headers, r.timestamp) for r in found] == [
        (n, r.key, r.value, r.headers, r.timestamp) for n, r in enumerate(records(0, turns * 50))
    ]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    (committed,) = consumer.committed([TopicPartition("t", 0)], timeout=20)
    consumer.close()
    assert (committed.offset, committed.metadata) == ((turns - 1) * 50 + 7, f"turn {turns - 1}")


@pytest.mark.parametrize("first", ["barnabas", "apache"])
def test_a_directory_changes_hands(first: str, tmp_path: Path) -> None:
    directory = tmp_path / "node"
    directory.mkdir()
    kinds = ["barnabas", "apache"] * 2
    if first == "apache":
        kinds.reverse()
    for turn, kind in enumerate(kinds[:3]):
        system: System
        if kind == "apache":
            system = start_apache(directory)
        else:
            system = start_barnabas(directory, {**TEST_SIZED, "node.id": "1"})
        try:
            if turn == 0:
                create_topic(system.bootstrap, "t", 1)
            else:
                check(system, turn)
            use(system, turn)
            check(system, turn + 1)
            system.stop()
        finally:
            system.kill()


def test_apache_tools_read_the_directory(tmp_path: Path) -> None:
    system = start_barnabas(tmp_path / "node", {**TEST_SIZED, "node.id": "1"})
    try:
        create_topic(system.bootstrap, "t", 3)
        system.stop()
    finally:
        system.kill()
    properties = apache.write_properties(tmp_path / "node", 9, {})
    info = run_tool("StorageTool", ["info", "-c", str(properties)], isolated=True)
    assert info.returncode == 0, info.stdout + info.stderr
    assert "directory.id" in info.stdout
    (checkpoint,) = (system.data_dir / "__cluster_metadata-0").glob("*.checkpoint")
    dumped = run_tool(
        "DumpLogSegments", ["--cluster-metadata-decoder", "--files", str(checkpoint)]
    ).check()
    assert "KRaftVersion" in dumped
    assert "SnapshotHeader" in dumped
    assert "isvalid: false" not in dumped
    dumped = run_tool(
        "DumpLogSegments",
        [
            "--cluster-metadata-decoder",
            "--files",
            str(system.data_dir / "bootstrap.checkpoint"),
        ],
    ).check()
    assert "metadata.version" in dumped
