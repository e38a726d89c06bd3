"""What the group coordinator keeps of share groups in `__consumer_offsets`.

Delivery state is elsewhere: see `barnabas.wire.records.share`.
"""

from __future__ import annotations

from barnabas.wire.fields import array, int8, int32, int64, string, uuid
from barnabas.wire.message import Message, Struct
from barnabas.wire.records.coordinator import Registry, registry


class ShareGroupMemberMetadataKey(Message):
    RECORD_TYPE = 10
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group_id: str = string()
    member_id: str = string()


class ShareGroupMemberMetadataValue(Message):
    RECORD_TYPE = 10
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    rack_id: str | None = string(nullable=True)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)


class ShareGroupMetadataKey(Message):
    RECORD_TYPE = 11
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group_id: str = string()


class ShareGroupMetadataValue(Message):
    RECORD_TYPE = 11
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    epoch: int = int32()
    metadata_hash: int = int64()


class ShareGroupTargetAssignmentMetadataKey(Message):
    RECORD_TYPE = 12
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group_id: str = string()


class ShareGroupTargetAssignmentMetadataValue(Message):
    RECORD_TYPE = 12
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)


class ShareGroupTargetAssignmentMemberKey(Message):
    RECORD_TYPE = 13
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group_id: str = string()
    member_id: str = string()


class TopicPartition(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ShareGroupTargetAssignmentMemberValue(Message):
    RECORD_TYPE = 13
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    topic_partitions: list[TopicPartition] = array(TopicPartition)


class ShareGroupCurrentMemberAssignmentKey(Message):
    RECORD_TYPE = 14
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group_id: str = string()
    member_id: str = string()


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ShareGroupCurrentMemberAssignmentValue(Message):
    RECORD_TYPE = 14
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)


class ShareGroupStatePartitionMetadataKey(Message):
    RECORD_TYPE = 15
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group_id: str = string()


class TopicPartitionsInfo(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class TopicInfo(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()


class ShareGroupStatePartitionMetadataValue(Message):
    RECORD_TYPE = 15
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: list[TopicInfo] = array(TopicInfo)


RECORDS: Registry = registry(
    (
        (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
        (ShareGroupMetadataKey, ShareGroupMetadataValue),
        (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
        (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
        (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
        (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
    )
)
"""Key and value classes of share groups by record type."""
