"""Consumer groups as the client libraries form them: joining, sharing, leaving, dying, resuming."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.peers.clients import CLIENTS, Record
from tests.peers.members import MEMBERS, Member
from tests.peers.topics import create_topic

Eventually = Callable[..., None]
Start = Callable[..., Any]


@pytest.fixture
def start() -> Iterator[Start]:
    """`start(library, bootstrap, group, topics, **config)`; every member is stopped afterwards."""
    running: list[Member] = []

    def begin(library: str, *args: Any, **config: Any) -> Member:
        if (reason := CLIENTS[library].missing()) is not None:
            pytest.skip(reason)
        member: Member = MEMBERS[library](*args, **config)
        running.append(member)
        return member

    yield begin
    for member in running:
        if not member.stopping.is_set():
            member.stop()


def partitions(topic: str, count: int) -> set[str]:
    return {f"{topic}-{index}" for index in range(count)}


def share_fairly(members: list[Member], everything: set[str]) -> bool:
    """All partitions are held, none twice, and no member holds two more than another."""
    held = [member.assigned() for member in members]
    sizes = [len(one) for one in held]
    return (
        set().union(*held) == everything
        and sum(sizes) == len(everything)
        and (max(sizes) - min(sizes) <= 1)
    )


def write(bootstrap: str, topic: str, partition_count: int, per_partition: int, mark: str) -> None:
    CLIENTS["confluent"].produce(
        bootstrap,
        topic,
        [
            Record(index, None, f"{mark}-{index}-{n}".encode())
            for n in range(per_partition)
            for index in range(partition_count)
        ],
    )


@pytest.mark.parametrize("library", MEMBERS)
def test_two_members_share_and_one_takes_over(
    library: str, bootstrap: str, name: str, start: Start, eventually: Eventually
) -> None:
    create_topic(bootstrap, name, 6)
    write(bootstrap, name, 6, 5, "a")
    first = start(library, bootstrap, name, [name])
    eventually(lambda: len(first.records()) == 30)
    assert first.assigned() == partitions(name, 6)
    second = start(library, bootstrap, name, [name])
    eventually(lambda: share_fairly([first, second], partitions(name, 6)))
    write(bootstrap, name, 6, 5, "b")
    eventually(lambda: len(first.records()) + len(second.records()) == 60)
    assert len(second.records()) == 15
    first.stop()
    eventually(lambda: second.assigned() == partitions(name, 6))
    write(bootstrap, name, 6, 5, "c")
    eventually(lambda: len(second.records()) == 45)
    seen = [(r.partition, r.offset) for r in (*first.records(), *second.records())]
    assert sorted(seen) == [(p, o) for p in range(6) for o in range(15)]


def test_libraries_mixed_in_one_group(
    bootstrap: str, name: str, start: Start, eventually: Eventually
) -> None:
    """The assignment is made by whichever library leads; the others must understand it."""
    create_topic(bootstrap, name, 8)
    everything = partitions(name, 8)
    libraries = [x for x in MEMBERS if x != "kafkajs" and CLIENTS[x].missing() is None]
    members: list[Member] = []
    for library in libraries:
        members.append(start(library, bootstrap, name, [name]))
        eventually(lambda: share_fairly(members, everything))
    write(bootstrap, name, 8, 10, "x")
    eventually(lambda: sum(len(member.records()) for member in members) == 80)
    while len(members) > 1:
        members.pop(0).stop()
        eventually(lambda: share_fairly(members, everything))
    write(bootstrap, name, 8, 1, "y")
    eventually(lambda: {r.value for r in members[0].records()} >= {b"y-%d-0" % i for i in range(8)})


def test_a_member_without_a_common_assignor_is_refused(
    bootstrap: str, name: str, start: Start, eventually: Eventually
) -> None:
    create_topic(bootstrap, name, 2)
    first = start("confluent", bootstrap, name, [name])
    eventually(lambda: first.assigned() == partitions(name, 2))
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "partition.assignment.strategy": "roundrobin",
            "session.timeout.ms": 10_000,
        }
    )
    consumer.subscribe([name])
    try:
        messages = []
        eventually(lambda: messages.append(consumer.poll(0.2)) or any(messages))
        error = next(message for message in messages if message).error()
        assert error.name() == "INCONSISTENT_GROUP_PROTOCOL"
    finally:
        consumer.close()
    assert first.assigned() == partitions(name, 2)


@pytest.mark.parametrize(
    ("library", "config"),
    [
        ("confluent", {"partition_assignment_strategy": "cooperative-sticky"}),
        (
            "java",
            {
                "partition_assignment_strategy": (
                    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
                )
            },
        ),
    ],
)
def test_cooperative_rebalance_keeps_what_need_not_move(
    *,
    library: str,
    config: dict[str, str],
    bootstrap: str,
    name: str,
    start: Start,
    eventually: Eventually,
) -> None:
    create_topic(bootstrap, name, 6)
    everything = partitions(name, 6)
    first = start(library, bootstrap, name, [name], **config)
    eventually(lambda: first.assigned() == everything)
    second = start(library, bootstrap, name, [name], **config)
    eventually(lambda: share_fairly([first, second], everything))
    kept = first.assigned()
    third = start(library, bootstrap, name, [name], **config)
    eventually(lambda: share_fairly([first, second, third], everything))
    assert first.assigned() < kept
    second.stop()
    eventually(lambda: share_fairly([first, third], everything))
    write(bootstrap, name, 6, 10, "v")
    eventually(lambda: len(first.records()) + len(third.records()) == 60)


@pytest.mark.parametrize("library", ["confluent", "java", "kafka_python", "aiokafka"])
def test_a_static_member_comes_back_without_a_rebalance(
    library: str, bootstrap: str, name: str, start: Start, eventually: Eventually
) -> None:
    if library in {"kafka_python", "aiokafka"}:
        option = "group_instance_id"
    else:
        option = "group.instance.id"
    create_topic(bootstrap, name, 4)
    one = start(library, bootstrap, name, [name], **{option: "one"})
    eventually(lambda: one.assigned() == partitions(name, 4))
    two = start(library, bootstrap, name, [name], **{option: "two"})
    eventually(lambda: share_fairly([one, two], partitions(name, 4)))
    held, rebalances = two.assigned(), one.rebalances()
    two.stop()
    two = start(library, bootstrap, name, [name], **{option: "two"})
    eventually(lambda: two.assigned() == held)
    # A leader of kafka-python joins again on its own whenever metadata comes after its assignment.
    if library != "kafka_python":
        assert one.rebalances() == rebalances


def test_a_second_holder_of_an_instance_id_fences_the_first(
    bootstrap: str, name: str, start: Start, eventually: Eventually
) -> None:
    create_topic(bootstrap, name, 1)
    old = start("confluent", bootstrap, name, [name], **{"group.instance.id": "same"})
    eventually(lambda: old.assigned() == partitions(name, 1))
    new = start("confluent", bootstrap, name, [name], **{"group.instance.id": "same"})
    eventually(lambda: new.assigned() == partitions(name, 1))
    eventually(lambda: old.failure() is not None)
    assert "FENCED_INSTANCE_ID" in str(old.failure()) or "Fatal" in str(old.failure())


def test_a_dead_member_is_noticed_by_its_session_timeout(
    bootstrap: str, name: str, start: Start, eventually: Eventually
) -> None:
    if (reason := CLIENTS["kcat"].missing()) is not None:
        pytest.skip(reason)
    create_topic(bootstrap, name, 4)
    command = ["kcat", "-q", "-b", bootstrap, "-G", name, "-X", "session.timeout.ms=2000"]
    command += ["-X", "heartbeat.interval.ms=300", "-X", "partition.assignment.strategy=range"]
    doomed = subprocess.Popen([*command, name], stdout=subprocess.DEVNULL)
    member = start("confluent", bootstrap, name, [name])
    try:
        eventually(lambda: len(member.assigned()) == 2)
        os.kill(doomed.pid, signal.SIGKILL)
        eventually(lambda: member.assigned() == partitions(name, 4))
    finally:
        doomed.kill()
        doomed.wait()


def test_a_pattern_finds_topics_that_come_later(
    bootstrap: str, name: str, start: Start, eventually: Eventually
) -> None:
    create_topic(bootstrap, f"{name}-1", 1)
    member = start("confluent", bootstrap, name, [f"^{name}-.*"])
    eventually(lambda: member.assigned() == {f"{name}-1-0"})
    create_topic(bootstrap, f"{name}-2", 2)
    eventually(lambda: member.assigned() == {f"{name}-1-0", f"{name}-2-0", f"{name}-2-1"})


def consumer_of(bootstrap: str, group: str, **config: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **config,
        }
    )


def read(consumer: Consumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    deadline = time.monotonic() + 20
    while len(values) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(values), 0.2):
            assert message.error() is None
            values.append(message.value())
    return values


def test_commit_and_resume(bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 1)
    write(bootstrap, name, 1, 20, "v")
    consumer = consumer_of(bootstrap, name)
    consumer.subscribe([name])
    assert len(read(consumer, 7)) == 7
    committed = consumer.commit(asynchronous=False)
    assert [(p.partition, p.offset) for p in committed] == [(0, 7)]
    consumer.close()
    consumer = consumer_of(bootstrap, name)
    consumer.subscribe([name])
    assert read(consumer, 1) == [b"v-0-7"]
    stored = consumer.committed([TopicPartition(name, 0)], timeout=10)
    assert [p.offset for p in stored] == [7]
    consumer.close()


def test_offsets_with_metadata_outside_a_group(bootstrap: str, name: str) -> None:
    """A simple consumer: it assigns itself partitions and uses the group only as a store."""
    create_topic(bootstrap, name, 2)
    write(bootstrap, name, 2, 3, "v")
    consumer = consumer_of(bootstrap, name)
    offsets = [TopicPartition(name, 0, 2, metadata="note ☕"), TopicPartition(name, 1, 1)]
    consumer.assign([TopicPartition(name, 0), TopicPartition(name, 1)])
    consumer.commit(offsets=offsets, asynchronous=False)
    found = consumer.committed([TopicPartition(name, 0), TopicPartition(name, 1)], timeout=10)
    assert [(p.offset, p.metadata or "") for p in found] == [(2, "note ☕"), (1, "")]
    unknown = consumer.committed([TopicPartition(name, 7)], timeout=10)
    assert unknown[0].offset == -1001
    consumer.close()


def test_commit_errors(bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 1)
    consumer = consumer_of(bootstrap, name)
    consumer.assign([TopicPartition(name, 0)])
    with pytest.raises(KafkaException) as thrown:
        consumer.commit(
            offsets=[TopicPartition(name, 0, 1, metadata="x" * 5000)], asynchronous=False
        )
    assert thrown.value.args[0].name() == "OFFSET_METADATA_TOO_LARGE"
    with pytest.raises(KafkaException) as thrown:
        consumer.commit(offsets=[TopicPartition(name, 9, 1)], asynchronous=False)
    assert thrown.value.args[0].name() == "UNKNOWN_TOPIC_OR_PART"
    consumer.close()


def test_admin_sees_and_changes_groups(
    bootstrap: str, name: str, start: Start, eventually: Eventually
) -> None:
    create_topic(bootstrap, name, 2)
    write(bootstrap, name, 2, 4, "v")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    member = start("confluent", bootstrap, name, [name], **{"client.id": "the-client"})
    eventually(lambda: len(member.records()) == 8)

    description = admin.describe_consumer_groups([name])[name].result(20)
    assert description.state.name == "STABLE"
    assert description.partition_assignor == "range"
    assert [one.client_id for one in description.members] == ["the-client"]
    assert description.members[0].host.lstrip("/") == "127.0.0.1"
    held = {(p.topic, p.partition) for p in description.members[0].assignment.topic_partitions}
    assert held == {(name, 0), (name, 1)}
    listed = admin.list_consumer_groups().result(20).valid
    assert (name, "STABLE") in [(group.group_id, group.state.name) for group in listed]

    with pytest.raises(KafkaException) as thrown:
        admin.delete_consumer_groups([name])[name].result(20)
    assert thrown.value.args[0].name() == "NON_EMPTY_GROUP"
    member.stop()

    request = ConsumerGroupTopicPartitions(name)
    offsets = admin.list_consumer_group_offsets([request])[name].result(20)
    assert {(p.partition, p.offset) for p in offsets.topic_partitions} == {(0, 4), (1, 4)}
    change = ConsumerGroupTopicPartitions(name, [TopicPartition(name, 0, 1)])
    admin.alter_consumer_group_offsets([change])[name].result(20)
    offsets = admin.list_consumer_group_offsets([request])[name].result(20)
    assert {(p.partition, p.offset) for p in offsets.topic_partitions} == {(0, 1), (1, 4)}

    empty = admin.describe_consumer_groups([name])[name].result(20)
    assert empty.state.name == "EMPTY"
    admin.delete_consumer_groups([name])[name].result(20)
    listed = admin.list_consumer_groups().result(20).valid
    assert name not in [group.group_id for group in listed]
    with pytest.raises(KafkaException) as thrown:
        admin.delete_consumer_groups([name])[name].result(20)
    assert thrown.value.args[0].name() == "GROUP_ID_NOT_FOUND"
