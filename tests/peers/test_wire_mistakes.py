"""What no client library does on purpose, and what Apache Kafka answers to it, field by field.

Every expectation here was read off Apache Kafka 4.3.0; run the file with BARNABAS_PEERS_SUT=apache
to see it hold there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from crc32c import crc32c

from barnabas.record.build import build_batch
from barnabas.wire.api_keys import ApiKey, request_class
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import (
    api_versions,
    create_topics,
    delete_topics,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from tests.peers.topics import create_topic
from tests.peers.wire_connection import Wire

START_MS = 1_700_000_000_000
SERVED = (
    *range(0, 4), *range(8, 17), *range(18, 24), 32, 33, 35, 37, 42, 44, 47, 55, 57, 60, 61, 74, 75,
)  # fmt: skip


@pytest.fixture
def wire(bootstrap: str) -> Iterator[Wire]:
    with Wire(bootstrap) as connection:
        yield connection


def batch(count: int = 1, **options: Any) -> bytearray:
    records = [(START_MS + n, b"k%d" % n, b"v%d" % n, ()) for n in range(count)]
    return bytearray(build_batch(records, **options))


def changed(data: bytearray, form: str, position: int, value: int) -> bytearray:
    """The batch with one header field replaced and its checksum made right again."""
    struct.pack_into(form, data, position, value)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return data


def send(
    wire: Wire, topic: str, data: bytes, *, acks: int = -1, version: int = 9, index: int = 0
) -> Any:
    partition = produce.PartitionProduceData(index=index, records=memoryview(bytes(data)))
    request = produce.ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=[produce.TopicProduceData(name=topic, partition_data=[partition])],
    )
    return wire.ask(request, version).responses[0].partition_responses[0]


ONLY_BEFORE = {ApiKey.FIND_COORDINATOR: 4, ApiKey.OFFSET_FETCH: 8, ApiKey.LEAVE_GROUP: 3}
UNSTABLE = {ApiKey.INIT_PRODUCER_ID: 6}
ATTRIBUTES, LAST_DELTA, COUNT, MAGIC = 21, 23, 57, 16


@pytest.mark.parametrize(
    ("what", "data", "error"),
    [
        ("checksum", batch()[:-1] + b"X", ErrorCode.CORRUPT_MESSAGE),
        ("too few records", changed(batch(2), ">i", COUNT, 5), ErrorCode.INVALID_RECORD),
        ("negative count", changed(batch(2), ">i", COUNT, -1), ErrorCode.INVALID_RECORD),
        (
            "count and delta differ",
            changed(batch(2), ">i", LAST_DELTA, 7),
            ErrorCode.INVALID_RECORD,
        ),
        (
            "too many records",
            changed(changed(batch(3), ">i", COUNT, 1), ">i", LAST_DELTA, 0),
            ErrorCode.INVALID_RECORD,
        ),
        ("two batches", batch() + batch(), ErrorCode.INVALID_RECORD),
        ("no batch", b"", ErrorCode.INVALID_RECORD),
        ("part of a batch", batch(3)[:-3], ErrorCode.INVALID_RECORD),
        ("ten bytes", b"x" * 10, ErrorCode.INVALID_RECORD),
        ("other bytes", b"x" * 100, ErrorCode.CORRUPT_MESSAGE),
        ("magic 1", changed(batch(), ">b", MAGIC, 1), ErrorCode.INVALID_RECORD),
        ("magic 0", changed(batch(), ">b", MAGIC, 0), ErrorCode.INVALID_RECORD),
        ("a first offset that is not zero", batch(base_offset=100), ErrorCode.INVALID_RECORD),
        (
            "a control batch",
            batch(is_control=True, producer_id=5, producer_epoch=0, base_sequence=0),
            ErrorCode.INVALID_RECORD,
        ),
        (
            "a producer without sequence",
            batch(producer_id=5, producer_epoch=1),
            ErrorCode.INVALID_RECORD,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_batches_that_are_refused(
    wire: Wire, bootstrap: str, what: str, data: bytes, error: ErrorCode
) -> None:
    topic = f"wire-{what.replace(' ', '-')}"
    create_topic(bootstrap, topic, 1)
    answer = send(wire, topic, data)
    assert (ErrorCode(answer.error_code), answer.base_offset) == (error, -1)
    assert send(wire, topic, batch(2)).base_offset == 0, "nothing may have been appended"


def test_produce_mistakes(wire: Wire, bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 1)

    def error(topic: str = name, **options: Any) -> ErrorCode:
        return ErrorCode(send(wire, topic, batch(), **options).error_code)

    assert error(acks=2) is ErrorCode.INVALID_REQUIRED_ACKS
    assert error("no-such-topic") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error("not a topic") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error(index=7) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error(index=-1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    zstd = send(wire, name, batch(2, codec=4), version=6)
    assert ErrorCode(zstd.error_code) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert send(wire, name, batch(2, codec=4), version=7).base_offset == 0


def test_keyless_records_are_named(wire: Wire, bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 1, {"cleanup.policy": "compact"})
    records = [(1, None, b"v", ()), (1, b"k", b"v", ()), (1, None, b"v", ())]
    answer = send(wire, name, build_batch(records))
    assert ErrorCode(answer.error_code) is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [0, 2]
    assert answer.record_errors[0].batch_index_error_message == (
        f"Compacted topic cannot accept message without key in topic partition {name}-0"
    )


def producer_id(wire: Wire) -> int:
    request = init_producer_id.InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1000
    )
    while (answer := wire.ask(request, 4)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        pass
    assert answer.error_code == 0
    return int(answer.producer_id)


def test_sequences(wire: Wire, bootstrap: str, name: str) -> None:
    """Idempotence: what is appended, what is answered again, what is refused."""
    create_topic(bootstrap, name, 1)
    first, second = producer_id(wire), producer_id(wire)
    assert second == first + 1

    def write(sequence: int, count: int = 1, epoch: int = 0, producer: int = first) -> Any:
        options = {"producer_id": producer, "producer_epoch": epoch, "base_sequence": sequence}
        answer = send(wire, name, batch(count, **options))
        return answer.base_offset if not answer.error_code else ErrorCode(answer.error_code)

    out_of_order = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert write(0, 3) == 0
    assert write(3) == 3
    assert write(3) == 3
    assert write(0, 3) == 0
    assert write(0, 2) is out_of_order
    assert write(9) is out_of_order
    assert write(4) == 4
    assert write(1, epoch=1) is out_of_order
    assert write(0, epoch=1) == 5
    assert write(5, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    for sequence in range(1, 6):
        assert write(sequence, epoch=1) == 5 + sequence
    assert write(0, epoch=1) is out_of_order
    assert write(1, epoch=1) == 6
    assert write(7, producer=second) == 11, "a producer nobody knows may start anywhere"


def read(
    wire: Wire,
    topic: str,
    offset: int,
    *,
    index: int = 0,
    version: int = 11,
    epoch: int = -1,
    **more: Any,
) -> Any:
    partition = fetch.FetchPartition(
        partition=index,
        fetch_offset=offset,
        partition_max_bytes=100_000,
        current_leader_epoch=epoch,
    )
    request = fetch.FetchRequest(
        max_wait_ms=10,
        min_bytes=1,
        max_bytes=1_000_000,
        topics=[fetch.FetchTopic(topic=topic, partitions=[partition])],
        **more,
    )
    return wire.ask(request, version)


def test_fetch_mistakes(wire: Wire, bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 1)
    send(wire, name, batch(3))

    def outcome(*args: Any, **options: Any) -> ErrorCode:
        partition = read(wire, name, *args, **options).responses[0].partitions[0]
        if partition.error_code:
            assert (partition.high_watermark, len(partition.records or b"")) == (-1, 0)
        return ErrorCode(partition.error_code)

    assert outcome(0) is ErrorCode.NONE
    assert outcome(3) is ErrorCode.NONE
    assert outcome(4) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert outcome(-1) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert outcome(0, index=9) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert outcome(0, epoch=0) is ErrorCode.NONE
    assert outcome(0, epoch=5) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert outcome(0, replica_id=1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert outcome(0, replica_id=99) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert outcome(0, session_id=77, session_epoch=-1) is ErrorCode.NONE
    unknown = read(wire, "no-such-topic", 0).responses[0].partitions[0]
    assert ErrorCode(unknown.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_fetch_answers(wire: Wire, bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 1)
    send(wire, name, batch(3))
    found = read(wire, name, 1).responses[0].partitions[0]
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (3, 3, 0)
    assert found.aborted_transactions is None
    assert found.preferred_read_replica == -1
    assert struct.unpack_from(">q", found.records)[0] == 0, "whole batches are sent"
    committed = read(wire, name, 0, isolation_level=1).responses[0].partitions[0]
    assert committed.aborted_transactions == []
    old = read(wire, name, 0, version=4).responses[0].partitions[0]
    assert bytes(old.records) == bytes(committed.records)


def test_fetch_sessions(wire: Wire, bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 1)
    send(wire, name, batch(3))
    for session in ({"session_id": 123, "session_epoch": 1}, {"session_id": 0, "session_epoch": 5}):
        answer = read(wire, name, 0, **session)
        assert ErrorCode(answer.error_code) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert answer.responses == []
    opened = read(wire, name, 0, session_id=0, session_epoch=0)
    assert opened.session_id != 0
    assert len(opened.responses) == 1

    def incremental(epoch: int, **more: Any) -> Any:
        request = fetch.FetchRequest(
            max_wait_ms=10, min_bytes=1, session_id=opened.session_id, session_epoch=epoch, **more
        )
        return wire.ask(request, 11)

    moved = read(wire, name, 3, session_id=opened.session_id, session_epoch=1)
    assert moved.session_id == opened.session_id
    assert moved.responses == []
    send(wire, name, batch(2))
    news = incremental(2)
    assert news.responses[0].partitions[0].high_watermark == 5
    wrong = incremental(9)
    assert ErrorCode(wrong.error_code) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    gone = fetch.ForgottenTopic(topic=name, partitions=[0])
    assert incremental(3, forgotten_topics_data=[gone]).responses == []
    assert incremental(-1).session_id == 0
    closed = incremental(4)
    assert ErrorCode(closed.error_code) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_list_offsets(wire: Wire, bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 1)
    send(wire, name, batch(3))

    def at(
        timestamp: int, version: int = 11, *, index: int = 0, epoch: int = -1
    ) -> tuple[Any, ...]:
        partition = list_offsets.ListOffsetsPartition(
            partition_index=index, timestamp=timestamp, current_leader_epoch=epoch
        )
        topic = list_offsets.ListOffsetsTopic(name=name, partitions=[partition])
        answer = wire.ask(list_offsets.ListOffsetsRequest(replica_id=-1, topics=[topic]), version)
        found = answer.topics[0].partitions[0]
        return found.error_code, found.timestamp, found.offset, found.leader_epoch

    assert at(-1) == (0, -1, 3, 0)
    assert at(-2) == (0, -1, 0, 0)
    assert at(-3) == (0, START_MS + 2, 2, 0)
    assert at(-4) == (0, -1, 0, 0)
    assert at(-5) == (0, -1, -1, -1)
    assert at(-6) == (0, -1, -1, -1)
    assert at(0) == (0, START_MS, 0, 0)
    unsupported = int(ErrorCode.UNSUPPORTED_VERSION)
    assert at(-7) == at(-3, 1) == at(-4, 7) == (unsupported, -1, -1, -1)
    assert at(-1, index=9)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert at(-1, epoch=9)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH

    def end_of_epoch(epoch: int) -> tuple[int, int, int]:
        asked = offset_for_leader_epoch.OffsetForLeaderPartition(
            partition=0, current_leader_epoch=-1, leader_epoch=epoch
        )
        topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic=name, partitions=[asked])
        request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
        found = wire.ask(request, 4).topics[0].partitions[0]
        return found.error_code, found.leader_epoch, found.end_offset

    assert end_of_epoch(0) == (0, 0, 3)
    assert end_of_epoch(5) == (0, -1, -1)


def test_metadata(wire: Wire, bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 1)

    def topics(version: int, *wanted: str, **options: Any) -> list[tuple[str, ErrorCode]]:
        asked = [metadata.MetadataRequestTopic(name=topic) for topic in wanted]
        answer = wire.ask(metadata.MetadataRequest(topics=asked, **options), version)
        return [(topic.name, ErrorCode(topic.error_code)) for topic in answer.topics]

    assert topics(1) == []
    assert (name, ErrorCode.NONE) in topics(0)
    everything = wire.ask(metadata.MetadataRequest(topics=None), 12).topics
    assert name in [topic.name for topic in everything]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    missing = f"{name}-missing"
    assert topics(8, missing, allow_auto_topic_creation=False) == [(missing, unknown)]
    assert topics(8, "a b") == [("a b", ErrorCode.INVALID_TOPIC_EXCEPTION)]
    by_id = metadata.MetadataRequestTopic(topic_id=bytes([7]) * 16, name=None)
    found = wire.ask(metadata.MetadataRequest(topics=[by_id]), 12).topics[0]
    assert (found.name, ErrorCode(found.error_code)) == (None, ErrorCode.UNKNOWN_TOPIC_ID)
    request = metadata.MetadataRequest(
        topics=[metadata.MetadataRequestTopic(name=name)],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    answer = wire.ask(request, 10)
    assert answer.cluster_authorized_operations == 8096
    assert answer.topics[0].topic_authorized_operations == 3576


def test_topic_creation_mistakes(wire: Wire, name: str) -> None:
    def create(*topics: Any) -> list[tuple[ErrorCode, str | None]]:
        request = create_topics.CreateTopicsRequest(topics=list(topics), timeout_ms=5000)
        return [(ErrorCode(t.error_code), t.error_message) for t in wire.ask(request, 7).topics]

    def topic(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> Any:
        return create_topics.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=replicas, **more
        )

    assert create(topic(name), topic(name)) == [
        (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    ]
    assert create(topic(name, -5), topic(f"{name}-2", 1, 0)) == [
        (
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
    ]
    assert create(topic("")) == [
        (
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: the empty string is not allowed",
        )
    ]
    assignment = create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=[1])
    ((code, _),) = create(topic(name, 3, 1, assignments=[assignment]))
    assert code is ErrorCode.INVALID_REQUEST
    ((code, _),) = create(topic("__cluster_metadata"))
    assert code is ErrorCode.INVALID_REQUEST
    assert create(topic(name, -1, -1)) == [(ErrorCode.NONE, None)]
    unknown = delete_topics.DeleteTopicState(name=None, topic_id=bytes([7]) * 16)
    deleted = wire.ask(delete_topics.DeleteTopicsRequest(topics=[unknown], timeout_ms=5000), 6)
    assert ErrorCode(deleted.responses[0].error_code) is ErrorCode.UNKNOWN_TOPIC_ID


def test_find_coordinator(wire: Wire, bootstrap: str, name: str) -> None:
    def ask(key_type: int, key: str = name) -> Any:
        request = find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        return wire.ask(request, 4).coordinators[0]

    found = ask(0)
    while found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
        found = ask(0)
    assert f"{found.host}:{found.port}" == bootstrap
    assert ErrorCode(ask(2).error_code) is ErrorCode.INVALID_REQUEST
    assert ErrorCode(ask(9).error_code) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("TLS", bytes.fromhex("1603010200010001fc0303") + bytes(100)),
        ("negative size", struct.pack(">i", -1) + b"abc"),
        ("empty frame", struct.pack(">i", 0)),
        ("half a header", struct.pack(">i", 3) + b"abc"),
        ("unknown key", struct.pack(">ihhih", 10, 999, 0, 1, -1)),
        ("unknown version", struct.pack(">ihhih", 10, 3, 99, 1, -1)),
        ("Produce 99", struct.pack(">ihhih", 10, 0, 99, 1, -1)),
        ("Produce 2, listed but not served", struct.pack(">ihhih", 10, 0, 2, 1, -1)),
        ("LeaderAndIsr", struct.pack(">ihhih", 10, 4, 0, 1, -1)),
        ("a controller's Vote", struct.pack(">ihhih", 10, 52, 0, 1, -1)),
        ("half a body", struct.pack(">ihhihi", 14, 3, 1, 1, -1, 5)),
        ("more topics than bytes", struct.pack(">ihhihi", 14, 3, 1, 1, -1, 0x7FFFFFFF)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bytes_that_end_a_connection(wire: Wire, bootstrap: str, what: str, data: bytes) -> None:
    wire.send_bytes(data)
    assert wire.receive_frame() is None
    with Wire(bootstrap) as other:
        assert other.ask(api_versions.ApiVersionsRequest(), 0).error_code == 0


def test_api_versions(wire: Wire) -> None:
    """An unknown version is answered in version 0, naming only what ApiVersions itself offers."""
    wire.send_bytes(struct.pack(">ihhihb", 11, 18, 99, 1, -1, 0))
    assert wire.receive_frame() == struct.pack(">ihihhh", 1, 35, 1, 18, 0, 4)
    bad = api_versions.ApiVersionsRequest(
        client_software_name="bad name!", client_software_version="1"
    )
    assert ErrorCode(wire.ask(bad, 3).error_code) is ErrorCode.INVALID_REQUEST
    good = api_versions.ApiVersionsRequest(client_software_name="a", client_software_version="1")
    answer = wire.ask(good, 4)
    offered = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    assert set(SERVED) <= set(offered)
    for key in SERVED:
        lowest, highest = request_class(ApiKey(key)).VERSIONS
        highest = min(highest, UNSTABLE.get(ApiKey(key), 99) - 1)
        assert offered[key] == (0 if key == ApiKey.PRODUCE else lowest, highest), ApiKey(key).name


def test_every_version_is_answered(bootstrap: str) -> None:
    """An empty request of each version of each API: the answer can be read, none closes."""
    blank = {"group_id": "g", "member_id": "m", "key": "g", "transactional_id": None}
    for number in SERVED:
        key = ApiKey(number)
        cls = request_class(key)
        lowest, highest = cls.VERSIONS
        highest = min(highest, UNSTABLE.get(key, 99) - 1)
        fields = {name: value for name, value in blank.items() if name in cls.__slots__}
        if key is ApiKey.API_VERSIONS:
            fields |= {"client_software_name": "a", "client_software_version": "1"}
        with Wire(bootstrap) as wire:
            for version in range(lowest, highest + 1):
                request = cls(**(fields if version < ONLY_BEFORE.get(key, 99) else {}))
                if key is ApiKey.PRODUCE:
                    request.acks = 1  # type: ignore[attr-defined]
                wire.ask(request, version)


def test_pipelined_requests_are_answered_in_order(wire: Wire, bootstrap: str, name: str) -> None:
    """A waiting fetch holds back the answers behind it, as Kafka's order promises."""
    create_topic(bootstrap, name, 1)
    partition = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    waiting = fetch.FetchRequest(
        max_wait_ms=300,
        min_bytes=1,
        topics=[fetch.FetchTopic(topic=name, partitions=[partition])],
    )
    frames = [wire.frame(waiting, 11)]
    frames += [wire.frame(metadata.MetadataRequest(topics=[]), 1) for _ in range(20)]
    wire.send_bytes(b"".join(frames))
    answered = []
    for _ in frames:
        body = wire.receive_frame()
        assert body is not None
        answered.append(struct.unpack_from(">i", body)[0])
    assert answered == list(range(1, 22))
