"""What the group coordinator writes to `__consumer_offsets`, and how it looks there.

A record's key is an int16 type and a body, its value an int16 version and a body; no value is a
tombstone. Values are written in the versions that Apache Kafka 4.3 writes, so that its brokers and
tools can read this log and the other way round: offsets in version 4 (1 where an old client asked
for a retention of its own), group metadata in version 3. Every older version is read.

A `Record` here is the typed form that is decided on and replayed; bytes exist only at the border
to the log. Types of other group protocols are passed over when a log of Apache Kafka is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.codec import DecodeError
from barnabas.wire.records.coordinator import decode_record, encode_key, encode_value
from barnabas.wire.records.group import (
    RECORDS,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from barnabas.wire.uuids import ZERO

if TYPE_CHECKING:
    from barnabas.coordinator.group.classic_group import ClassicGroup

OFFSET_VALUE_VERSION = 4
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
GROUP_METADATA_VALUE_VERSION = 3
NO_EXPIRY = -1
NO_LEADER_EPOCH = -1


class CommittedOffset:
    """A committed offset of one partition. `metadata` is never None, an absent one is empty."""

    __slots__ = (
        "commit_timestamp_ms",
        "expire_timestamp_ms",
        "leader_epoch",
        "metadata",
        "offset",
        "record_offset",
        "topic_id",
    )

    def __init__(
        self,
        offset: int,
        leader_epoch: int,
        metadata: str,
        commit_timestamp_ms: int,
        *,
        expire_timestamp_ms: int = NO_EXPIRY,
        topic_id: bytes = ZERO,
    ) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp_ms = commit_timestamp_ms
        self.expire_timestamp_ms = expire_timestamp_ms
        self.topic_id = topic_id
        # Where in the log this was written, known once it is replayed.
        self.record_offset = -1

    def __repr__(self) -> str:
        return f"CommittedOffset({self.offset}, epoch {self.leader_epoch}, {self.metadata!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CommittedOffset):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]


class OffsetCommitRecord:
    """An offset was committed, or with `committed` None, forgotten."""

    __slots__ = ("committed", "group_id", "partition", "topic")

    def __init__(
        self, group_id: str, topic: str, partition: int, committed: CommittedOffset | None
    ) -> None:
        self.group_id = group_id
        self.topic = topic
        self.partition = partition
        self.committed = committed

    def __repr__(self) -> str:
        return f"offset {self.group_id}/{self.topic}-{self.partition} {self.committed!r}"

    def encode(self) -> tuple[bytes, bytes | None]:
        key = encode_key(
            OffsetCommitKey(group=self.group_id, topic=self.topic, partition=self.partition)
        )
        committed = self.committed
        if committed is None:
            return key, None
        expires = committed.expire_timestamp_ms != NO_EXPIRY
        version = OFFSET_VALUE_VERSION_WITH_EXPIRY if expires else OFFSET_VALUE_VERSION
        value = OffsetCommitValue(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            commit_timestamp=committed.commit_timestamp_ms,
            expire_timestamp=committed.expire_timestamp_ms,
            topic_id=committed.topic_id,
        )
        return key, encode_value(value, version)


class GroupMetadataRecord:
    """A generation of a group, or with `value` None, that there is no such group any more."""

    __slots__ = ("group_id", "value")

    def __init__(self, group_id: str, value: GroupMetadataValue | None) -> None:
        self.group_id = group_id
        self.value = value

    def __repr__(self) -> str:
        return f"group {self.group_id} {self.value!r}"

    def encode(self) -> tuple[bytes, bytes | None]:
        key = encode_key(GroupMetadataKey(group=self.group_id))
        return key, encode_value(self.value, GROUP_METADATA_VALUE_VERSION)


Record = OffsetCommitRecord | GroupMetadataRecord


_READ = {kind: RECORDS[kind] for kind in (0, 1, 2)}


def decode(key: bytes | None, value: bytes | None) -> Record | None:
    """A record as it was written, None for the types of other group protocols; DecodeError."""
    if key is None:
        raise DecodeError("a record without a key")
    decoded = decode_record(_READ, key, value)
    if decoded is None:
        return None
    at, body = decoded
    if isinstance(at, OffsetCommitKey | LegacyOffsetCommitKey):
        committed = None
        if isinstance(body, OffsetCommitValue):
            committed = CommittedOffset(
                body.offset,
                body.leader_epoch,
                body.metadata,
                body.commit_timestamp,
                expire_timestamp_ms=body.expire_timestamp,
                topic_id=body.topic_id,
            )
        elif isinstance(body, LegacyOffsetCommitValue):
            committed = CommittedOffset(
                body.offset, NO_LEADER_EPOCH, body.metadata, body.commit_timestamp
            )
        return OffsetCommitRecord(at.group, at.topic, at.partition, committed)
    assert isinstance(at, GroupMetadataKey)
    assert body is None or isinstance(body, GroupMetadataValue)
    return GroupMetadataRecord(at.group, body)


def new_group_record(group: ClassicGroup) -> GroupMetadataRecord:
    """That a group exists, before anyone is in it."""
    return GroupMetadataRecord(
        group.group_id,
        GroupMetadataValue(
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=group.state_timestamp_ms,
            members=[],
        ),
    )


def generation_record(group: ClassicGroup, assignments: dict[str, bytes]) -> GroupMetadataRecord:
    """The present generation, with what each member is to do."""
    protocol = group.protocol_name
    return GroupMetadataRecord(
        group.group_id,
        GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation,
            protocol=protocol,
            leader=group.leader_id,
            current_state_timestamp=group.state_timestamp_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.protocols[protocol] if protocol is not None else b"",
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in group.members.values()
            ],
        ),
    )
