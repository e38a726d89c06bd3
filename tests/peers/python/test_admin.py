"""The admin clients against Barnabas, today's Apache Kafka and an old one.

Every call either gives the same on all of them, or an old broker cannot do it: then the error says so
and names the release that can.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client.administration import configs
from barnabas.client.administration.configs import (
    APPEND,
    BROKER,
    DELETE,
    OWN_SOURCES,
    SUBTRACT,
    TOPIC,
    ConfigChange,
)
from barnabas.client.administration.groups import CommittedOffset
from barnabas.client.administration.nodes import LogDir
from barnabas.client.administration.topics import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    MAX_TIMESTAMP,
    NewTopic,
)
from barnabas.client.errors import (
    AlreadyExistsError,
    BrokerError,
    NotFoundError,
    OffsetOutOfRangeError,
    VersionError,
)
from barnabas.wire.errors import ErrorCode
from tests.peers.python.targets import Target

Eventually = Callable[..., None]


def in_place(admin: Any, *topics: NewTopic) -> None:
    """Creates topics; returns when the broker knows of them, which Apache's does a bit later."""
    for outcome in admin.create_topics(topics):
        assert outcome.error is None, outcome
    deadline = time.monotonic() + 20
    while True:
        try:
            admin.find_topics([topic.name for topic in topics])
        except NotFoundError:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        else:
            return


def refused(call: Callable[[], Any], *words: str) -> None:
    with pytest.raises(VersionError) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


# -- topics


def test_a_topic_from_its_creation_to_its_end(
    admin: Any, name: str, eventually: Eventually
) -> None:
    in_place(admin, NewTopic(name, 2, 1, configs={"retention.ms": "1000000"}))
    (again,) = admin.create_topics([NewTopic(name, 2, 1)])
    assert isinstance(again.error, AlreadyExistsError)

    topic = admin.describe_topics([name])[name]
    assert sorted(topic.partitions) == [0, 1]
    assert all(p.leader == 1 and p.isr == (1,) for p in topic.partitions.values())
    assert name in [t.name for t in admin.list_topics()]

    (outcome,) = admin.create_partitions({name: 3})
    assert outcome.error is None
    (fewer,) = admin.create_partitions({name: 1})
    assert fewer.error.code == ErrorCode.INVALID_PARTITIONS
    eventually(lambda: sorted(admin.find_topics([name])[name].partitions) == [0, 1, 2])

    (gone,) = admin.delete_topics([name])
    assert gone.error is None
    (unknown,) = admin.delete_topics([f"{name}.never"])
    assert isinstance(unknown.error, NotFoundError)
    assert isinstance(admin.describe_topics([f"{name}.never"])[f"{name}.never"], NotFoundError)


def test_a_topic_with_the_clusters_defaults_and_one_with_assignments(admin: Any, name: str) -> None:
    placed = f"{name}.placed"
    in_place(admin, NewTopic(name), NewTopic(placed, assignments={0: [1], 1: [1]}))
    assert len(admin.find_topics([name])[name].partitions) == 1
    assert len(admin.find_topics([placed])[placed].partitions) == 2


def test_only_validated_is_not_done(admin: Any, name: str) -> None:
    (outcome,) = admin.create_topics([NewTopic(name, 1, 1)], validate_only=True)
    assert outcome.error is None
    (outcome,) = admin.create_topics([NewTopic(name, 1, 99)], validate_only=True)
    assert outcome.error.code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert name not in [t.name for t in admin.list_topics()]


