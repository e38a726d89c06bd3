"""Questions about records: writing, reading, finding and deleting them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from barnabas.record.build import build_batch
from barnabas.wire.messages import (
    alter_replica_log_dirs,
    delete_records,
    describe_log_dirs,
    describe_producers,
    fetch,
    init_producer_id,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from tests.api.interview import Interview, versions_of
from tests.api.topic_questions import UNKNOWN_ID, make_topic

START_MS = 1_700_000_000_000
TIMEOUT_MS = 10_000


def batch(count: int = 1, first_ms: int = START_MS, **options: Any) -> bytes:
    records = [(first_ms + n, b"k%d" % n, b"v%d" % n, ()) for n in range(count)]
    return bytes(build_batch(records, **options))


def by_topic(wanted: Iterable[tuple[str, int, Any]]) -> dict[str, list[tuple[int, Any]]]:
    topics: dict[str, list[tuple[int, Any]]] = {}
    for topic, index, what in wanted:
        topics.setdefault(topic, []).append((index, what))
    return topics


def production(
    it: Interview, *data: tuple[str, int, bytes], acks: int = -1, txn: str | None = None
) -> Any:
    return produce.ProduceRequest(
        acks=acks,
        timeout_ms=TIMEOUT_MS,
        transactional_id=txn,
        topic_data=[
            produce.TopicProduceData(
                name=topic,
                topic_id=it.ids.get(topic, UNKNOWN_ID),
                partition_data=[
                    produce.PartitionProduceData(index=index, records=memoryview(records))
                    for index, records in partitions
                ],
            )
            for topic, partitions in by_topic(data).items()
        ],
    )


def ask_about_logs(it: Interview) -> None:
    _write(it)
    make_topic(it, "read", 2)
    make_topic(it, "read-compacted", 1, cleanup_policy="compact")
    make_topic(it, "read-both", 1, cleanup_policy="compact,delete")
    for records in (batch(3), batch(2, START_MS + 5000), batch(2, START_MS + 100)):
        it.newest(production(it, ("read", 0, records)))
    it.newest(production(it, ("read-compacted", 0, batch(2)), ("read-both", 0, batch(4))))
    _read(it)
    _find(it)
    _producers(it)
    _directories(it)
    _moves(it)
    _cut(it)


def _write(it: Interview) -> None:
    for version in versions_of(produce.ProduceRequest):
        topic = f"written-v{version}"
        make_topic(it, topic, 2)
        stamped = f"stamped-v{version}"
        make_topic(it, stamped, message_timestamp_type="LogAppendTime")
        keyed = f"keyed-v{version}"
        make_topic(it, keyed, cleanup_policy="compact")

        def ask(question: str, *data: Any, v: int = version, **more: Any) -> None:
            it.ask(question, production(it, *data, **more), v)

        unkeyed = bytes(build_batch([(START_MS, None, b"v", ())]))
        sequence = {"producer_id": 77, "producer_epoch": 0}
        ask("first", (topic, 0, batch(3)))
        ask("acks 1", (topic, 0, batch(2)), acks=1)
        ask("acks 2", (topic, 0, batch(2)), acks=2)
        ask("append time", (stamped, 0, batch(2)))
        ask("no key", (keyed, 0, unkeyed))
        ask("unknown partition", (topic, 9, batch()))
        ask("unknown topic", ("no-such-topic", 0, batch()))
        ask("bad name", ("a b", 0, batch()))
        ask("no records", (topic, 0, b""))
        ask("corrupt", (topic, 0, batch()[:-1] + b"X"))
        ask("two batches", (topic, 0, batch() + batch()))
        ask("internal topic", ("__consumer_offsets", 0, batch()))
        ask("sequence 0", (topic, 1, batch(2, base_sequence=0, **sequence)))
        ask("sequence 0 again", (topic, 1, batch(2, base_sequence=0, **sequence)))
        ask("sequence 5", (topic, 1, batch(2, base_sequence=5, **sequence)))
        ask(
            "new producer in the middle",
            (topic, 1, batch(1, base_sequence=9, producer_id=78, producer_epoch=0)),
        )
        ask("several", (topic, 0, batch()), ("no-such-topic", 0, batch()), (topic, 9, batch()))
        ask("nothing")
        if version != 3:
            ask("transactional id without transaction", (topic, 0, batch()), txn="t")


def fetching(
    it: Interview,
    *wanted: tuple[str, int, int],
    isolation_level: int = 0,
    session: tuple[int, int] = (0, -1),
    epoch: int = -1,
    partition_max_bytes: int = 1 << 20,
    max_bytes: int = 1 << 20,
    **more: Any,
) -> Any:
    return fetch.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            fetch.FetchTopic(
                topic=topic,
                topic_id=it.ids.get(topic, UNKNOWN_ID),
                partitions=[
                    fetch.FetchPartition(
                        partition=index,
                        fetch_offset=offset,
                        current_leader_epoch=epoch,
                        partition_max_bytes=partition_max_bytes,
                    )
                    for index, offset in partitions
                ],
            )
            for topic, partitions in by_topic(wanted).items()
        ],
        **more,
    )


def _read(it: Interview) -> None:
    cls = fetch.FetchRequest
    cases: dict[str, Any] = {
        "from the start": fetching(it, ("read", 0, 0)),
        "committed": fetching(it, ("read", 0, 0), isolation_level=1),
        "from within": fetching(it, ("read", 0, 4)),
        "at the end": fetching(it, ("read", 0, 7)),
        "beyond the end": fetching(it, ("read", 0, 8)),
        "beyond the end, committed": fetching(it, ("read", 0, 8), isolation_level=1),
        "unknown, committed": fetching(it, ("no-such-topic", 0, 8), isolation_level=1),
        "negative": fetching(it, ("read", 0, -5)),
        "empty partition": fetching(it, ("read", 1, 0)),
        "little room": fetching(it, ("read", 0, 0), ("read-both", 0, 0), max_bytes=10),
        "no room in partition": fetching(it, ("read", 0, 0), partition_max_bytes=0),
        "several": fetching(it, ("read", 0, 3), ("read-both", 0, 0), ("read", 1, 0)),
        "unknown partition": fetching(it, ("read", 9, 0)),
        "unknown topic": fetching(it, ("no-such-topic", 0, 0), ("read", 0, 7)),
        "bad name": fetching(it, ("a b", 0, 0)),
        "epoch 0": fetching(it, ("read", 0, 0), epoch=0),
        "epoch 9": fetching(it, ("read", 0, 0), epoch=9),
        "nothing": fetching(it),
        "unknown session": fetching(it, ("read", 0, 0), session=(99, 1)),
        "unknown session is closed": fetching(it, ("read", 0, 0), session=(99, -1)),
    }
    for question, request in cases.items():
        it.every(question, cls, lambda _, request=request: request)
    for version in versions_of(cls):
        if version < 7:
            continue
        answer = it.quietly(fetching(it, ("read", 0, 0), session=(0, 0)), version)
        session = answer.session_id
        assert session > 0
        answer.session_id = 1
        it.keep("new session", answer, version)
        for epoch, question in ((1, "second of a session"), (5, "session skips")):
            answer = it.quietly(fetching(it, session=(session, epoch)), version)
            answer.session_id = min(answer.session_id, 1)
            it.keep(question, answer, version)


def _find(it: Interview) -> None:
    def asked(*wanted: tuple[str, int, int], epoch: int = -1, **more: Any) -> Any:
        return list_offsets.ListOffsetsRequest(
            replica_id=-1,
            timeout_ms=TIMEOUT_MS,
            topics=[
                list_offsets.ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        list_offsets.ListOffsetsPartition(
                            partition_index=index, timestamp=moment, current_leader_epoch=epoch
                        )
                        for index, moment in partitions
                    ],
                )
                for topic, partitions in by_topic(wanted).items()
            ],
            **more,
        )

    cls = list_offsets.ListOffsetsRequest
    cases: dict[str, Any] = {
        "latest": asked(("read", 0, -1)),
        "latest committed": asked(("read", 0, -1), isolation_level=1),
        "earliest": asked(("read", 0, -2)),
        "largest timestamp": asked(("read", 0, -3)),
        "earliest local": asked(("read", 0, -4)),
        "latest tiered": asked(("read", 0, -5)),
        "earliest to upload": asked(("read", 0, -6)),
        "unknown word": asked(("read", 0, -7)),
        "by time": asked(("read", 0, START_MS + 2)),
        "by later time": asked(("read", 0, START_MS + 3)),
        "by time in the future": asked(("read", 0, START_MS + 90_000)),
        "by time zero": asked(("read", 0, 0)),
        "latest of empty": asked(("read", 1, -1)),
        "earliest of empty": asked(("read", 1, -2)),
        "largest timestamp of empty": asked(("read", 1, -3)),
        "by time in empty": asked(("read", 1, START_MS)),
        "unknown partition": asked(("read", 9, -1)),
        "unknown topic": asked(("no-such-topic", 0, -1)),
        "bad name": asked(("a b", 0, -1)),
        "twice": asked(("read", 0, -1), ("read", 0, -2), ("read", 1, -2)),
        "epoch 0": asked(("read", 0, -1), epoch=0),
        "epoch 9": asked(("read", 0, -1), epoch=9),
        "nothing": asked(),
    }
    for question, request in cases.items():
        it.every(question, cls, lambda _, request=request: request)

    def ended(*wanted: tuple[str, int, int, int]) -> Any:
        return offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    topic=topic,
                    partitions=[
                        offset_for_leader_epoch.OffsetForLeaderPartition(
                            partition=index, current_leader_epoch=current, leader_epoch=epoch
                        )
                    ],
                )
                for topic, index, current, epoch in wanted
            ],
        )

    cases = {
        "present epoch": ended(("read", 0, -1, 0)),
        "present epoch, checked": ended(("read", 0, 0, 0)),
        "later epoch": ended(("read", 0, -1, 5)),
        "no epoch": ended(("read", 0, -1, -1)),
        "newer leader": ended(("read", 0, 5, 0)),
        "empty partition": ended(("read", 1, -1, 0)),
        "unknown partition": ended(("read", 9, -1, 0)),
        "unknown topic": ended(("no-such-topic", 0, -1, 0), ("read", 0, -1, 0)),
        "nothing": ended(),
    }
    for question, request in cases.items():
        cls_ = offset_for_leader_epoch.OffsetForLeaderEpochRequest
        it.every(question, cls_, lambda _, request=request: request)


def _producers(it: Interview) -> None:
    def new(transactional_id: str | None, producer: int = -1, epoch: int = -1) -> Any:
        return init_producer_id.InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=60_000,
            producer_id=producer,
            producer_epoch=epoch,
        )

    cls = init_producer_id.InitProducerIdRequest
    it.wait(lambda: it.newest(new(None)).error_code == 0)
    for version in versions_of(cls):
        first = it.quietly(new(None), version)
        second = it.quietly(new(None), version)
        assert second.producer_id > first.producer_id
        second.producer_id -= first.producer_id
        it.keep("the next", second, version)
        it.ask("empty transactional id", new(""), version)
        if version >= 3:
            it.ask("id without epoch", new(None, 5, -1), version)
            it.ask("epoch without id", new(None, -1, 5), version)

    def known(*wanted: tuple[str, list[int]]) -> Any:
        return describe_producers.DescribeProducersRequest(
            topics=[
                describe_producers.TopicRequest(name=topic, partition_indexes=indexes)
                for topic, indexes in wanted
            ]
        )

    it.ask("known", known(("written-v9", [0, 1])), 0)
    it.ask("unknown partition", known(("written-v9", [9])), 0)
    it.ask("unknown topic", known(("no-such-topic", [0]), ("read", [0])), 0)
    it.ask("bad name", known(("a b", [0])), 0)
    it.ask("nothing", known(), 0)


def _directories(it: Interview) -> None:
    cls = describe_log_dirs.DescribeLogDirsRequest

    def keep(question: str, topics: Any) -> None:
        for version in versions_of(cls):
            asked = None
            if topics is not None:
                asked = [
                    describe_log_dirs.DescribableLogDirTopic(topic=topic, partitions=partitions)
                    for topic, partitions in topics
                ]
            answer = it.quietly(cls(topics=asked), version)
            for result in answer.results:
                assert result.log_dir
                result.log_dir = "DIRECTORY"
                if version >= 4:
                    assert result.total_bytes >= result.usable_bytes > 0
                    result.total_bytes = result.usable_bytes = 1
                result.topics = sorted(
                    (each for each in result.topics if each.name in ("read", "read-both")),
                    key=lambda each: each.name,
                )
                for each in result.topics:
                    each.partitions.sort(key=lambda one: one.partition_index)
            it.keep(question, answer, version)

    keep("all", None)
    keep("none", [])
    keep("some", [("read", [0, 9]), ("no-such-topic", [0])])


def _cut(it: Interview) -> None:
    def cut(*wanted: tuple[str, int, int]) -> Any:
        return delete_records.DeleteRecordsRequest(
            timeout_ms=TIMEOUT_MS,
            topics=[
                delete_records.DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        delete_records.DeleteRecordsPartition(partition_index=index, offset=offset)
                    ],
                )
                for topic, index, offset in wanted
            ],
        )

    for version in versions_of(delete_records.DeleteRecordsRequest):
        topic = f"cut-v{version}"
        make_topic(it, topic)
        it.newest(production(it, (topic, 0, batch(5))))

        def ask(question: str, *wanted: Any, v: int = version) -> None:
            it.ask(question, cut(*wanted), v)

        ask("some", (topic, 0, 2))
        ask("fewer", (topic, 0, 1))
        ask("too many", (topic, 0, 6))
        ask("negative", (topic, 0, -2))
        ask("all", (topic, 0, -1))
        ask("all again", (topic, 0, -1))
        ask("unknown partition", (topic, 9, -1))
        ask("unknown topic", ("no-such-topic", 0, -1))
        ask("bad name", ("a b", 0, -1))
        ask("compacted", ("read-compacted", 0, 1))
        ask("compacted and deleted", ("read-both", 0, 1))
        ask("internal", ("__consumer_offsets", 0, 0))
        ask("several", ("no-such-topic", 0, 1), (topic, 0, 5))
        ask("nothing")


def _moves(it: Interview) -> None:
    cls = alter_replica_log_dirs.AlterReplicaLogDirsRequest
    described = it.quietly(describe_log_dirs.DescribeLogDirsRequest(topics=[]), 5)
    here = described.results[0].log_dir

    def to(path: str, *places: tuple[str, list[int]]) -> Any:
        return cls(
            dirs=[
                alter_replica_log_dirs.AlterReplicaLogDir(
                    path=path,
                    topics=[
                        alter_replica_log_dirs.AlterReplicaLogDirTopic(
                            name=name, partitions=indexes
                        )
                        for name, indexes in places
                    ],
                )
            ]
        )

    for version in versions_of(cls):
        it.ask("to where it is", to(here, ("read", [0])), version)
        it.ask("to no directory", to("/no/such/directory", ("read", [0])), version)
        it.ask("unknown partition", to(here, ("read", [9])), version)
        it.ask("unknown topic", to(here, ("no-such-topic", [0])), version)
        it.ask("nothing", cls(dirs=[]), version)
