"""The admin clients of kafka-python, aiokafka and kafkajs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.peers import node_process
from tests.peers.clients import CLIENTS, Record
from tests.peers.json_process import PeerError
from tests.peers.topics import create_topic

START_MS = 1_700_000_000_000


@pytest.fixture
def kafka_python(bootstrap: str) -> Iterator[Any]:
    kafka = pytest.importorskip("kafka")
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    yield admin
    admin.close()


def fill(bootstrap: str, topic: str, count: int, **options: Any) -> None:
    records = [Record(0, b"k", b"v%d" % n, timestamp=START_MS + n) for n in range(count)]
    CLIENTS["confluent"].produce(bootstrap, topic, records, **options)


def test_kafka_python_topics_and_configs(kafka_python: Any, name: str) -> None:
    from kafka import errors
    from kafka.admin import ConfigResource, NewPartitions, NewTopic

    kafka_python.create_topics([NewTopic(name, 2, 1, topic_configs={"retention.ms": "9"})])
    with pytest.raises(errors.TopicAlreadyExistsError):
        kafka_python.create_topics([NewTopic(name, 2, 1)])
    with pytest.raises(errors.InvalidReplicationFactorError):
        kafka_python.create_topics([NewTopic(f"{name}-r", 2, 9)])
    assert name in kafka_python.list_topics()
    kafka_python.create_partitions({name: NewPartitions(4)})
    (topic,) = kafka_python.describe_topics([name])
    assert len(topic["partitions"]) == 4
    paged = kafka_python.describe_topic_partitions([name], response_partition_limit=3)
    assert [p["partition_index"] for p in paged["topics"][0]["partitions"]] == [0, 1, 2]
    assert paged["next_cursor"]["partition_index"] == 3
    rest = kafka_python.describe_topic_partitions([name], cursor=paged["next_cursor"])
    assert [p["partition_index"] for p in rest["topics"][0]["partitions"]] == [3]
    assert rest["next_cursor"] is None
    kafka_python.alter_configs([ConfigResource("topic", name, {"segment.ms": "77777"})])
    found = kafka_python.describe_configs([ConfigResource("topic", name)])
    assert "77777" in str(found)
    kafka_python.delete_topics([name])
    assert name not in kafka_python.list_topics()


def test_kafka_python_offsets_and_groups(kafka_python: Any, bootstrap: str, name: str) -> None:
    from kafka import OffsetSpec, TopicPartition
    from kafka.structs import OffsetAndMetadata

    create_topic(bootstrap, name, 1)
    fill(bootstrap, name, 5, idempotent=True)
    partition = TopicPartition(name, 0)

    def at(spec: Any) -> int:
        return int(kafka_python.list_partition_offsets({partition: spec})[partition].offset)

    assert (at(OffsetSpec.EARLIEST), at(OffsetSpec.LATEST)) == (0, 5)
    assert at(OffsetSpec.MAX_TIMESTAMP) == 4
    kafka_python.delete_records({partition: 2})
    assert at(OffsetSpec.EARLIEST) == 2
    producers = kafka_python.describe_producers([partition])[partition]
    assert len(producers.active_producers) == 1
    kafka_python.alter_group_offsets(name, {partition: OffsetAndMetadata(3, "m", -1)})
    assert kafka_python.list_group_offsets([name])[name][partition].offset == 3
    assert name in [group["group_id"] for group in kafka_python.list_groups()]
    described = kafka_python.describe_groups([name])[name]
    assert described["group_state"] == "Empty"
    kafka_python.delete_group_offsets(name, [partition])
    assert kafka_python.list_group_offsets([name])[name] == {}
    kafka_python.delete_groups([name])
    assert name not in [group["group_id"] for group in kafka_python.list_groups()]


def test_kafka_python_cluster(kafka_python: Any, bootstrap: str) -> None:
    cluster = kafka_python.describe_cluster()
    assert [f"{node['host']}:{node['port']}" for node in cluster["brokers"]] == [bootstrap]
    assert kafka_python.describe_features()["metadata.version"]["finalized"] == (30, 30)
    quorum = kafka_python.describe_metadata_quorum()
    assert quorum["topics"][0]["topic_name"] == "__cluster_metadata"
    directories = kafka_python.describe_log_dirs()
    assert directories
    assert "broker" in {key.lower() for key in kafka_python.list_config_resources()}


def test_aiokafka_admin(bootstrap: str, name: str) -> None:
    pytest.importorskip("aiokafka")
    from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    async def scenario() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            created = await admin.create_topics([NewTopic(name, 2, 1)])
            assert created.topic_errors[0][1] == 0
            again = await admin.create_topics([NewTopic(name, 2, 1)])
            assert again.topic_errors[0][1] == 36
            await admin.create_partitions({name: NewPartitions(3)})
            (topic,) = await admin.describe_topics([name])
            assert len(topic["partitions"]) == 3
            resource = ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "8"})
            await admin.alter_configs([resource])
            (found,) = await admin.describe_configs(
                [ConfigResource(ConfigResourceType.TOPIC, name)]
            )
            assert any(entry[:2] == ("retention.ms", "8") for entry in found.resources[0][4])
            assert isinstance(await admin.list_consumer_groups(), list)
            await admin.delete_topics([name])
            assert name not in await admin.list_topics()
        finally:
            await admin.close()

    asyncio.run(scenario())


@pytest.fixture
def kafkajs(bootstrap: str) -> Callable[..., Any]:
    if (reason := node_process.missing()) is not None:
        pytest.skip(reason)

    def call(operation: str, *args: Any) -> Any:
        return node_process.shared().call(
            "admin", bootstrap=bootstrap, call=operation, args=list(args)
        )

    return call


def test_kafkajs_topics_and_configs(kafkajs: Callable[..., Any], name: str) -> None:
    new = {"topic": name, "numPartitions": 2, "replicationFactor": 1}
    assert kafkajs("createTopics", {"topics": [new], "waitForLeaders": True}) is True
    assert kafkajs("createTopics", {"topics": [new]}) is False
    bad = {**new, "topic": f"{name}-r", "replicationFactor": 7}
    with pytest.raises(PeerError) as thrown:
        kafkajs("createTopics", {"topics": [bad]})
    assert thrown.value.kind in {"INVALID_REPLICATION_FACTOR", "KafkaJSAggregateError"}
    assert name in kafkajs("listTopics")
    kafkajs("createPartitions", {"topicPartitions": [{"topic": name, "count": 5}]})
    (topic,) = kafkajs("fetchTopicMetadata", {"topics": [name]})["topics"]
    assert len(topic["partitions"]) == 5
    entries = [{"name": "retention.ms", "value": "4321"}]
    resource = {"type": 2, "name": name, "configEntries": entries}
    kafkajs("alterConfigs", {"validateOnly": False, "resources": [resource]})
    found = kafkajs("describeConfigs", {"resources": [{"type": 2, "name": name}]})
    values = {e["configName"]: e["configValue"] for e in found["resources"][0]["configEntries"]}
    assert values["retention.ms"] == "4321"
    kafkajs("deleteTopics", {"topics": [name]})
    assert name not in kafkajs("listTopics")


def test_kafkajs_offsets_and_groups(kafkajs: Callable[..., Any], bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 1)
    fill(bootstrap, name, 6)
    assert kafkajs("fetchTopicOffsets", name)[0]["high"] == "6"
    kafkajs("deleteTopicRecords", {"topic": name, "partitions": [{"partition": 0, "offset": "2"}]})
    (offsets,) = kafkajs("fetchTopicOffsets", name)
    assert (offsets["low"], offsets["high"]) == ("2", "6")
    (by_time,) = kafkajs("fetchTopicOffsetsByTimestamp", name, START_MS + 4)
    assert by_time["offset"] == "4"
    kafkajs(
        "setOffsets",
        {"groupId": name, "topic": name, "partitions": [{"partition": 0, "offset": "3"}]},
    )
    (stored,) = kafkajs("fetchOffsets", {"groupId": name, "topics": [name]})
    assert [p["offset"] for p in stored["partitions"]] == ["3"]
    assert name in [group["groupId"] for group in kafkajs("listGroups")["groups"]]
    (group,) = kafkajs("describeGroups", [name])["groups"]
    assert group["state"] == "Empty"
    kafkajs("deleteGroups", [name])
    assert name not in [group["groupId"] for group in kafkajs("listGroups")["groups"]]
    cluster = kafkajs("describeCluster")
    assert [f"{b['host']}:{b['port']}" for b in cluster["brokers"]] == [bootstrap]
