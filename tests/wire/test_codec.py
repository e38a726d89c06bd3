"""What writers promise: record bytes are handed on, defaults stay away, and refusals say why."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.wire import codec
from barnabas.wire.codec import EncodeError
from barnabas.wire.message import Message
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
)
from barnabas.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records.group import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
    OffsetCommitValue,
)


class PartOfAFile:
    """Something with a length that is not bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __len__(self) -> int:
        return len(self._content)

    def read(self) -> bytes:
        return self._content


def fetched(*records: Any) -> FetchResponse:
    partitions = [
        PartitionData(partition_index=index, records=each) for index, each in enumerate(records)
    ]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_records_are_handed_on_as_they_are(version: int) -> None:
    first, second = memoryview(bytearray(b"one" * 100)), PartOfAFile(b"two" * 100)
    chunks: list[Any] = []
    codec.writer(FetchResponse, version)(fetched(first, None, b"", second), chunks)
    kinds = [type(chunk) for chunk in chunks]
    assert kinds[:4] == [bytearray, memoryview, bytearray, PartOfAFile]
    assert kinds[4:] == ([bytearray] if version >= 12 else [])
    assert chunks[1] is first
    assert chunks[3] is second
    whole = codec.encode(fetched(first, None, b"", second), version)
    assert whole == b"".join(
        chunk.read() if isinstance(chunk, PartOfAFile) else bytes(chunk) for chunk in chunks
    )
    read = codec.decode(FetchResponse, version, whole)
    partitions = read.responses[0].partitions
    assert [each.records for each in partitions] == [b"one" * 100, None, b"", b"two" * 100]


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_records_are_views_of_the_frame(version: int) -> None:
    request = ProduceRequest(
        topic_data=[
            TopicProduceData(
                name="t", partition_data=[PartitionProduceData(index=1, records=b"abc")]
            )
        ]
    )
    frame = bytearray(codec.encode(request, version))
    for buffer in (frame, memoryview(frame)):
        records = (
            codec.decode(ProduceRequest, version, buffer).topic_data[0].partition_data[0].records
        )
        assert isinstance(records, memoryview)
        at = frame.index(b"abc")
        frame[at : at + 3] = b"xyz"
        assert bytes(records) == b"xyz"
        frame[at : at + 3] = b"abc"
        records.release()


def test_other_bytes_are_copied() -> None:
    frame = bytearray(codec.encode(ConsumerGroupMemberMetadataValue(client_id="me"), 0))
    read = codec.decode(ConsumerGroupMemberMetadataValue, 0, memoryview(frame))
    frame[:] = bytes(len(frame))
    assert read.client_id == "me"


def test_known_bytes() -> None:
    assert codec.encode(ApiVersionsRequest(), 0) == b""
    request = ApiVersionsRequest(client_software_name="ab", client_software_version="1")
    assert codec.encode(request, 3) == b"\x03ab\x021\x00"
    heartbeat = HeartbeatRequest(group_id="g", generation_id=5, member_id="m")
    assert codec.encode(heartbeat, 0).hex() == "0001670000000500016d"
    assert codec.encode(heartbeat, 3).hex() == "0001670000000500016dffff"
    assert codec.encode(heartbeat, 4).hex() == "026700000005026d0000"
    everything = MetadataRequest(topics=None)
    assert codec.encode(everything, 1).hex() == "ffffffff"
    assert codec.encode(everything, 12).hex() == "00010000"


def test_tagged_fields_travel_only_away_from_their_default() -> None:
    silent = ApiVersionsResponse(finalized_features_epoch=-1)
    assert codec.encode(silent, 3).hex() == "0000010000000000"
    spoken = ApiVersionsResponse(finalized_features_epoch=7, zk_migration_ready=True)
    assert codec.encode(spoken, 3).hex() == "0000010000000002" + "01080000000000000007" + "030101"


def test_structs_away_from_their_default_are_written() -> None:
    response = fetched(b"")
    data = response.responses[0].partitions[0]
    data.current_leader.leader_id = 3
    read = codec.decode(FetchResponse, 12, codec.encode(response, 12))
    partition = read.responses[0].partitions[0]
    assert partition.current_leader == LeaderIdAndEpoch(leader_id=3)
    assert partition.diverging_epoch == EpochEndOffset()