def test_offsets_records_and_producers(
    admin: Any, make: Callable[..., Any], target: Target, name: str
) -> None:
    in_place(admin, NewTopic(name, 1, 1))
    place = (name, 0)
    producer = make("Producer")
    stamps = [1_000, 3_000, 2_000]
    for stamp in stamps:
        producer.send(name, b"x", partition=0, timestamp_ms=stamp).result(20)

    def offset(timestamp: int) -> Any:
        answer = admin.list_offsets({place: timestamp})[place]
        return answer if isinstance(answer, Exception) else answer.offset

    assert offset(EARLIEST) == 0
    assert offset(LATEST) == 3
    assert offset(1_500) == 1
    assert offset(9_000) == -1
    if target.since(3, 0):
        assert offset(MAX_TIMESTAMP) == 1
    else:
        assert isinstance(offset(MAX_TIMESTAMP), VersionError)
    if target.since(3, 6):
        assert offset(EARLIEST_LOCAL) == 0
    else:
        assert isinstance(offset(EARLIEST_LOCAL), VersionError)
    epoch, end = admin.end_offsets_of_epochs({place: 0})[place]
    assert (epoch, end) == (0, 3)

    producers = admin.describe_producers([place])[place]
    if target.since(2, 8):
        (state,) = producers
        assert (state.last_sequence, state.last_timestamp_ms >= 0) == (2, True)
    else:
        assert isinstance(producers, VersionError)
        assert "since 2.8" in str(producers)

    assert admin.delete_records({place: 2}) == {place: 2}
    assert offset(EARLIEST) == 2
    assert isinstance(admin.delete_records({place: 77})[place], OffsetOutOfRangeError)
    assert admin.delete_records({place: -1}) == {place: 3}
    unknown = (f"{name}.never", 0)
    assert isinstance(admin.list_offsets({unknown: LATEST})[unknown], NotFoundError)


# -- configs


def own_settings(admin: Any, resource: tuple[int, str]) -> dict[str, str]:
    (entries,) = admin.describe_configs([resource]).values()
    return {e.name: e.value for e in entries if e.source == OWN_SOURCES[resource[0]]}


def test_settings_of_a_topic_are_changed_one_by_one(
    admin: Any, target: Target, name: str, eventually: Eventually
) -> None:
    in_place(admin, NewTopic(name, 1, 1, configs={"retention.ms": "1000000"}))
    topic = (TOPIC, name)

    def change(*steps: ConfigChange, **more: Any) -> Any:
        return admin.alter_configs({topic: steps}, **more)[topic]

    assert change(ConfigChange("segment.bytes", "2000000")) is None
    both = {"retention.ms": "1000000", "segment.bytes": "2000000"}
    eventually(lambda: own_settings(admin, topic) == both)
    assert change(ConfigChange("retention.ms", operation=DELETE)) is None
    eventually(lambda: own_settings(admin, topic) == {"segment.bytes": "2000000"})
    if not target.since(2, 5):  # 2.4 fails when it is to append to a default
        assert change(ConfigChange("cleanup.policy", "delete")) is None
    assert change(ConfigChange("cleanup.policy", "compact", APPEND)) is None
    eventually(lambda: own_settings(admin, topic).get("cleanup.policy") == "delete,compact")
    assert change(ConfigChange("cleanup.policy", "delete", SUBTRACT)) is None
    eventually(lambda: own_settings(admin, topic).get("cleanup.policy") == "compact")
    assert change(ConfigChange("segment.bytes", "3000000"), validate_only=True) is None
    wrong = change(ConfigChange("retention.ms", "soon"))
    assert wrong.code in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST)
    assert "retention.ms" in str(wrong)
    assert own_settings(admin, topic)["segment.bytes"] == "2000000"

    never = (TOPIC, f"{name}.never")
    answer = admin.alter_configs({never: [ConfigChange("retention.ms", "1")]})[never]
    assert isinstance(answer, BrokerError)
    assert admin.replace_configs({topic: {"retention.ms": "5000"}}) == {topic: None}
    eventually(lambda: own_settings(admin, topic) == {"retention.ms": "5000"})


def test_settings_are_described_with_where_they_come_from(
    admin: Any, target: Target, name: str
) -> None:
    in_place(admin, NewTopic(name, 1, 1, configs={"retention.ms": "1000000"}))
    described = admin.describe_configs(
        [(TOPIC, name)],
        keys=["retention.ms", "segment.bytes"],
        synonyms=True,
        documentation=True,
    )
    entries = {entry.name: entry for entry in described[(TOPIC, name)]}
    assert set(entries) == {"retention.ms", "segment.bytes"}
    assert entries["retention.ms"].source == "DYNAMIC_TOPIC_CONFIG"
    assert entries["retention.ms"].synonyms[0].value == "1000000"
    assert entries["segment.bytes"].is_default
    if target.since(2, 6):
        assert entries["segment.bytes"].type == "INT"
        assert entries["segment.bytes"].documentation
    else:
        assert entries["segment.bytes"].documentation is None


