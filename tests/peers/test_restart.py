"""A clean stop and a new start: topics, configs, records, groups and ids are as before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from tests.peers import systems
from tests.peers.clients import CLIENTS, Record
from tests.peers.members import ConfluentMember
from tests.peers.topics import create_topic


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[systems.System]:
    if (reason := systems.missing()) is not None:
        pytest.skip(reason)
    running = systems.start_system(tmp_path_factory.mktemp("restart"))
    yield running
    running.stop()


def facts(bootstrap: str) -> dict[str, Any]:
    """What a client can learn about topic `t`, group `g`, the broker and the cluster."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    cluster = admin.describe_cluster().result(20)
    topic = admin.describe_topics(TopicCollection(["t"]))["t"].result(20)
    (described,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "t")]).values()
    configs = {name: entry.value for name, entry in described.result(20).items()}
    broker = ConfigResource(ResourceType.BROKER, str(cluster.nodes[0].id))
    (described,) = admin.describe_configs([broker]).values()
    group = admin.describe_consumer_groups(["g"])["g"].result(20)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    partitions = [TopicPartition("t", p) for p in range(4)]
    offsets = [(p.partition, p.offset, p.metadata) for p in consumer.committed(partitions, 20)]
    ends = [consumer.get_watermark_offsets(p, timeout=20) for p in partitions]
    consumer.close()
    return {
        "cluster": cluster.cluster_id,
        "topic": (str(topic.topic_id), [(p.id, p.leader.id) for p in topic.partitions]),
        "configs": configs,
        "broker": described.result(20)["log.cleaner.threads"].value,
        "group": (group.state.name, len(group.members)),
        "offsets": offsets,
        "ends": ends,
        "records": sorted(
            (r.partition, r.offset, r.value)
            for r in CLIENTS["confluent"].consume(bootstrap, "t", 30)
        ),
        "topics": sorted(admin.list_topics(timeout=20).topics),
    }


def test_everything_survives_a_restart(system: systems.System) -> None:
    bootstrap = system.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    create_topic(bootstrap, "t", 2, {"retention.ms": "98765432100"})
    create_topic(bootstrap, "deleted", 2)
    for future in admin.create_partitions([NewPartitions("t", 4)]).values():
        future.result(20)
    for future in admin.delete_topics(["deleted"]).values():
        future.result(20)
    node = str(next(iter(admin.list_topics(timeout=20).brokers)))
    for kind, name, key, value in (
        (ResourceType.TOPIC, "t", "max.message.bytes", "54321"),
        (ResourceType.BROKER, node, "log.cleaner.threads", "2"),
    ):
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(20)
    records = [Record(n % 2, b"k%d" % n, b"v%d" % n) for n in range(36)]
    CLIENTS["confluent"].produce(bootstrap, "t", records, codec="zstd", idempotent=True)
    for future in admin.delete_records([TopicPartition("t", 0, 6)]).values():
        future.result(20)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    stored = [TopicPartition("t", 0, 9, metadata="mark"), TopicPartition("t", 1, 2)]
    consumer.commit(offsets=stored, asynchronous=False)
    consumer.close()

    before = facts(bootstrap)
    assert before["offsets"][0] == (0, 9, "mark")
    assert before["ends"] == [(6, 18), (0, 18), (0, 0), (0, 0)]
    assert before["broker"] == "2"
    for _ in range(2):
        system.stop()
        system.restart()
        assert facts(bootstrap) == before
    CLIENTS["java" if CLIENTS["java"].missing() is None else "confluent"].produce(
        bootstrap, "t", [Record(1, None, b"after")], idempotent=True
    )
    assert facts(bootstrap)["ends"][1] == (0, 19)


def test_members_find_their_group_again(system: systems.System, eventually: Any) -> None:
    create_topic(system.bootstrap, "m", 4)
    members = [ConfluentMember(system.bootstrap, "members", ["m"]) for _ in range(2)]
    try:
        eventually(lambda: sorted(len(m.assigned()) for m in members) == [2, 2])
        CLIENTS["confluent"].produce(
            system.bootstrap, "m", [Record(p, None, b"before") for p in range(4)]
        )
        eventually(lambda: sum(len(m.records()) for m in members) == 4)
        system.stop()
        system.restart()
        CLIENTS["confluent"].produce(
            system.bootstrap, "m", [Record(p, None, b"after") for p in range(4)]
        )

        def after() -> int:
            return len({r.partition for m in members for r in m.records() if r.value == b"after"})

        eventually(lambda: after() == 4, within_s=40)
    finally:
        for member in members:
            member.stop()
