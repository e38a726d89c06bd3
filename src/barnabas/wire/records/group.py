"""What the group coordinator keeps in `__consumer_offsets`: offsets, classic and consumer groups.

Share and streams groups have modules of their own; `RECORDS` here knows all of them, because they
share the topic and one numbering. `barnabas.wire.records.coordinator` frames keys and values.
"""

from __future__ import annotations

from barnabas.wire.fields import array, binary, int8, int32, int64, string, struct, uuid
from barnabas.wire.message import Message, Struct
from barnabas.wire.records import share_group, streams_group
from barnabas.wire.records.coordinator import Registry, registry


class LegacyOffsetCommitKey(Message):
    RECORD_TYPE = 0
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group: str = string()
    topic: str = string()
    partition: int = int32()


class LegacyOffsetCommitValue(Message):
    RECORD_TYPE = 0
    VERSIONS = (0, 0)
    FLEXIBLE = None

    offset: int = int64()
    metadata: str = string()
    commit_timestamp: int = int64()


class OffsetCommitKey(Message):
    RECORD_TYPE = 1
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(Message):
    RECORD_TYPE = 1
    VERSIONS = (0, 4)
    FLEXIBLE = (4, 4)

    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: bytes = uuid("4+", tag=0, ignorable=True)


class GroupMetadataKey(Message):
    RECORD_TYPE = 2
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group: str = string()


class MemberMetadata(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable=True, default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = binary()
    assignment: bytes = binary()


class GroupMetadataValue(Message):
    RECORD_TYPE = 2
    VERSIONS = (0, 4)
    FLEXIBLE = (4, 4)

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable=True)
    leader: str | None = string(nullable=True)
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata)


class ConsumerGroupMetadataKey(Message):
    RECORD_TYPE = 3
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group_id: str = string()


class ConsumerGroupMetadataValue(Message):
    RECORD_TYPE = 3
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    epoch: int = int32()
    metadata_hash: int = int64(tag=0)


class ConsumerGroupPartitionMetadataKey(Message):
    RECORD_TYPE = 4
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group_id: str = string()


class PartitionMetadata(Struct):
    partition: int = int32()
    racks: list[str] = array(string)


class TopicMetadata(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata)


class ConsumerGroupPartitionMetadataValue(Message):
    RECORD_TYPE = 4
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    topics: list[TopicMetadata] = array(TopicMetadata)


class ConsumerGroupMemberMetadataKey(Message):
    RECORD_TYPE = 5
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group_id: str = string()
    member_id: str = string()


class ClassicProtocol(Struct):
    name: str = string()
    metadata: bytes = binary()


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


class ConsumerGroupMemberMetadataValue(Message):
    RECORD_TYPE = 5
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    instance_id: str | None = string(nullable=True)
    rack_id: str | None = string(nullable=True)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable=True)
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable=True)
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, nullable=True, default=None, tag=0
    )


class ConsumerGroupTargetAssignmentMetadataKey(Message):
    RECORD_TYPE = 6
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group_id: str = string()


class ConsumerGroupTargetAssignmentMetadataValue(Message):
    RECORD_TYPE = 6
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)


class ConsumerGroupTargetAssignmentMemberKey(Message):
    RECORD_TYPE = 7
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group_id: str = string()
    member_id: str = string()


class TopicPartition(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupTargetAssignmentMemberValue(Message):
    RECORD_TYPE = 7
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    topic_partitions: list[TopicPartition] = array(TopicPartition)


class ConsumerGroupCurrentMemberAssignmentKey(Message):
    RECORD_TYPE = 8
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group_id: str = string()
    member_id: str = string()


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable=True, default=None, tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Message):
    RECORD_TYPE = 8
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupRegularExpressionKey(Message):
    RECORD_TYPE = 16
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group_id: str = string()
    regular_expression: str = string()


class ConsumerGroupRegularExpressionValue(Message):
    RECORD_TYPE = 16
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    topics: list[str] = array(string)
    version: int = int64()
    timestamp: int = int64()


RECORDS: Registry = registry(
    (
        (LegacyOffsetCommitKey, LegacyOffsetCommitValue),
        (OffsetCommitKey, OffsetCommitValue),
        (GroupMetadataKey, GroupMetadataValue),
        (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
        (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
        (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
        (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
        (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
        (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
        (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
    )
)
RECORDS.update(share_group.RECORDS)
RECORDS.update(streams_group.RECORDS)
"""Key and value classes of every record in the topic by record type."""
