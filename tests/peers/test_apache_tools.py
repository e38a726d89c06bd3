"""Apache Kafka's own command-line tools against the system under test, in one JVM."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.peers import jvm
from tests.peers.apache import ToolResult
from tests.peers.clients import CLIENTS, Record
from tests.peers.topics import create_topic

pytestmark = pytest.mark.skipif(jvm.missing() is not None, reason=str(jvm.missing()))

Tool = Callable[..., ToolResult]


@pytest.fixture
def tool(bootstrap: str) -> Tool:
    """`tool(class name, *args)` with --bootstrap-server put in front."""
    from tests.peers.apache import run_tool

    def run(name: str, *args: str, stdin: str = "") -> ToolResult:
        return run_tool(name, ["--bootstrap-server", bootstrap, *args], stdin=stdin)

    return run


@pytest.fixture
def node_id(bootstrap: str) -> int:
    cluster = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10)
    return int(next(iter(cluster.brokers)))


def table(text: str) -> list[dict[str, str]]:
    """Rows of a column-aligned table whose first line names the columns."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    return [dict(zip(lines[0], row, strict=False)) for row in lines[1:]]


def fill(bootstrap: str, topic: str, *counts: int) -> None:
    """`counts[i]` records in partition i, one batch each."""
    records = [
        Record(index, b"k%d" % n, b"v%d" % n, timestamp=1_700_000_000_000 + n)
        for index, count in enumerate(counts)
        for n in range(count)
    ]
    CLIENTS["confluent"].produce(bootstrap, topic, records)


def test_topic_command(tool: Tool, name: str) -> None:
    created = tool(
        "TopicCommand", "--create", "--topic", name, "--partitions", "3",
        "--config", "retention.ms=1000000",
    )  # fmt: skip
    assert f"Created topic {name}." in created.check()
    again = tool("TopicCommand", "--create", "--topic", name)
    assert again.returncode == 1
    assert f"Topic '{name}' already exists." in again.stdout
    assert (
        "already exists"
        not in tool("TopicCommand", "--create", "--topic", name, "--if-not-exists").check()
    )

    described = tool("TopicCommand", "--describe", "--topic", name).check()
    assert re.search(r"PartitionCount: 3\s+ReplicationFactor: 1\s+Configs: .*retention.ms=1000000",
                     described)  # fmt: skip
    rows = re.findall(r"Partition: (\d)\s+Leader: (\d+)\s+Replicas: (\d+)\s+Isr: (\d+)", described)
    assert [row[0] for row in rows] == ["0", "1", "2"]
    assert len({row[1:] for row in rows}) == 1

    tool("TopicCommand", "--alter", "--topic", name, "--partitions", "5").check()
    assert "PartitionCount: 5" in tool("TopicCommand", "--describe", "--topic", name).check()
    fewer = tool("TopicCommand", "--alter", "--topic", name, "--partitions", "2")
    assert fewer.returncode == 1
    assert f"The topic {name} currently has 5 partition(s); 2 would not be an increase." in (
        fewer.stdout
    )
    assert name in tool("TopicCommand", "--list").check().split()
    tool("TopicCommand", "--delete", "--topic", name).check()
    assert name not in tool("TopicCommand", "--list").check().split()
    gone = tool("TopicCommand", "--describe", "--topic", name)
    assert gone.returncode == 1
    assert "does not exist as expected" in gone.stdout


