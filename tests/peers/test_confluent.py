"""librdkafka's admin client and the edges of its producer and consumer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_END,
    Consumer,
    IsolationLevel,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.peers.clients import CLIENTS, Record
from tests.peers.topics import create_topic

START_MS = 1_700_000_000_000


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def result(futures: dict[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result(20)


def refusal(futures: dict[Any, Any]) -> str:
    """The name of the error that the only item of a request met."""
    with pytest.raises(KafkaException) as thrown:
        result(futures)
    return str(thrown.value.args[0].name())


def test_topics(admin: AdminClient, name: str, eventually: Callable[..., None]) -> None:
    result(admin.create_topics([NewTopic(name, 3, 1, config={"segment.bytes": "1048576"})]))
    found = admin.list_topics(name, timeout=10).topics[name]
    assert sorted(found.partitions) == [0, 1, 2]
    described = result(admin.describe_topics(TopicCollection([name])))
    assert [p.id for p in described.partitions] == [0, 1, 2]
    assert described.topic_id is not None
    result(admin.create_partitions([NewPartitions(name, 5)]))
    eventually(lambda: len(admin.list_topics(name, timeout=10).topics[name].partitions) == 5)
    assert refusal(admin.create_partitions([NewPartitions(name, 5)])) == "INVALID_PARTITIONS"
    assert refusal(admin.create_topics([NewTopic(name, 1)])) == "TOPIC_ALREADY_EXISTS"
    assert refusal(admin.create_topics([NewTopic(f"{name}-r", 1, 5)])) == (
        "INVALID_REPLICATION_FACTOR"
    )
    wrong = NewTopic(f"{name}-c", 1, 1, config={"retention.ms": "soon"})
    assert refusal(admin.create_topics([wrong])) == "INVALID_CONFIG"
    assert refusal(admin.create_topics([NewTopic("a b", 1, 1)])) == "TOPIC_EXCEPTION"
    result(admin.delete_topics([name]))
    assert refusal(admin.delete_topics([name])) == "UNKNOWN_TOPIC_OR_PART"
    assert refusal(admin.describe_topics(TopicCollection([name]))) == "UNKNOWN_TOPIC_OR_PART"


def test_configs(admin: AdminClient, name: str) -> None:
    result(admin.create_topics([NewTopic(name, 1, 1)]))
    resource = ConfigResource(ResourceType.TOPIC, name)
    entry = ConfigEntry("retention.ms", "5", incremental_operation=AlterConfigOpType.SET)
    resource.add_incremental_config(entry)
    result(admin.incremental_alter_configs([resource]))
    configs = result(admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]))
    assert (configs["retention.ms"].value, configs["retention.ms"].is_default) == ("5", False)
    old_way = ConfigResource(ResourceType.TOPIC, name, set_config={"segment.ms": "60000"})
    result(admin.alter_configs([old_way]))
    configs = result(admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]))
    assert configs["segment.ms"].value == "60000"
    assert configs["retention.ms"].is_default
    wrong = ConfigResource(ResourceType.TOPIC, name, set_config={"nonsense": "1"})
    assert refusal(admin.alter_configs([wrong])) == "INVALID_CONFIG"
    node = str(next(iter(admin.list_topics(timeout=10).brokers)))
    configs = result(admin.describe_configs([ConfigResource(ResourceType.BROKER, node)]))
    assert configs["node.id"].value == node
    assert configs["node.id"].is_read_only


def test_cluster(admin: AdminClient, bootstrap: str) -> None:
    cluster = admin.describe_cluster().result(20)
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [bootstrap]
    assert cluster.controller.id == cluster.nodes[0].id
    assert len(cluster.cluster_id) == 22


def test_offsets(admin: AdminClient, bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 1)
    records = [Record(0, None, b"v%d" % n, timestamp=START_MS + n) for n in range(10)]
    CLIENTS["confluent"].produce(bootstrap, name, records)
    partition = TopicPartition(name, 0)

    def at(spec: OffsetSpec) -> int:
        futures = admin.list_offsets(
            {partition: spec}, isolation_level=IsolationLevel.READ_COMMITTED
        )
        return int(result(futures).offset)

    assert at(OffsetSpec.earliest()) == 0
    assert at(OffsetSpec.latest()) == 10
    assert at(OffsetSpec.max_timestamp()) == 9
    assert at(OffsetSpec.for_timestamp(START_MS + 3)) == 3
    deleted = result(admin.delete_records([TopicPartition(name, 0, 4)]))
    assert deleted.low_watermark == 4
    assert at(OffsetSpec.earliest()) == 4
    assert refusal(admin.delete_records([TopicPartition(name, 0, 400)])) == "OFFSET_OUT_OF_RANGE"
    assert refusal(admin.list_offsets({TopicPartition(name, 3): OffsetSpec.latest()})) in {
        "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_NOENT",
    }  # fmt: skip

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name})
    assert consumer.get_watermark_offsets(partition, timeout=10) == (4, 10)
    found = consumer.offsets_for_times([TopicPartition(name, 0, START_MS + 6)], timeout=10)
    assert found[0].offset == 6
    late = consumer.offsets_for_times([TopicPartition(name, 0, START_MS + 600)], timeout=10)
    assert late[0].offset == OFFSET_END
    consumer.close()


def delivery(bootstrap: str, topic: str, value: bytes, **config: Any) -> str:
    """Sends one record; the name of the error in its delivery report, or "ok"."""
    reports: list[str] = []
    settings = {"bootstrap.servers": bootstrap, **config}
    producer = Producer({key.replace("_", "."): setting for key, setting in settings.items()})
    producer.produce(
        topic,
        value,
        on_delivery=lambda error, message: reports.append(error.name() if error else "ok"),
    )
    producer.flush(20)
    return reports[0]


def test_producer_mistakes(bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 1, {"max.message.bytes": "1000"})
    assert delivery(bootstrap, name, bytes(5000)) == "MSG_SIZE_TOO_LARGE"
    assert delivery(bootstrap, name, bytes(5000), enable_idempotence=True) == "MSG_SIZE_TOO_LARGE"
    assert delivery(bootstrap, name, b"fits") == "ok"
    create_topic(bootstrap, f"{name}-c", 1, {"cleanup.policy": "compact"})
    assert delivery(bootstrap, f"{name}-c", b"keyless") == "INVALID_RECORD"
    assert delivery(bootstrap, "not a topic", b"v") == "TOPIC_EXCEPTION"


def test_a_topic_is_not_created_when_the_client_forbids_it(
    admin: AdminClient, bootstrap: str, name: str
) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name})
    consumer.subscribe([name])
    deadline = time.monotonic() + 10
    message = None
    while message is None and time.monotonic() < deadline:
        message = consumer.poll(0.2)
    assert message is not None
    assert message.error().name() == "UNKNOWN_TOPIC_OR_PART"
    consumer.close()
    assert name not in admin.list_topics(timeout=10).topics


def test_out_of_range_positions_reset(bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 1)
    CLIENTS["confluent"].produce(bootstrap, name, [Record(0, None, b"only")])
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": name, "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(name, 0, 500)])
    message = consumer.poll(10)
    assert message is not None
    assert (message.offset(), message.value()) == (0, b"only")
    consumer.close()
    strict = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": name, "auto.offset.reset": "error"}
    )
    strict.assign([TopicPartition(name, 0, 500)])
    message = strict.poll(10)
    assert message is not None
    assert message.error().name() == "_AUTO_OFFSET_RESET"
    strict.close()


def test_large_batches_with_every_codec(bootstrap: str, name: str) -> None:
    """100,000 small records a codec in batches of about a megabyte, read in one go."""
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    create_topic(bootstrap, name, len(codecs))
    count = 20_000
    for partition, codec in enumerate(codecs):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "linger.ms": 50,
                "batch.size": 900_000,
                "batch.num.messages": count,
            }
        )
        for n in range(count):
            producer.produce(name, b"record %d" % n, partition=partition)
            if n % 1000 == 0:
                producer.poll(0)
        assert producer.flush(30) == 0
    found: dict[int, int] = dict.fromkeys(range(len(codecs)), 0)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name})
    consumer.assign([TopicPartition(name, p, 0) for p in found])
    deadline = time.monotonic() + 30
    while sum(found.values()) < count * len(codecs) and time.monotonic() < deadline:
        for message in consumer.consume(10_000, 0.2):
            assert message.error() is None
            partition = message.partition()
            assert message.offset() == found[partition]
            assert message.value() == b"record %d" % found[partition]
            found[partition] += 1
    assert set(found.values()) == {count}
    consumer.close()


def test_waiting_fetch_ends_when_a_record_comes(bootstrap: str, name: str) -> None:
    """A consumer that waits for a minute's worth of fetch gets a new record at once."""
    create_topic(bootstrap, name, 1)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": name, "fetch.wait.max.ms": 30_000,
         "socket.timeout.ms": 60_000}
    )  # fmt: skip
    consumer.assign([TopicPartition(name, 0, 0)])
    assert consumer.poll(0.5) is None
    CLIENTS["confluent"].produce(bootstrap, name, [Record(0, None, b"now")])
    started = time.monotonic()
    message = consumer.poll(15)
    assert message is not None
    assert message.value() == b"now"
    assert time.monotonic() - started < 10
    consumer.close()
