"""The Java admin client, and what the Java producer and consumer say about mistakes."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from tests.peers import jvm
from tests.peers.clients import CLIENTS, Record
from tests.peers.json_process import PeerError
from tests.peers.members import JavaMember
from tests.peers.topics import create_topic

pytestmark = pytest.mark.skipif(jvm.missing() is not None, reason=str(jvm.missing()))

Admin = Callable[..., Any]
Eventually = Callable[..., None]
START_MS = 1_700_000_000_000


@pytest.fixture
def admin(bootstrap: str) -> Admin:
    def call(operation: str, **fields: Any) -> Any:
        return jvm.shared().admin(bootstrap, operation, **fields)

    return call


@pytest.fixture
def node_id(admin: Admin) -> int:
    return int(admin("describe_cluster")["controller"])


def kind_of(call: Callable[[], object]) -> str:
    """The Java exception that a call ends with, or "" when it ends well."""
    try:
        call()
    except PeerError as error:
        return error.kind
    return ""


def fill(bootstrap: str, topic: str, count: int, **options: Any) -> None:
    records = [Record(0, b"k", b"v%d" % n, timestamp=START_MS + n) for n in range(count)]
    CLIENTS["confluent"].produce(bootstrap, topic, records, **options)


def test_topics_from_creation_to_deletion(admin: Admin, name: str, node_id: int) -> None:
    created = admin("create_topic", topic=name, partitions=2, configs={"retention.ms": "12345"})
    assert (created["partitions"], created["replication_factor"]) == (2, 1)
    assert created["configs"] >= 31
    described = admin("describe_topic", topic=name)
    assert described["topic_id"] == created["topic_id"]
    assert described["internal"] is False
    assert described["partitions"] == [
        {"partition": i, "leader": node_id, "replicas": [node_id], "isr": [node_id]}
        for i in range(2)
    ]
    admin("create_partitions", topic=name, count=4)
    assert len(admin("describe_topic", topic=name)["partitions"]) == 4
    assert name in admin("list_topics")
    admin("delete_topics", topics=[name])
    assert name not in admin("list_topics")
    unknown = "UnknownTopicOrPartitionException"
    assert kind_of(lambda: admin("describe_topic", topic=name)) == unknown
    assert kind_of(lambda: admin("delete_topics", topics=[name])) == unknown
    again = admin("create_topic", topic=name)
    assert again["topic_id"] != created["topic_id"]
    assert again["partitions"] == 1


def test_topic_refusals(admin: Admin, name: str, node_id: int) -> None:
    def create(**fields: Any) -> str:
        return kind_of(lambda: admin("create_topic", **{"topic": name, **fields}))

    assert create(replication_factor=2) == "InvalidReplicationFactorException"
    assert create(partitions=0) == "InvalidPartitionsException"
    assert create(topic="a/b") == "InvalidTopicException"
    assert create(topic="..") == "InvalidTopicException"
    assert create(topic="x" * 250) == "InvalidTopicException"
    assert create(configs={"nonsense": "1"}) == "InvalidConfigurationException"
    assert create(configs={"retention.ms": "many"}) == "InvalidConfigurationException"
    assert create(assignments={"0": [node_id, node_id]}) == "InvalidReplicaAssignmentException"
    assert create(assignments={"0": [77]}) == "InvalidReplicaAssignmentException"
    assert create(assignments={"1": [node_id]}) == "InvalidReplicaAssignmentException"
    assert create(validate_only=True, partitions=3) == ""
    assert name not in admin("list_topics")
    assert create(assignments={"0": [node_id], "1": [node_id]}) == ""
    assert create() == "TopicExistsException"
    assert create(validate_only=True) == "TopicExistsException"

    def grow(count: int, topic: str = name) -> str:
        return kind_of(lambda: admin("create_partitions", topic=topic, count=count))

    assert grow(1) == "InvalidPartitionsException"
    assert grow(2) == "InvalidPartitionsException"
    assert grow(3, "no-such-topic") == "UnknownTopicOrPartitionException"


def test_topic_configs(admin: Admin, name: str) -> None:
    admin("create_topic", topic=name, configs={"cleanup.policy": "compact"})

    def config(key: str) -> Any:
        return admin("describe_configs", type="TOPIC", name=name)[key]

    def alter(*changes: list[str | None]) -> None:
        admin("alter_configs", type="TOPIC", name=name, changes=list(changes))

    assert config("cleanup.policy") == {
        "value": "compact", "source": "DYNAMIC_TOPIC_CONFIG", "type": "LIST",
        "sensitive": False, "read_only": False, "documented": True,
        "synonyms": [["DYNAMIC_TOPIC_CONFIG", "cleanup.policy", "compact"],
                     ["DEFAULT_CONFIG", "log.cleanup.policy", "delete"]],
    }  # fmt: skip
    assert config("segment.bytes")["source"] == "DEFAULT_CONFIG"
    alter(["APPEND", "cleanup.policy", "delete"], ["SET", "retention.ms", "777"])
    assert config("cleanup.policy")["value"] == "compact,delete"
    assert (config("retention.ms")["value"], config("retention.ms")["type"]) == ("777", "LONG")
    alter(["SUBTRACT", "cleanup.policy", "compact"], ["DELETE", "retention.ms", None])
    assert config("cleanup.policy")["value"] == "delete"
    assert config("retention.ms")["source"] == "DEFAULT_CONFIG"
    invalid = "InvalidConfigurationException"
    assert kind_of(lambda: alter(["SET", "min.cleanable.dirty.ratio", "1.5"])) == invalid
    assert kind_of(lambda: alter(["SET", "compression.type", "brotli"])) == invalid
    assert kind_of(lambda: alter(["APPEND", "retention.ms", "1"])) == invalid
    assert (
        kind_of(lambda: admin("describe_configs", type="TOPIC", name="no-such-topic"))
        == "UnknownTopicOrPartitionException"
    )


def test_broker_configs(admin: Admin, node_id: int, eventually: Eventually) -> None:
    def configs() -> Any:
        return admin("describe_configs", type="BROKER", name=str(node_id))

    def alter(broker: str, *changes: list[str | None]) -> None:
        admin("alter_configs", type="BROKER", name=broker, changes=list(changes))

    before = configs()
    assert before["node.id"]["read_only"] is True
    assert before["node.id"]["value"] == str(node_id)
    assert before["log.dirs"]["source"] == "STATIC_BROKER_CONFIG"
    assert before["log.retention.hours"]["value"] == "168"
    assert before["group.initial.rebalance.delay.ms"]["source"] == "STATIC_BROKER_CONFIG"
    alter(str(node_id), ["SET", "log.retention.ms", "5000000"])
    alter("", ["SET", "log.retention.ms", "6000000"])
    layers = ["DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG", "DEFAULT_CONFIG"]

    def synonyms() -> list[str]:
        return [synonym[0] for synonym in configs()["log.retention.ms"]["synonyms"]]

    eventually(lambda: synonyms() == layers)
    after = configs()["log.retention.ms"]
    assert (after["value"], after["source"]) == ("5000000", "DYNAMIC_BROKER_CONFIG")
    alter(str(node_id), ["DELETE", "log.retention.ms", None])
    eventually(lambda: synonyms() == layers[1:])
    assert configs()["log.retention.ms"]["source"] == "DYNAMIC_DEFAULT_BROKER_CONFIG"
    alter("", ["DELETE", "log.retention.ms", None])
    eventually(lambda: configs()["log.retention.ms"] == before["log.retention.ms"])
    assert (
        kind_of(lambda: alter(str(node_id), ["SET", "node.id", "9"])) == "InvalidRequestException"
    )
    wrong = kind_of(lambda: alter(str(node_id), ["SET", "log.cleaner.threads", "none"]))
    assert wrong in {"InvalidRequestException", "InvalidConfigurationException"}
    resources = admin("list_config_resources")
    assert f"BROKER:{node_id}" in resources


def test_broker_default_reaches_topics(admin: Admin, name: str, eventually: Eventually) -> None:
    admin("create_topic", topic=name)
    change = ["SET", "log.index.interval.bytes", "8192"]
    admin("alter_configs", type="BROKER", name="", changes=[change])

    def found() -> tuple[str, str]:
        entry = admin("describe_configs", type="TOPIC", name=name)["index.interval.bytes"]
        return entry["value"], entry["source"]

    try:
        eventually(lambda: found() == ("8192", "DYNAMIC_DEFAULT_BROKER_CONFIG"))
    finally:
        undo = ["DELETE", "log.index.interval.bytes", None]
        admin("alter_configs", type="BROKER", name="", changes=[undo])


def test_list_offsets(admin: Admin, bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 1)

    def offsets(*specs: object) -> Any:
        return admin("list_offsets", partition=f"{name}-0", specs=list(specs))

    assert offsets("earliest", "latest", "max_timestamp", START_MS) == {
        "earliest": [0, -1], "latest": [0, -1], "max_timestamp": [-1, -1], str(START_MS): [-1, -1],
    }  # fmt: skip
    fill(bootstrap, name, 10)
    CLIENTS["confluent"].produce(bootstrap, name, [Record(0, b"k", b"old", timestamp=START_MS - 9)])
    specs = ("earliest", "latest", "max_timestamp", "earliest_local", "latest_tiered")
    assert offsets(*specs, START_MS + 4, START_MS + 99, START_MS - 99) == {
        "earliest": [0, -1],
        "latest": [11, -1],
        "max_timestamp": [9, START_MS + 9],
        "earliest_local": [0, -1],
        "latest_tiered": [-1, -1],
        str(START_MS + 4): [4, START_MS + 4],
        str(START_MS + 99): [-1, -1],
        str(START_MS - 99): [0, START_MS],
    }


def test_consume_from_a_time(bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 1)
    fill(bootstrap, name, 50, codec="lz4")
    found = jvm.shared().call(
        "consume", bootstrap=bootstrap, topic=name, count=5, timeout_ms=15_000,
        from_timestamp=START_MS + 45,
    )  # fmt: skip
    assert [fields["offset"] for fields in found] == [45, 46, 47, 48, 49]


def test_delete_records(admin: Admin, bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 1)
    fill(bootstrap, name, 10)

    def delete(before: int) -> Any:
        return admin("delete_records", partition=f"{name}-0", before=before)

    assert delete(4) == 4
    assert delete(2) == 4
    assert kind_of(lambda: delete(11)) == "OffsetOutOfRangeException"
    assert delete(-1) == 10
    admin("create_topic", topic=f"{name}-c", configs={"cleanup.policy": "compact"})
    assert (
        kind_of(lambda: admin("delete_records", partition=f"{name}-c-0", before=0))
        == "PolicyViolationException"
    )


def test_groups(admin: Admin, bootstrap: str, name: str, eventually: Eventually) -> None:
    create_topic(bootstrap, name, 2)
    fill(bootstrap, name, 6)
    member = JavaMember(
        bootstrap, name, [name],
        **{"client.id": "c", "group.instance.id": "i", "auto.commit.interval.ms": "100"},
    )  # fmt: skip
    eventually(lambda: len(member.records()) == 6)
    described = admin("describe_group", group=name)
    assert (described["state"], described["type"]) == ("Stable", "Classic")
    assert described["assignor"] == "range"
    assert described["members"] == [
        {"client": "c", "instance": "i", "host": "/127.0.0.1",
         "assigned": [f"{name}-0", f"{name}-1"]}
    ]  # fmt: skip
    assert admin("describe_classic_group", group=name) == "Stable"
    assert [name, "consumer", "Stable"] in admin("list_groups")
    eventually(lambda: admin("group_offsets", group=name).get(f"{name}-0") == [6, ""])
    not_empty = kind_of(lambda: admin("delete_groups", groups=[name]))
    assert not_empty == "GroupNotEmptyException"
    subscribed = kind_of(
        lambda: admin("delete_group_offsets", group=name, partitions=[f"{name}-0"])
    )
    assert subscribed == "GroupSubscribedToTopicException"
    refused = kind_of(lambda: admin("alter_group_offsets", group=name, offsets={f"{name}-0": 1}))
    assert refused == "UnknownMemberIdException"
    member.stop()
    admin("remove_members", group=name, instances=["i"])
    eventually(lambda: admin("describe_group", group=name)["state"] == "Empty")
    gone = kind_of(lambda: admin("remove_members", group=name, instances=["i"]))
    assert gone == "UnknownMemberIdException"
    admin("alter_group_offsets", group=name, offsets={f"{name}-0": 2, f"{name}-1": 0})
    assert admin("group_offsets", group=name) == {
        f"{name}-0": [2, "altered"], f"{name}-1": [0, "altered"],
    }  # fmt: skip
    admin("delete_group_offsets", group=name, partitions=[f"{name}-1"])
    assert set(admin("group_offsets", group=name)) == {f"{name}-0"}
    admin("delete_groups", groups=[name])
    missing = "GroupIdNotFoundException"
    assert kind_of(lambda: admin("delete_groups", groups=[name])) == missing
    assert kind_of(lambda: admin("describe_group", group=name)) == missing
    assert admin("group_offsets", group=name) == {}


def test_deleting_a_topic_deletes_its_offsets(
    admin: Admin, bootstrap: str, name: str, eventually: Eventually
) -> None:
    for topic in (f"{name}-a", f"{name}-b"):
        create_topic(bootstrap, topic, 1)
    admin("alter_group_offsets", group=name, offsets={f"{name}-a-0": 0, f"{name}-b-0": 0})
    admin("delete_topics", topics=[f"{name}-a"])
    eventually(lambda: set(admin("group_offsets", group=name)) == {f"{name}-b-0"})


def test_cluster(admin: Admin, bootstrap: str, node_id: int) -> None:
    cluster = admin("describe_cluster")
    assert len(base64.urlsafe_b64decode(cluster["cluster_id"] + "==")) == 16
    assert cluster["nodes"] == [bootstrap]
    features = admin("describe_features")
    assert features["metadata.version"] == [30, 30]
    quorum = admin("describe_quorum")
    assert (quorum["leader"], quorum["voters"]) == (node_id, [node_id])
    assert 0 < quorum["high_watermark"] <= quorum["end_offset"]


def test_log_dirs(admin: Admin, bootstrap: str, name: str, node_id: int) -> None:
    create_topic(bootstrap, name, 1)
    fill(bootstrap, name, 100)
    directories = admin("describe_log_dirs", broker=node_id)
    assert len(directories) == 1
    found = next(iter(directories.values()))
    assert found["total"] >= found["usable"] > 0
    assert found["sizes"][f"{name}-0"] > 500


def test_describe_producers(admin: Admin, bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 1)
    assert admin("describe_producers", partition=f"{name}-0") == []
    fill(bootstrap, name, 5, idempotent=True)
    (state,) = admin("describe_producers", partition=f"{name}-0")
    assert (state["epoch"], state["last_sequence"]) == (0, 4)
    assert state["last_timestamp"] == START_MS + 4
    assert state["id"] >= 0


def produce_one(
    bootstrap: str, topic: str, fields: dict[str, Any], **config: str
) -> dict[str, Any]:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    outcome: list[dict[str, Any]] = jvm.shared().call(
        "produce", bootstrap=bootstrap, topic=topic, records=[fields], config=settings
    )
    return outcome[0]


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize("idempotence", ["true", "false"])
def test_producer_mistakes(admin: Admin, bootstrap: str, name: str, idempotence: str) -> None:
    admin("create_topic", topic=name, configs={"max.message.bytes": "2000"})
    config = {"enable_idempotence": idempotence, "max_block_ms": "3000"}
    large = {"value": text(bytes(3000))}
    refused = produce_one(bootstrap, name, large, **config)
    assert refused["error"] == "RecordTooLargeException"
    assert produce_one(bootstrap, name, {"value": text(b"ok")}, **config)["offset"] == 0

    compacted = f"{name}-compacted"
    admin("create_topic", topic=compacted, configs={"cleanup.policy": "compact"})
    keyless = produce_one(bootstrap, compacted, {"value": text(b"v")}, **config)
    assert keyless["error"] == "InvalidRecordException"
    assert "key" in keyless["message"]
    keyed = {"key": text(b"k"), "value": text(b"v")}
    assert produce_one(bootstrap, compacted, keyed, **config)["offset"] == 0

    timed = f"{name}-timed"
    limits = {"message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "1000"}
    admin("create_topic", topic=timed, configs=limits)
    for timestamp in (START_MS, 4_000_000_000_000):
        fields = {"value": text(b"v"), "timestamp": timestamp}
        assert produce_one(bootstrap, timed, fields, **config)["error"] == (
            "InvalidTimestampException"
        )
    assert "offset" in produce_one(bootstrap, timed, {"value": text(b"v")}, **config)


def test_min_insync_replicas_never_asks_for_more_than_there_are(
    admin: Admin, bootstrap: str, name: str
) -> None:
    """KIP-966: the effective minimum is bounded by the replication factor."""
    admin("create_topic", topic=name, configs={"min.insync.replicas": "2"})
    assert produce_one(bootstrap, name, {"value": text(b"v")}, acks="all")["offset"] == 0


def test_log_append_time(admin: Admin, bootstrap: str, name: str) -> None:
    admin("create_topic", topic=name, configs={"message.timestamp.type": "LogAppendTime"})
    fields = {"value": text(b"v"), "timestamp": START_MS}
    sent = produce_one(bootstrap, name, fields, compression_type="zstd")
    assert sent["timestamp"] > START_MS
    (found,) = jvm.shared().call(
        "consume", bootstrap=bootstrap, topic=name, count=1, timeout_ms=15_000
    )
    assert (found["timestamp"], found["timestamp_type"]) == (sent["timestamp"], "LogAppendTime")


def test_broker_side_recompression(admin: Admin, bootstrap: str, name: str) -> None:
    for codec in ("gzip", "snappy", "lz4", "zstd", "uncompressed"):
        topic = f"{name}-{codec}"
        admin("create_topic", topic=topic, configs={"compression.type": codec})
        fill(bootstrap, topic, 40, codec="none" if codec != "uncompressed" else "gzip")
        found = CLIENTS["java"].consume(bootstrap, topic, 40)
        assert [(r.offset, r.value, r.timestamp) for r in found] == [
            (n, b"v%d" % n, START_MS + n) for n in range(40)
        ]