def test_topic_command_refusals(tool: Tool, name: str) -> None:
    many = tool("TopicCommand", "--create", "--topic", name, "--replication-factor", "3")
    assert many.returncode == 1
    assert "InvalidReplicationFactorException" in many.stderr
    assert "Unable to replicate the partition 3 time(s)" in many.stdout
    none = tool("TopicCommand", "--create", "--topic", name, "--partitions", "0")
    assert none.returncode == 1
    bad = tool("TopicCommand", "--create", "--topic", "with space")
    assert bad.returncode == 1
    assert "InvalidTopicException" in bad.stderr
    collides = f"{name}_x".replace(".", "_")
    tool("TopicCommand", "--create", "--topic", collides).check()
    collision = tool("TopicCommand", "--create", "--topic", collides.replace("_", "."))
    assert collision.returncode == 1
    assert "collides with existing topic" in collision.stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console_producer_and_consumer(tool: Tool, bootstrap: str, name: str, codec: str) -> None:
    create_topic(bootstrap, name, 2)
    lines = ["h1:v1,h2:v2\tk1\tone", "h1:x\tk2\ttwo", "h1:y\tk1\tthree"]
    tool(
        "ConsoleProducer", "--topic", name, "--compression-codec", codec,
        "--reader-property", "parse.key=true", "--reader-property", "parse.headers=true",
        stdin="\n".join(lines) + "\n",
    ).check()  # fmt: skip
    consumed = tool(
        "ConsoleConsumer", "--topic", name, "--from-beginning", "--max-messages", "3",
        "--timeout-ms", "15000", "--formatter-property", "print.key=true",
        "--formatter-property", "print.headers=true",
    )  # fmt: skip
    assert sorted(consumed.check().splitlines()) == sorted(lines)
    assert "Processed a total of 3 messages" in consumed.stderr


def test_console_consumer_from_an_offset(tool: Tool, bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 1)
    fill(bootstrap, name, 10)
    consumed = tool(
        "ConsoleConsumer", "--topic", name, "--partition", "0", "--offset", "7",
        "--max-messages", "3", "--timeout-ms", "15000",
        "--formatter-property", "print.offset=true",
        "--formatter-property", "print.timestamp=true",
    )  # fmt: skip
    assert consumed.check().splitlines() == [
        f"CreateTime:{1_700_000_000_000 + n}\tOffset:{n}\tv{n}" for n in (7, 8, 9)
    ]