def test_settings_of_a_broker_are_asked_of_that_broker(
    admin: Any, target: Target, name: str, eventually: Eventually
) -> None:
    broker, never = (BROKER, "1"), (TOPIC, f"{name}.never")
    described = admin.describe_configs([broker, never])
    assert "log.dirs" in [entry.name for entry in described[broker]]
    assert isinstance(described[never], NotFoundError)

    change = [ConfigChange("log.retention.ms", "700000000")]
    assert admin.alter_configs({broker: change}) == {broker: None}
    eventually(lambda: own_settings(admin, broker).get("log.retention.ms") == "700000000")
    back = [ConfigChange("log.retention.ms", operation=DELETE)]
    assert admin.alter_configs({broker: back}) == {broker: None}
    eventually(lambda: "log.retention.ms" not in own_settings(admin, broker))

    loggers = admin.describe_configs([(configs.BROKER_LOGGER, "1")])
    answer = loggers[(configs.BROKER_LOGGER, "1")]
    if target.since(2, 4):
        # The jars of the old ones come without the logging that would answer this.
        assert isinstance(answer, list) == target.since(3, 0)
    else:
        assert answer.code == ErrorCode.INVALID_REQUEST


def test_resources_with_settings_are_listed(admin: Any, target: Target, name: str) -> None:
    if not target.since(3, 7):
        refused(admin.list_config_resources, "LIST_CONFIG_RESOURCES", "since 3.7")
        return
    in_place(admin, NewTopic(name, 1, 1))
    if target.since(4, 1):
        assert (TOPIC, name) in admin.list_config_resources()
        assert (BROKER, "1") not in admin.list_config_resources([TOPIC])


# -- groups


def test_a_groups_offsets(admin: Any, target: Target, name: str) -> None:
    in_place(admin, NewTopic(name, 2, 1))
    first, second = (name, 0), (name, 1)
    answer = admin.alter_group_offsets(name, {first: 0, second: CommittedOffset(0, 0, "note")})
    assert answer == {first: None, second: None}
    found = admin.group_offsets(name)
    assert found[first].offset == 0
    assert found[second].metadata == "note"
    assert set(admin.group_offsets(name, [second])) == {second}

    group = admin.describe_groups([name])[name]
    assert (group.state, group.members, group.coordinator_id) == ("Empty", (), 1)
    listed = {g.group_id: g for g in admin.list_groups(states=["Empty"], types=["classic"])}
    assert listed[name].state == "Empty"
    assert name not in [g.group_id for g in admin.list_groups(states=["Stable"])]

    if target.since(2, 4):
        assert admin.delete_group_offsets(name, [first]) == {first: None}
        assert set(admin.group_offsets(name)) == {second}
    else:
        refused(lambda: admin.delete_group_offsets(name, [first]), "OFFSET_DELETE", "since 2.4")
    outcomes = admin.delete_groups([name, f"{name}.never"])
    assert outcomes[name] is None
    assert isinstance(outcomes[f"{name}.never"], NotFoundError)
    assert name not in [g.group_id for g in admin.list_groups()]


def test_a_group_with_members(
    admin: Any, make: Callable[..., Any], target: Target, name: str
) -> None:
    in_place(admin, NewTopic(name, 2, 1))
    consumer = make("Consumer", group_id=name, client_id="reader", session_timeout_ms=6_000)
    consumer.subscribe([name])
    deadline = time.monotonic() + 20
    while len(consumer.assignment()) < 2:
        consumer.poll(0.1)
        assert time.monotonic() < deadline

    group = admin.describe_groups([name])[name]
    assert (group.state, group.protocol_type) == ("Stable", "consumer")
    (member,) = group.members
    assert member.client_id == "reader"
    assert member.assignment == {name: [0, 1]}
    refusal = admin.delete_groups([name])[name]
    assert refusal.code == ErrorCode.NON_EMPTY_GROUP
    (answer,) = admin.alter_group_offsets(name, {(name, 0): 0}).values()
    assert answer.code == ErrorCode.UNKNOWN_MEMBER_ID

    unknown = admin.remove_members(name, member_ids=["nobody"])["nobody"]
    assert unknown.code == ErrorCode.UNKNOWN_MEMBER_ID
    if target.since(2, 4):
        unknown = admin.remove_members(name, instance_ids=["nobody"])["nobody"]
        assert unknown.code == ErrorCode.UNKNOWN_MEMBER_ID
    else:
        refused(lambda: admin.remove_members(name, instance_ids=["nobody"]), "LEAVE_GROUP", "2.4")
    assert admin.remove_members(name, member_ids=[member.member_id]) == {member.member_id: None}


