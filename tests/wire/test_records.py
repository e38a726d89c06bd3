"""The frames that records are written in: metadata, coordinators, Raft."""

from __future__ import annotations

import pytest

from barnabas.wire.codec import DecodeError
from barnabas.wire.records import group, metadata, raft, share, transaction
from barnabas.wire.records.coordinator import decode_record, encode_key, encode_value
from barnabas.wire.records.group import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from barnabas.wire.records.metadata import (
    PartitionChangeRecord,
    RegisterBrokerRecord,
    TopicRecord,
    decode_metadata_record,
    encode_metadata_record,
)
from barnabas.wire.records.raft import (
    LeaderChangeMessage,
    LeaderChangeVoter,
    VotersRecord,
    decode_control_record,
    encode_control_record,
)
from barnabas.wire.records.transaction import TransactionLogKey, TransactionLogValue

ID = bytes(range(16))


def test_a_metadata_record_has_frame_type_and_version_in_front() -> None:
    record = TopicRecord(name="foo", topic_id=ID)
    encoded = encode_metadata_record(record)
    assert encoded.hex() == "010200" + "04666f6f" + ID.hex() + "00"
    assert decode_metadata_record(encoded) == (record, 0)
    assert decode_metadata_record(memoryview(encoded)) == (record, 0)


def test_a_metadata_record_in_a_chosen_version() -> None:
    record = RegisterBrokerRecord(broker_id=1, incarnation_id=ID)
    for version in range(5):
        encoded = encode_metadata_record(record, version)
        assert encoded[:3] == bytes((1, 0, version))
        assert decode_metadata_record(encoded) == (record, version)


def test_unchanged_fields_of_a_change_take_no_room() -> None:
    record = PartitionChangeRecord(partition_id=1, topic_id=ID, isr=[1, 2])
    encoded = encode_metadata_record(record, 0)
    assert encoded[3:].hex() == "00000001" + ID.hex() + "01" + "0009" + "030000000100000002"
    assert decode_metadata_record(encoded)[0] == record


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "past the end"),
        ("02", "frame version 2"),
        ("00", "frame version 0"),
        ("0106", "past the end"),
        ("010600", "unknown type 6"),
        ("010201", "no version 1"),
        ("01020001", "end"),
        ("011400" + "00" + "00", "1 bytes follow a NoOpRecord"),
    ],
)
def test_bad_metadata_records(data: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode_metadata_record(bytes.fromhex(data))


def test_every_metadata_record_is_registered() -> None:
    gaps = {6, 13, 16}
    assert set(metadata.RECORDS) == set(range(29)) - gaps


def test_coordinator_records_have_type_and_version_in_front() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=7)
    encoded_key, encoded_value = encode_key(key), encode_value(value, 1)
    assert encoded_key.hex() == "0001" + "000167" + "000174" + "00000003"
    assert encoded_value is not None
    assert encoded_value.hex() == (
        "0001" + "0000000000000005" + "00016d" + "0000000000000007" + "ffffffffffffffff"
    )
    assert decode_record(group.RECORDS, encoded_key, encoded_value) == (key, value)
    latest = encode_value(value)
    assert latest is not None
    assert latest[:2] == b"\x00\x04"
    assert decode_record(group.RECORDS, encoded_key, latest) == (key, value)


def test_a_tombstone() -> None:
    key = GroupMetadataKey(group="g")
    assert encode_value(None) is None
    assert decode_record(group.RECORDS, encode_key(key), None) == (key, None)


def test_unknown_record_types_are_passed_over() -> None:
    assert decode_record(group.RECORDS, b"\x7f\x00anything", b"at all") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\x00", b"\x00\x00"),
        (b"\x00\x02\x00\x01g", b"\x00"),
        (b"\x00\x02\x00\x01g", b"\x00\x63"),
        (b"\x00\x02\x00\x01g", b"\xff\xff"),
        (b"\x00\x02\x00\x01gx", None),
    ],
)
def test_bad_coordinator_records(key: bytes, value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        decode_record(group.RECORDS, key, value)


def test_registries() -> None:
    assert sorted(group.RECORDS) == [*range(9), *range(10, 18), *range(19, 24)]
    assert sorted(transaction.RECORDS) == [0]
    assert sorted(share.RECORDS) == [0, 1]


def test_transaction_state_in_both_versions() -> None:
    key = TransactionLogKey(transactional_id="t")
    value = TransactionLogValue(producer_id=1, producer_epoch=2, transaction_partitions=None)
    for version in (0, 1):
        assert decode_record(
            transaction.RECORDS, encode_key(key), encode_value(value, version)
        ) == (key, value)
    value.next_producer_id = 9
    assert decode_record(transaction.RECORDS, encode_key(key), encode_value(value)) == (key, value)


def test_control_records_carry_their_version() -> None:
    message = LeaderChangeMessage(
        version=1,
        leader_id=2,
        voters=[LeaderChangeVoter(voter_id=2, voter_directory_id=ID)],
        granting_voters=[],
    )
    encoded = encode_control_record(message)
    assert encoded[:2] == b"\x00\x01"
    assert decode_control_record(LeaderChangeMessage, encoded) == message
    voters = VotersRecord(voters=[raft.Voter(voter_id=1, voter_directory_id=ID)])
    assert decode_control_record(VotersRecord, encode_control_record(voters)) == voters
    with pytest.raises(DecodeError):
        decode_control_record(VotersRecord, b"\x00")
    with pytest.raises(DecodeError):
        decode_control_record(VotersRecord, b"\xff\xff\x00")