def test_nullable_structs() -> None:
    request = DescribeTopicPartitionsRequest()
    assert codec.encode(request, 0).hex() == "01000007d0ff00"
    request.cursor = Cursor(topic_name="t", partition_index=1)
    encoded = codec.encode(request, 0)
    assert encoded.hex() == "01000007d001" + "0274" + "00000001" + "00" + "00"
    assert codec.decode(DescribeTopicPartitionsRequest, 0, encoded) == request


def test_a_nullable_struct_in_a_tagged_field_has_one_byte_in_front() -> None:
    value = ConsumerGroupMemberMetadataValue(
        classic_member_metadata=ClassicMemberMetadata(session_timeout_ms=5)
    )
    encoded = codec.encode(value, 0)
    assert encoded.hex().endswith("01" + "0007" + "01" + "00000005" + "01" + "00")
    assert codec.decode(ConsumerGroupMemberMetadataValue, 0, encoded) == value
    null = encoded[:-10] + bytes.fromhex("01" + "0001" + "00")
    read = codec.decode(ConsumerGroupMemberMetadataValue, 0, null)
    assert read.classic_member_metadata is None


def test_long_arrays_of_numbers() -> None:
    for count in (0, 15, 16, 17, 126, 127, 128, 5000):
        partition = MetadataResponsePartition(replica_nodes=list(range(count)))
        message = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=[partition])])
        for version in (8, 12):
            assert (
                codec.decode(MetadataResponse, version, codec.encode(message, version)) == message
            )


REFUSED = [
    pytest.param(
        HeartbeatRequest(group_instance_id="i"), 2,
        "HeartbeatRequest v2 has no group_instance_id", id="a field the version lacks",
    ),
    pytest.param(
        FetchRequest(replica_state=ReplicaState(replica_id=1)), 14,
        "FetchRequest v14 has no replica_state", id="a struct the version lacks",
    ),
    pytest.param(
        AddPartitionsToTxnRequest(v3_and_below_transactional_id="t"), 4,
        "AddPartitionsToTxnRequest v4 has no v3_and_below_transactional_id", id="a field of old",
    ),
    pytest.param(
        FetchResponse(session_id=3), 4, "FetchResponse v4 has no session_id", id="a number",
    ),
    pytest.param(
        MetadataRequest(topics=None), 0, "MetadataRequest v0: topics", id="null array",
    ),
    pytest.param(
        MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 9,
        r"MetadataRequest v9: topics\[0\].name", id="null string in an array",
    ),
    pytest.param(
        HeartbeatRequest(generation_id=1 << 31), 0, "generation_id", id="a number too large",
    ),
    pytest.param(HeartbeatRequest(group_id="x" * 32768), 0, "group_id", id="a string too long"),
    pytest.param(
        HeartbeatRequest(group_id="x" * 32768), 4, "group_id has 32768 bytes", id="compact too long",
    ),
    pytest.param(HeartbeatRequest(group_id="\ud800"), 4, "group_id", id="a lone surrogate"),
    pytest.param(
        MetadataRequest(topics=[MetadataRequestTopic(topic_id=b"short")]), 12,
        "topic_id is not 16 bytes", id="an id too short",
    ),
    pytest.param(HeartbeatRequest(), 5, "HeartbeatRequest has no version 5", id="no such version"),
    pytest.param(
        OffsetCommitValue(offset="1"), 4, "OffsetCommitValue v4: offset", id="not a number",  # type: ignore[arg-type]
    ),
]  # fmt: skip


@pytest.mark.parametrize(("message", "version", "reason"), REFUSED)
def test_what_a_version_cannot_express(message: Message, version: int, reason: str) -> None:
    with pytest.raises(EncodeError, match=reason):
        codec.encode(message, version)


def test_ignorable_fields_are_dropped() -> None:
    request = JoinGroupRequest(reason="because", rebalance_timeout_ms=5)
    assert codec.encode(request, 0) == codec.encode(JoinGroupRequest(), 0)
    commit = OffsetCommitRequest(retention_time_ms=5)
    assert codec.encode(commit, 5) == codec.encode(OffsetCommitRequest(), 5)


def test_a_string_of_the_longest_length() -> None:
    for version in (0, 4):
        request = HeartbeatRequest(group_id="x" * 32767)
        assert codec.decode(HeartbeatRequest, version, codec.encode(request, version)) == request


def test_compiled_functions_are_kept() -> None:
    assert codec.reader(ProduceResponse, 9) is codec.reader(ProduceResponse, 9)
    assert codec.writer(ProduceResponse, 9) is codec.writer(ProduceResponse, 9)