# -- nodes, replicas, the quorum


def test_the_cluster_and_its_nodes(
    admin: Any, target: Target, name: str, eventually: Eventually
) -> None:
    cluster = admin.describe_cluster()
    assert cluster.controller_id == 1
    assert cluster.cluster_id
    assert [f"{b.host}:{b.port}" for b in cluster.brokers] == [target.bootstrap]
    assert admin.describe_cluster(include_fenced=True).fenced == frozenset()

    in_place(admin, NewTopic(name, 1, 1))

    def only_log_dir() -> LogDir:
        ((log_dir,),) = admin.describe_log_dirs().values()
        assert log_dir.error is None
        return log_dir

    # A broker takes a new topic's replica in a moment after its metadata.
    eventually(lambda: (name, 0) in [(r.topic, r.partition) for r in only_log_dir().replicas])
    log_dir = only_log_dir()
    assert (log_dir.total_bytes > 0) == target.since(3, 3)
    (narrowed,) = admin.describe_log_dirs([1], [(name, 0)])[1]
    assert [(r.topic, r.partition) for r in narrowed.replicas] == [(name, 0)]
    move = (name, 0, 1)
    answer = admin.alter_replica_log_dirs({move: "/no/such/directory"})[move]
    assert answer.code == ErrorCode.LOG_DIR_NOT_FOUND
    assert admin.alter_replica_log_dirs({move: log_dir.path}) == {move: None}

    versions = admin.broker_versions()
    assert list(versions.values() if isinstance(versions, dict) else versions)


def test_features(admin: Any, target: Target) -> None:
    features = admin.describe_features()
    if target.since(3, 3):
        levels = {f.name: f for f in features.features}
        assert levels["metadata.version"].finalized > 0
        with pytest.raises(BrokerError):
            admin.update_features({"metadata.version": 999})
    else:
        assert features.features == ()
        refused(
            lambda: admin.update_features({"metadata.version": 9}), "UPDATE_FEATURES", "since 2.7"
        )


def test_the_quorum(admin: Any, target: Target) -> None:
    if not target.since(3, 3):
        refused(admin.describe_quorum, "DESCRIBE_QUORUM", "3.3", "ZooKeeper")
        refused(lambda: admin.unregister_broker(77), "UNREGISTER_BROKER")
        refused(lambda: admin.add_voter(77, b"v" * 16, []), "ADD_RAFT_VOTER", "since 3.9")
        return
    quorum = admin.describe_quorum()
    assert quorum.leader_id == 1
    assert [v.node_id for v in quorum.voters] == [1]
    assert quorum.high_watermark > 0
    with pytest.raises(BrokerError) as caught:
        admin.unregister_broker(77)
    assert caught.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED
    if target.since(3, 9):
        with pytest.raises(BrokerError):
            admin.add_voter(77, b"v" * 16, [])


def test_elections_and_reassignments(admin: Any, target: Target, name: str) -> None:
    in_place(admin, NewTopic(name, 1, 1))
    place = (name, 0)
    if not target.since(2, 4):
        refused(lambda: admin.elect_leaders([place]), "ELECT_LEADERS", "since 2.2")
        refused(
            lambda: admin.alter_partition_reassignments({place: [1]}),
            "ALTER_PARTITION_REASSIGNMENTS",
            "since 2.4",
        )
        refused(admin.list_partition_reassignments, "LIST_PARTITION_REASSIGNMENTS")
        return
    for election_type in (0, 1):
        answer = admin.elect_leaders([place], election_type=election_type)[place]
        assert answer.code == ErrorCode.ELECTION_NOT_NEEDED
    assert admin.alter_partition_reassignments({place: [1]}) == {place: None}
    answer = admin.alter_partition_reassignments({place: [77]})[place]
    assert answer.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    answer = admin.alter_partition_reassignments({place: None})[place]
    assert answer.code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert place not in admin.list_partition_reassignments()