def test_consumer_group_command(tool: Tool, bootstrap: str, name: str) -> None:
    group = f"group.{name}"
    create_topic(bootstrap, name, 2)
    fill(bootstrap, name, 6, 4)
    tool(
        "ConsoleConsumer", "--topic", name, "--from-beginning", "--max-messages", "10",
        "--timeout-ms", "15000", "--group", group,
    ).check()  # fmt: skip
    fill(bootstrap, name, 3)
    assert group in tool("ConsumerGroupCommand", "--list").check().split()
    states = table(tool("ConsumerGroupCommand", "--list", "--state").check())
    assert {"GROUP": group, "STATE": "Empty"} in states

    def offsets() -> dict[str, tuple[str, str, str]]:
        rows = table(tool("ConsumerGroupCommand", "--describe", "--group", group).check())
        return {
            row["PARTITION"]: (row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"])
            for row in rows
        }

    assert offsets() == {"0": ("6", "9", "3"), "1": ("4", "4", "0")}
    state = tool("ConsumerGroupCommand", "--describe", "--group", group, "--state").check()
    assert re.search(r"Empty\s+0", state)

    def reset(*how: str) -> ToolResult:
        return tool("ConsumerGroupCommand", "--group", group, "--reset-offsets", *how)

    reset("--to-earliest", "--topic", name, "--dry-run").check()
    assert offsets()["0"][0] == "6"
    reset("--to-earliest", "--topic", name, "--execute").check()
    assert offsets() == {"0": ("0", "9", "9"), "1": ("0", "4", "4")}
    reset("--shift-by", "2", "--topic", f"{name}:0", "--execute").check()
    reset("--to-latest", "--topic", f"{name}:1", "--execute").check()
    assert offsets() == {"0": ("2", "9", "7"), "1": ("4", "4", "0")}
    reset("--to-datetime", "2023-11-14T22:13:20.003Z", "--all-topics", "--execute").check()
    assert offsets()["0"][0] == "3"

    deleted = tool(
        "ConsumerGroupCommand", "--group", group, "--delete-offsets", "--topic", f"{name}:1"
    ).check()
    assert re.search(r"1\s+Successful", deleted)
    assert set(offsets()) == {"0"}
    tool("ConsumerGroupCommand", "--group", group, "--delete").check()
    assert group not in tool("ConsumerGroupCommand", "--list").check().split()
    gone = tool("ConsumerGroupCommand", "--describe", "--group", group)
    assert f"Group {group} not found." in gone.stdout
    listed = tool("GroupsCommand", "--list").check()
    assert group not in listed


def test_config_command_for_a_topic(tool: Tool, bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 1)
    entity = ("--entity-type", "topics", "--entity-name", name)
    change = "max.message.bytes=2000,cleanup.policy=[compact,delete]"
    tool("ConfigCommand", "--alter", *entity, "--add-config", change).check()
    described = tool("ConfigCommand", "--describe", *entity).check()
    assert (
        "cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:"
        "cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}"
    ) in described
    assert "max.message.bytes=2000" in described
    everything = tool("ConfigCommand", "--describe", *entity, "--all").check()
    keys = set(re.findall(r"^  ([a-z0-9.]+)=", everything, re.M))
    assert keys >= {"retention.ms", "segment.bytes", "min.insync.replicas", "flush.ms"}
    assert len(keys) >= 31
    tool("ConfigCommand", "--alter", *entity, "--delete-config", "max.message.bytes").check()
    assert "max.message.bytes" not in tool("ConfigCommand", "--describe", *entity).check()
    for wrong in ("nonsense=1", "retention.ms=abc", "segment.bytes=1"):
        refused = tool("ConfigCommand", "--alter", *entity, "--add-config", wrong)
        assert refused.returncode == 1, wrong
        assert "InvalidConfigurationException" in refused.stderr, wrong


def test_config_command_for_brokers(tool: Tool, node_id: int) -> None:
    one = ("--entity-type", "brokers", "--entity-name", str(node_id))
    default = ("--entity-type", "brokers", "--entity-default")
    tool("ConfigCommand", "--alter", *one, "--add-config", "log.cleaner.threads=2").check()
    tool("ConfigCommand", "--alter", *default, "--add-config", "message.max.bytes=900000").check()
    assert (
        "log.cleaner.threads=2 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:"
        "log.cleaner.threads=2, DEFAULT_CONFIG:log.cleaner.threads=1}"
    ) in tool("ConfigCommand", "--describe", *one).check()
    assert "message.max.bytes=900000" in tool("ConfigCommand", "--describe", *default).check()
    everything = tool("ConfigCommand", "--describe", *one, "--all").check()
    assert "DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=900000" in everything
    tool("ConfigCommand", "--alter", *one, "--delete-config", "log.cleaner.threads").check()
    tool("ConfigCommand", "--alter", *default, "--delete-config", "message.max.bytes").check()
    assert "log.cleaner.threads" not in tool("ConfigCommand", "--describe", *one).check()
    refused = tool("ConfigCommand", "--alter", *one, "--add-config", "process.roles=x")
    assert refused.returncode == 1
    assert "Cannot update these configs dynamically: [process.roles]" in refused.stderr


def test_get_offsets(tool: Tool, bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 3)
    fill(bootstrap, name, 5, 2)

    def offsets(*args: str) -> list[str]:
        lines = tool("GetOffsetShell", "--topic", name, *args).check().split()
        return [line.removeprefix(f"{name}:") for line in lines]

    assert offsets() == ["0:5", "1:2", "2:0"]
    assert offsets("--time", "earliest") == ["0:0", "1:0", "2:0"]
    assert offsets("--time", "max-timestamp") == ["0:4", "1:1"]
    assert offsets("--time", "1700000000002") == ["0:2"]
    assert offsets("--time", "earliest-local") == ["0:0", "1:0", "2:0"]
    assert offsets("--time", "latest-tiered") == []


def test_delete_records(tool: Tool, bootstrap: str, name: str, tmp_path: Path) -> None:
    create_topic(bootstrap, name, 2)
    fill(bootstrap, name, 8, 8)
    wanted = tmp_path / "offsets.json"

    def delete(*offsets: int) -> str:
        partitions = [
            {"topic": name, "partition": index, "offset": offset}
            for index, offset in enumerate(offsets)
        ]
        wanted.write_text(json.dumps({"version": 1, "partitions": partitions}))
        return tool("DeleteRecordsCommand", "--offset-json-file", str(wanted)).check()

    done = delete(3, -1)
    assert f"partition: {name}-0\tlow_watermark: 3" in done
    assert f"partition: {name}-1\tlow_watermark: 8" in done
    earliest = tool("GetOffsetShell", "--topic", name, "--time", "earliest").check()
    assert earliest.split() == [f"{name}:0:3", f"{name}:1:8"]
    found = CLIENTS["confluent"].consume(bootstrap, name, 5)
    assert [(r.partition, r.offset) for r in found] == [(0, n) for n in range(3, 8)]
    assert "OffsetOutOfRangeException" in delete(99, 8)


def test_log_dirs(tool: Tool, bootstrap: str, name: str, node_id: int) -> None:
    create_topic(bootstrap, name, 2)
    fill(bootstrap, name, 5)
    text = tool("LogDirsCommand", "--describe", "--topic-list", name).check()
    found: dict[str, Any] = json.loads(text.splitlines()[-1])["brokers"][0]
    assert found["broker"] == node_id
    assert [directory["error"] for directory in found["logDirs"]] == [None]
    partitions = {p["partition"]: p for p in found["logDirs"][0]["partitions"]}
    assert set(partitions) == {f"{name}-0", f"{name}-1"}
    assert partitions[f"{name}-0"]["size"] > 61
    assert partitions[f"{name}-1"] == {
        "partition": f"{name}-1", "size": 0, "offsetLag": 0, "isFuture": False,
    }  # fmt: skip


def test_what_the_cluster_says_of_itself(tool: Tool, bootstrap: str, node_id: int) -> None:
    versions = tool("BrokerApiVersionsCommand").check()
    assert re.search(
        rf"{re.escape(bootstrap)} \(id: {node_id} rack: null isFenced: false\)", versions
    )
    for line in ("Produce(0): 0 to 13", "Fetch(1): 4 to 18", "Metadata(3): 0 to 13",
                 "JoinGroup(11): 0 to 9", "DescribeTopicPartitions(75): 0"):  # fmt: skip
        assert line in versions
    features = tool("FeatureCommand", "describe").check()
    assert re.search(r"Feature: metadata.version\s.*SupportedMaxVersion: 4.3-IV0", features)
    status = tool("MetadataQuorumCommand", "describe", "--status").check()
    assert re.search(rf"LeaderId: +{node_id}\n", status)
    cluster_id = re.search(r"ClusterId: +(\S+)", status)
    assert cluster_id is not None
    replication = table(tool("MetadataQuorumCommand", "describe", "--replication").check())
    assert [(row["NodeId"], row["Lag"]) for row in replication] == [(str(node_id), "0")]
    from tests.peers.apache import run_tool

    told = run_tool("ClusterTool", ["cluster-id", "--bootstrap-server", bootstrap]).check()
    assert told.strip() == f"Cluster ID: {cluster_id[1]}"
    ends = run_tool("ClusterTool", ["list-endpoints", "--bootstrap-server", bootstrap]).check()
    host, port = bootstrap.rsplit(":", 1)
    assert [(row["HOST"], row["PORT"]) for row in table(ends)] == [(host, port)]


def test_describe_producers(tool: Tool, bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 1)
    args = ("describe-producers", "--topic", name, "--partition", "0")
    assert table(tool("TransactionsCommand", *args).check()) == []
    records = [Record(0, None, b"v")] * 4
    CLIENTS["confluent"].produce(bootstrap, name, records, idempotent=True)
    rows = table(tool("TransactionsCommand", *args).check())
    assert [(row["ProducerEpoch"], row["LastSequence"]) for row in rows] == [("0", "3")]


def test_performance_tools(tool: Tool, bootstrap: str, name: str) -> None:
    from tests.peers.apache import run_tool

    create_topic(bootstrap, name, 2)
    sent = run_tool(
        "ProducerPerformance",
        ["--topic", name, "--num-records", "20000", "--record-size", "100", "--throughput", "-1",
         "--bootstrap-server", bootstrap],
    ).check()  # fmt: skip
    assert "20000 records sent" in sent
    consumed = tool(
        "ConsumerPerformance", "--topic", name, "--num-records", "20000", "--timeout", "20000"
    ).check()
    row = consumed.splitlines()[-1].split(", ")
    assert int(row[4]) == 20_000
    latency = tool(
        "EndToEndLatency", "--topic", f"{name}-2", "--num-records", "100",
        "--producer-acks", "all", "--record-size", "50",
    ).check()  # fmt: skip
    assert "Percentiles: 50th = " in latency
