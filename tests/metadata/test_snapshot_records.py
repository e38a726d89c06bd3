"""An image becomes records and the records become the image again, whatever is in it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.metadata.delta import MetadataDelta
from barnabas.metadata.image import EMPTY, MetadataImage
from barnabas.metadata.snapshot import record_version
from barnabas.wire.message import Message
from barnabas.wire.records import metadata as r

names = st.sampled_from(["a", "b.c", "long-name", "x"])
ids = st.integers(0, 5).map(lambda number: bytes([number + 200]) * 16)
brokers = st.integers(0, 3)
values = st.text(max_size=5)


def _partition(partition: int, topic_id: bytes, replicas: list[int]) -> r.PartitionRecord:
    return r.PartitionRecord(
        partition_id=partition,
        topic_id=topic_id,
        replicas=replicas,
        isr=replicas[:1],
        leader=replicas[0],
        leader_epoch=3,
        partition_epoch=4,
        directories=[bytes([each + 100]) * 16 for each in replicas],
    )


some_replicas = st.lists(brokers, min_size=1, max_size=3, unique=True)
some_records: st.SearchStrategy[Message] = st.one_of(
    st.builds(r.TopicRecord, name=names, topic_id=ids),
    st.builds(_partition, st.integers(0, 2), ids, some_replicas),
    st.builds(
        r.PartitionChangeRecord,
        partition_id=st.integers(0, 2),
        topic_id=ids,
        isr=st.none() | st.lists(brokers, unique=True),
        leader=st.integers(-2, 3),
        eligible_leader_replicas=st.none() | st.lists(brokers, unique=True),
        last_known_elr=st.none() | st.lists(brokers, max_size=1),
        leader_recovery_state=st.sampled_from([-1, 0, 1]),
    ),
    st.builds(r.RemoveTopicRecord, topic_id=ids),
    st.builds(
        r.ConfigRecord,
        resource_type=st.sampled_from([2, 4, 16, 32]),
        resource_name=names,
        name=names,
        value=st.none() | values,
    ),
    st.builds(
        r.RegisterBrokerRecord,
        broker_id=brokers,
        incarnation_id=ids,
        broker_epoch=st.just(7),
        rack=st.none() | values,
        fenced=st.booleans(),
        in_controlled_shutdown=st.booleans(),
        log_dirs=st.lists(ids, max_size=2),
        cordoned_log_dirs=st.none() | st.lists(ids, max_size=2),
        end_points=st.just([r.BrokerEndpoint(name="P", host="h", port=1, security_protocol=0)]),
        features=st.just(
            [r.BrokerFeature(name="f", min_supported_version=0, max_supported_version=2)]
        ),
    ),
    st.builds(r.UnregisterBrokerRecord, broker_id=brokers, broker_epoch=st.just(7)),
    st.builds(
        r.FeatureLevelRecord,
        name=st.sampled_from(["group.version", "eligible.leader.replicas.version"]),
        feature_level=st.integers(0, 3),
    ),
    st.builds(r.ProducerIdsRecord, broker_id=brokers, next_producer_id=st.integers(1, 10**6)),
    st.builds(
        r.ClientQuotaRecord,
        entity=st.builds(
            lambda name: [r.EntityData(entity_type="user", entity_name=name)], st.none() | names
        ),
        key=names,
        value=st.floats(0, 100),
        remove=st.booleans(),
    ),
    st.builds(r.AccessControlEntryRecord, id=ids, resource_name=names, principal=names),
    st.builds(r.UserScramCredentialRecord, name=names, mechanism=st.integers(1, 2)),
    st.builds(r.DelegationTokenRecord, token_id=names, renewers=st.lists(names, max_size=2)),
    st.builds(r.RegisterControllerRecord, controller_id=brokers, incarnation_id=ids),
)


def replayed(records: list[Message]) -> MetadataImage:
    """Those of the records that make sense one after the other."""
    from barnabas.metadata.delta import MetadataError

    image = EMPTY
    for record in records:
        delta = MetadataDelta(image)
        try:
            delta.replay(record)
        except MetadataError:
            continue
        image = delta.apply(image.offset + 1, 0)
    return image


@given(st.lists(some_records, max_size=40))
@settings(max_examples=200, deadline=None)
def test_round_trip_through_encoded_records(records: list[Message]) -> None:
    first = r.FeatureLevelRecord(name="metadata.version", feature_level=30)
    image = replayed([first, *records])
    delta = MetadataDelta(EMPTY)
    for record in image.to_records():
        value = r.encode_metadata_record(record, record_version(record, 30))
        delta.replay(r.decode_metadata_record(value)[0])
    again = delta.apply(image.offset, image.epoch)
    assert again.same_content(image)
    assert again == image


@given(st.lists(some_records, max_size=30), st.integers(0, 30))
@settings(max_examples=100, deadline=None)
def test_one_delta_or_many_give_the_same(records: list[Message], cut: int) -> None:
    image = replayed(records)
    delta = MetadataDelta(EMPTY)
    delta.replay_all(image.to_records())
    whole = delta.apply(0, 0)
    parts = list(image.to_records())
    first = MetadataDelta(EMPTY)
    first.replay_all(parts[:cut])
    second = MetadataDelta(first.apply(0, 0))
    second.replay_all(parts[cut:])
    assert second.apply(0, 0) == whole


def test_versions_follow_the_level() -> None:
    partition = _partition(0, b"a" * 16, [1])
    broker = r.RegisterBrokerRecord(broker_id=1)
    cases = [
        (partition, 16, 0),
        (partition, 17, 1),
        (partition, 22, 1),
        (partition, 23, 2),
        (broker, 7, 1),
        (broker, 8, 2),
        (broker, 17, 3),
        (broker, 30, 4),
        (r.BrokerRegistrationChangeRecord(fenced=1), 30, 0),
        (r.BrokerRegistrationChangeRecord(in_controlled_shutdown=1), 30, 1),
        (r.BrokerRegistrationChangeRecord(log_dirs=[b"a" * 16]), 30, 2),
        (r.BrokerRegistrationChangeRecord(cordoned_log_dirs=[]), 30, 3),
        (r.TopicRecord(name="t"), 30, 0),
    ]
    for record, level, version in cases:
        assert record_version(record, level) == version


def test_one_change_among_a_thousand_topics_is_cheap() -> None:
    delta = MetadataDelta(EMPTY)
    for number in range(1000):
        topic_id = number.to_bytes(16, "big")
        delta.replay(r.TopicRecord(name=f"t{number}", topic_id=topic_id))
        delta.replay(_partition(0, topic_id, [1]))
    image = delta.apply(1, 1)
    after = MetadataDelta(image)
    after.replay(
        r.PartitionChangeRecord(partition_id=0, topic_id=(5).to_bytes(16, "big"), leader=-1)
    )
    changed = after.apply(2, 1)
    same = sum(changed.topics[name] is topic for name, topic in image.topics.items())
    assert same == 999
