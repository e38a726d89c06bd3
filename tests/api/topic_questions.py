"""Questions about topics: creating, growing, deleting and describing them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.wire.messages import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_topic_partitions,
    metadata,
)
from tests.api.interview import Interview, versions_of

UNKNOWN_ID = bytes([7]) * 16
LONG_NAME = "n" * 250
TIMEOUT_MS = 10_000


def new_topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    configs: Mapping[str, str | None] | None = None,
    assignments: Mapping[int, list[int]] | None = None,
) -> create_topics.CreatableTopic:
    return create_topics.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[
            create_topics.CreatableTopicConfig(name=key, value=value)
            for key, value in (configs or {}).items()
        ],
        assignments=[
            create_topics.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignments or {}).items()
        ],
    )


def creation(*topics: create_topics.CreatableTopic, validate_only: bool = False) -> Any:
    return create_topics.CreateTopicsRequest(
        topics=list(topics), timeout_ms=TIMEOUT_MS, validate_only=validate_only
    )


def make_topic(it: Interview, name: str, partitions: int = 1, **configs: str) -> bytes:
    given = {key.replace("_", "."): value for key, value in configs.items()}
    (result,) = it.newest(creation(new_topic(name, partitions, configs=given))).topics
    assert result.error_code == 0, result
    return it.know(name)


def ask_about_topics(it: Interview) -> None:
    make_topic(it, "first", 3)
    make_topic(it, "second.one", 1, cleanup_policy="compact", segment_bytes="2000000")
    _create(it)
    _grow(it)
    _describe(it)
    _delete(it)


def _create(it: Interview) -> None:
    cases = {
        "plain": lambda v: [new_topic(f"plain-v{v}", 3)],
        "defaults": lambda v: [new_topic(f"defaults-v{v}", -1, -1)],
        "configs": lambda v: [
            new_topic(
                f"configs-v{v}", 2, configs={"retention.ms": "1000", "cleanup.policy": "compact"}
            )
        ],
        "manual": lambda v: [new_topic(f"manual-v{v}", -1, -1, assignments={0: [1], 1: [1]})],
        "there already": lambda _: [new_topic("first")],
        "twice": lambda v: [new_topic(f"twice-v{v}"), new_topic(f"twice-v{v}"), new_topic("first")],
        "no partitions": lambda v: [new_topic(f"none-v{v}", 0)],
        "minus two partitions": lambda v: [new_topic(f"none-v{v}", -2)],
        "no replicas": lambda v: [new_topic(f"none-v{v}", 1, 0)],
        "minus two replicas": lambda v: [new_topic(f"none-v{v}", 1, -2)],
        "three replicas": lambda v: [new_topic(f"none-v{v}", 1, 3)],
        "unknown config": lambda v: [new_topic(f"none-v{v}", configs={"no.such": "1"})],
        "bad value": lambda v: [new_topic(f"none-v{v}", configs={"retention.ms": "soon"})],
        "bad choice": lambda v: [new_topic(f"none-v{v}", configs={"cleanup.policy": "burn"})],
        "out of range": lambda v: [new_topic(f"none-v{v}", configs={"segment.bytes": "1"})],
        "null config": lambda v: [new_topic(f"none-v{v}", configs={"retention.ms": None})],
        "manual and counts": lambda v: [new_topic(f"none-v{v}", 1, 1, assignments={0: [1]})],
        "manual and a factor": lambda v: [new_topic(f"none-v{v}", -1, 1, assignments={0: [1]})],
        "manual with gap": lambda v: [
            new_topic(f"none-v{v}", -1, -1, assignments={0: [1], 2: [1]})
        ],
        "manual, unknown broker": lambda v: [new_topic(f"none-v{v}", -1, -1, assignments={0: [9]})],
        "manual, broker twice": lambda v: [
            new_topic(f"none-v{v}", -1, -1, assignments={0: [1, 1]})
        ],
        "manual, no brokers": lambda v: [new_topic(f"none-v{v}", -1, -1, assignments={0: []})],
        "empty name": lambda _: [new_topic("")],
        "dot": lambda _: [new_topic(".")],
        "dots": lambda _: [new_topic("..")],
        "slash": lambda _: [new_topic("a/b")],
        "long name": lambda _: [new_topic(LONG_NAME)],
        "collides": lambda _: [new_topic("second_one")],
        "metadata topic": lambda _: [new_topic("__cluster_metadata")],
        "several": lambda v: [new_topic("first"), new_topic(f"several-v{v}"), new_topic("a b")],
        "nothing": lambda _: [],
    }
    for version in versions_of(create_topics.CreateTopicsRequest):
        for question, topics in cases.items():
            it.ask(question, creation(*topics(version)), version)
        checked = creation(new_topic(f"checked-v{version}", 4), validate_only=True)
        it.ask("validate only", checked, version)
        checked = creation(new_topic("first", 4), validate_only=True)
        it.ask("validate only, there already", checked, version)
        it.know(f"plain-v{version}")
        it.know(f"configs-v{version}")
        it.know(f"several-v{version}")


def _grow(it: Interview) -> None:
    def more(name: str, count: int, *assignments: list[int]) -> Any:
        return create_partitions.CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=[
                create_partitions.CreatePartitionsAssignment(broker_ids=brokers)
                for brokers in assignments
            ]
            if assignments
            else None,
        )

    for version in versions_of(create_partitions.CreatePartitionsRequest):
        topic = make_topic(it, f"grown-v{version}", 2) and f"grown-v{version}"

        def ask(question: str, *topics: Any, validate_only: bool = False, v: int = version) -> None:
            request = create_partitions.CreatePartitionsRequest(
                topics=list(topics), timeout_ms=TIMEOUT_MS, validate_only=validate_only
            )
            it.ask(question, request, v)

        ask("validate only", more(topic, 5), validate_only=True)
        ask("more", more(topic, 3))
        ask("manual", more(topic, 5, [1], [1]))
        ask("the same", more(topic, 5))
        ask("fewer", more(topic, 1))
        ask("zero", more(topic, 0))
        ask("negative", more(topic, -1))
        ask("too few assignments", more(topic, 8, [1]))
        ask("unknown broker", more(topic, 6, [9]))
        ask("broker twice", more(topic, 6, [1, 1]))
        ask("two replicas", more(topic, 6, [1, 2]))
        ask("unknown topic", more("no-such-topic", 3))
        ask("bad name", more("a b", 3))
        ask("twice", more(topic, 7), more(topic, 8))
        ask("several", more("no-such-topic", 3), more(topic, 6))
        ask("nothing")


def _describe(it: Interview) -> None:
    def by_name(*names: str, create: bool = False, operations: bool = False) -> Any:
        return metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=create,
            include_topic_authorized_operations=operations,
            include_cluster_authorized_operations=operations,
        )

    cls = metadata.MetadataRequest
    it.every("by name", cls, lambda _: by_name("first", "second.one"))
    it.every("operations", cls, lambda _: by_name("first", operations=True))
    it.every("twice", cls, lambda _: by_name("first", "first"))
    # Before version 4 nobody can say that a topic must not be created.
    it.every("unknown", cls, lambda v: by_name("no-such-topic", "first") if v >= 4 else None)
    it.every("bad name", cls, lambda _: by_name("a b", "", LONG_NAME))
    it.every("may be created", cls, lambda _: by_name("first", "a/b", create=True))
    it.every("no topics", cls, lambda v: by_name() if v >= 1 else None)
    it.every(
        "by id",
        cls,
        lambda v: (
            metadata.MetadataRequest(
                topics=[
                    metadata.MetadataRequestTopic(topic_id=it.ids["first"], name=None),
                    metadata.MetadataRequestTopic(topic_id=UNKNOWN_ID, name=None),
                ],
                allow_auto_topic_creation=False,
            )
            if v >= 12
            else None
        ),
    )
    for version in versions_of(cls):
        asked = cls(topics=None if version else [], allow_auto_topic_creation=False)
        answer = it.quietly(asked, version)
        answer.topics = [each for each in answer.topics if each.name in ("first", "second.one")]
        answer.topics.sort(key=lambda each: each.name)
        it.keep("all", answer, version)

    def page(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
        return describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=[describe_topic_partitions.TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=None
            if cursor is None
            else describe_topic_partitions.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        )

    several = ("second.one", "first", "plain-v3")
    for question, request in {
        "by name": page(*several),
        "twice": page("first", "first"),
        "unknown": page("no-such-topic", "first", "a b"),
        "limit 2": page(*several, limit=2),
        "limit 3": page(*several, limit=3),
        "limit 4": page(*several, limit=4),
        "limit 0": page("first", limit=0),
        "limit -1": page("first", limit=-1),
        "limit of unknown ones": page("a-no", "b-no", "first", limit=1),
        "unknown one after the limit": page("first", "z-no", limit=3),
        "cursor": page(*several, cursor=("first", 2)),
        "cursor at 0": page(*several, cursor=("plain-v3", 0)),
        "cursor after the topic": page(*several, cursor=("first", 3)),
        "cursor of no topic": page(*several, cursor=("g", 1)),
        "cursor after all": page(*several, cursor=("z", 0)),
        "negative cursor": page(*several, cursor=("first", -1)),
        "all, from a cursor": page(limit=1, cursor=("second.one", 0)),
    }.items():
        it.ask(question, request, 0)


def _delete(it: Interview) -> None:
    def state(name: str | None = None, topic_id: bytes = bytes(16)) -> Any:
        return delete_topics.DeleteTopicState(name=name, topic_id=topic_id)

    cls = delete_topics.DeleteTopicsRequest
    for version in versions_of(cls):

        def ask(question: str, *states: Any, v: int = version) -> None:
            request = cls(
                topics=list(states),
                topic_names=[each.name for each in states],
                timeout_ms=TIMEOUT_MS,
            )
            it.ask(question, request, v)

        for part in "abcd":
            make_topic(it, f"gone-{part}-v{version}")
        ask("by name", state(f"gone-a-v{version}"))
        ask("unknown", state("no-such-topic"))
        ask("bad name", state("a b"))
        ask("twice", state(f"gone-b-v{version}"), state(f"gone-b-v{version}"))
        ask("several", state("no-such-topic"), state(f"gone-c-v{version}"))
        ask("nothing")
        if version < 6:
            continue
        identity = it.ids[f"gone-d-v{version}"]
        ask("unknown id", state(topic_id=UNKNOWN_ID))
        ask("neither", state())
        ask("both", state("first", it.ids["first"]))
        ask("id twice", state(topic_id=identity), state(topic_id=identity))
        ask("name and id of one", state(f"gone-d-v{version}"), state(topic_id=identity))
        ask("by id", state(topic_id=identity))
