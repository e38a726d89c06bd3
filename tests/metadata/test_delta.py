"""Every metadata record changes the image as it should, and tells what it changed."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.metadata.delta import MetadataDelta, MetadataError, _Table
from barnabas.metadata.image import (
    EMPTY,
    MetadataImage,
    PartitionRegistration,
    ProducerIdsImage,
    ResourceType,
)
from barnabas.wire import uuids
from barnabas.wire.message import Message
from barnabas.wire.records import metadata as r

A, B = b"a" * 16, b"b" * 16


def topic(name: str = "t", topic_id: bytes = A, partitions: int = 1) -> list[Message]:
    return [r.TopicRecord(name=name, topic_id=topic_id)] + [
        r.PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=[1, 2],
            isr=[1, 2],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=[A, B],
        )
        for index in range(partitions)
    ]


def broker(broker_id: int = 1, epoch: int = 10) -> r.RegisterBrokerRecord:
    return r.RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=A,
        broker_epoch=epoch,
        end_points=[r.BrokerEndpoint(name="PLAINTEXT", host="h", port=9092)],
        features=[
            r.BrokerFeature(
                name="metadata.version", min_supported_version=7, max_supported_version=30
            )
        ],
        rack="here",
        log_dirs=[A],
    )


def apply(image: MetadataImage, *records: Message) -> tuple[MetadataImage, MetadataDelta]:
    delta = MetadataDelta(image)
    delta.replay_all(records)
    return delta.apply(image.offset + len(records), 1), delta


def change(**fields: Any) -> r.PartitionChangeRecord:
    return r.PartitionChangeRecord(partition_id=0, topic_id=A, **fields)


def test_topics_and_partitions() -> None:
    image, delta = apply(EMPTY, *topic(partitions=2))
    assert image.offset == 2
    assert image.topics["t"] is image.topics_by_id[A]
    assert image.topics["t"].partitions[1] == PartitionRegistration(
        (1, 2), (1, 2), 1, 0, 0, directories=(A, B)
    )
    assert image.topics["t"].partitions[0].directory(2) == B
    assert image.partition("t", 2) is None
    assert list(delta.created_topics) == list(delta.changed_topics) == ["t"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"isr": [1]}, {"isr": (1,)}),
        ({"leader": 2}, {"leader": 2, "leader_epoch": 1}),
        ({"leader": -1}, {"leader": -1, "leader_epoch": 1}),
        (
            {"isr": [], "leader": -1, "eligible_leader_replicas": [1], "last_known_elr": [1]},
            {"isr": (), "leader": -1, "leader_epoch": 1, "elr": (1,), "last_known_elr": (1,)},
        ),
        (
            {"replicas": [2, 3], "adding_replicas": [3], "removing_replicas": [1]},
            {
                "replicas": (2, 3),
                "adding_replicas": (3,),
                "removing_replicas": (1,),
                "directories": (B, uuids.UNASSIGNED_DIRECTORY),
            },
        ),
        ({"directories": [B, A]}, {"directories": (B, A)}),
        ({"leader_recovery_state": 1}, {"leader_recovery_state": 1}),
    ],
)
def test_partition_change(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    before, _ = apply(EMPTY, *topic())
    after, delta = apply(before, change(**fields))
    assert after.topics["t"].partitions[0] == before.topics["t"].partitions[0]._replace(
        partition_epoch=1, **expected
    )
    assert list(delta.changed_topics) == ["t"]
    assert not delta.created_topics


def test_a_change_shares_what_it_does_not_touch() -> None:
    before, _ = apply(EMPTY, *topic(), *topic("u", B), broker())
    after, _ = apply(before, change(leader=2))
    assert after.topics["u"] is before.topics["u"]
    assert after.brokers is before.brokers
    assert after.configs is before.configs
    assert before.topics["t"].partitions[0].leader == 1


def test_deleting_a_topic_takes_its_settings_along() -> None:
    config = r.ConfigRecord(
        resource_type=ResourceType.TOPIC, resource_name="t", name="retention.ms", value="1"
    )
    before, _ = apply(EMPTY, *topic(), config)
    after, delta = apply(before, r.RemoveTopicRecord(topic_id=A))
    assert not after.topics
    assert not after.topics_by_id
    assert not after.configs
    assert delta.deleted_topics == {"t": before.topics["t"]}
    assert delta.changed_configs == {(ResourceType.TOPIC, "t")}
    assert not delta.changed_topics


def test_deleted_and_created_again_in_one_delta() -> None:
    before, _ = apply(EMPTY, *topic())
    after, delta = apply(before, r.RemoveTopicRecord(topic_id=A), *topic("t", B))
    assert after.topics["t"].topic_id == B
    assert delta.deleted_topics["t"].topic_id == A
    assert delta.created_topics["t"].topic_id == B


def test_created_and_deleted_in_one_delta_leaves_nothing() -> None:
    after, delta = apply(EMPTY, *topic(), r.RemoveTopicRecord(topic_id=A))
    assert not after.topics
    assert not delta.deleted_topics
    assert not delta.changed_topics


def test_settings() -> None:
    def record(name: str, value: str | None) -> r.ConfigRecord:
        return r.ConfigRecord(resource_type=4, resource_name="1", name=name, value=value)

    image, delta = apply(EMPTY, record("a", "1"), record("b", "2"), record("a", "3"))
    assert image.config(4, "1") == {"a": "3", "b": "2"}
    assert delta.changed_configs == {(4, "1")}
    image, _ = apply(image, record("a", None), record("b", None))
    assert image.config(4, "1") == {}
    assert not image.configs


def test_features() -> None:
    image, delta = apply(EMPTY, r.FeatureLevelRecord(name="metadata.version", feature_level=30))
    assert image.features.metadata_version == 30
    assert delta.features_changed
    image, _ = apply(image, r.FeatureLevelRecord(name="group.version", feature_level=1))
    image, _ = apply(image, r.FeatureLevelRecord(name="group.version", feature_level=0))
    assert image.features.finalized_levels == {"metadata.version": 30}


def test_brokers() -> None:
    image, delta = apply(EMPTY, broker())
    found = image.brokers[1]
    assert found.fenced
    assert not found.active
    listener = found.listener("PLAINTEXT")
    assert listener is not None
    assert listener.host == "h"
    assert found.listener("X") is None
    assert found.features == {"metadata.version": (7, 30)}
    assert delta.changed_brokers == {1}
    image, _ = apply(
        image, r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=-1)
    )
    assert image.brokers[1].active
    image, _ = apply(
        image,
        r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, in_controlled_shutdown=1),
        r.BrokerRegistrationChangeRecord(
            broker_id=1, broker_epoch=10, log_dirs=[B], cordoned_log_dirs=[B]
        ),
    )
    assert image.brokers[1].in_controlled_shutdown
    assert image.brokers[1].directories == (B,)
    assert image.brokers[1].cordoned_directories == (B,)
    image, _ = apply(image, r.FenceBrokerRecord(id=1, epoch=10))
    assert image.brokers[1].fenced
    image, _ = apply(image, r.UnfenceBrokerRecord(id=1, epoch=10))
    assert not image.brokers[1].fenced
    image, _ = apply(image, r.UnregisterBrokerRecord(broker_id=1, broker_epoch=10))
    assert not image.brokers


def test_the_rest() -> None:
    entity = [r.EntityData(entity_type="user", entity_name=None)]
    image, _ = apply(
        EMPTY,
        r.ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=1000),
        r.ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=5.0),
        r.AccessControlEntryRecord(id=A, resource_type=2, resource_name="t", principal="User:a"),
        r.UserScramCredentialRecord(name="u", mechanism=1, salt=b"s", iterations=4096),
        r.DelegationTokenRecord(owner="o", renewers=["x"], token_id="tok"),
        r.RegisterControllerRecord(controller_id=1, incarnation_id=A),
        r.ZkMigrationStateRecord(zk_migration_state=3),
        r.NoOpRecord(),
    )
    assert image.producer_ids == ProducerIdsImage(1000, 1, 5)
    assert image.client_quotas == {(("user", None),): {"producer_byte_rate": 5.0}}
    assert image.acls[A].principal == "User:a"
    assert image.scram["u", 1].iterations == 4096
    assert image.delegation_tokens["tok"].renewers == ("x",)
    assert image.controllers[1].incarnation_id == A
    assert image.features.zk_migration_state == 3
    image, _ = apply(
        image,
        r.ClientQuotaRecord(entity=entity, key="producer_byte_rate", remove=True),
        r.RemoveAccessControlEntryRecord(id=A),
        r.RemoveUserScramCredentialRecord(name="u", mechanism=1),
        r.RemoveDelegationTokenRecord(token_id="tok"),
    )
    gone = (image.client_quotas, image.acls, image.scram, image.delegation_tokens)
    assert gone == ({}, {}, {}, {})


@pytest.mark.parametrize("name", ["t", ""])
def test_clear_elr(name: str) -> None:
    before, _ = apply(
        EMPTY, *topic(), change(isr=[], eligible_leader_replicas=[1], last_known_elr=[2])
    )
    after, _ = apply(before, r.ClearElrRecord(topic_name=name))
    partition = after.topics["t"].partitions[0]
    assert (partition.elr, partition.last_known_elr) == ((), ())


@pytest.mark.parametrize(
    "record",
    [
        change(leader=1),
        r.RemoveTopicRecord(topic_id=A),
        r.PartitionRecord(partition_id=0, topic_id=A),
        r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=1),
        r.UnregisterBrokerRecord(broker_id=1, broker_epoch=10),
        r.RemoveAccessControlEntryRecord(id=A),
        r.ClearElrRecord(topic_name="t"),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_about_nothing_is_an_error(record: Message) -> None:
    with pytest.raises(MetadataError):
        MetadataDelta(EMPTY).replay(record)


def test_contradictions_are_errors() -> None:
    image, _ = apply(EMPTY, *topic(), broker(epoch=10))
    for record in (
        r.TopicRecord(name="t", topic_id=B),
        r.TopicRecord(name="u", topic_id=A),
        r.PartitionChangeRecord(partition_id=7, topic_id=A, leader=1),
        r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=9, fenced=1),
    ):
        with pytest.raises(MetadataError):
            MetadataDelta(image).replay(record)


def test_every_known_record_can_be_replayed() -> None:
    from barnabas.metadata.delta import _HANDLERS

    assert set(_HANDLERS) == set(r.RECORDS)


def test_many_changed_topics_are_told_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a delta of thousands of topics tells must not cost their number squared."""
    count = 2000
    names = {b"%016d" % n: f"t{n}" for n in range(count)}
    delta = MetadataDelta(EMPTY)
    for topic_id, name in names.items():
        delta.replay_all(topic(name, topic_id))
    looked_at = 0
    get = _Table.get

    def counted(*args: Any) -> Any:
        nonlocal looked_at
        looked_at += 1
        return get(*args)

    monkeypatch.setattr(_Table, "get", counted)
    assert list(delta.changed_topics) == list(names.values())
    assert looked_at <= 3 * count
