"""What the group coordinator keeps of streams groups in `__consumer_offsets`."""

from __future__ import annotations

from barnabas.wire.fields import array, int8, int16, int32, int64, string, struct, uint16
from barnabas.wire.message import Message, Struct
from barnabas.wire.records.coordinator import Registry, registry


class StreamsGroupMetadataKey(Message):
    RECORD_TYPE = 17
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group_id: str = string()


class LastAssignmentConfig(Struct):
    key: str = string()
    value: str = string()


class StreamsGroupMetadataValue(Message):
    RECORD_TYPE = 17
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    epoch: int = int32()
    metadata_hash: int = int64()
    validated_topology_epoch: int = int32(default=-1, tag=0)
    last_assignment_configs: list[LastAssignmentConfig] | None = array(
        LastAssignmentConfig, nullable=True, default=None, tag=1
    )


class StreamsGroupMemberMetadataKey(Message):
    RECORD_TYPE = 19
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group_id: str = string()
    member_id: str = string()


class Endpoint(Struct):
    host: str = string()
    port: int = uint16()


class KeyValue(Struct):
    key: str = string()
    value: str = string()


class StreamsGroupMemberMetadataValue(Message):
    RECORD_TYPE = 19
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    instance_id: str | None = string(nullable=True)
    rack_id: str | None = string(nullable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = struct(Endpoint, nullable=True, default=None)
    client_tags: list[KeyValue] = array(KeyValue)


class StreamsGroupTargetAssignmentMetadataKey(Message):
    RECORD_TYPE = 20
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group_id: str = string()


class StreamsGroupTargetAssignmentMetadataValue(Message):
    RECORD_TYPE = 20
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)


class StreamsGroupTargetAssignmentMemberKey(Message):
    RECORD_TYPE = 21
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group_id: str = string()
    member_id: str = string()


class TaskIds(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array(int32)


class StreamsGroupTargetAssignmentMemberValue(Message):
    RECORD_TYPE = 21
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)


class StreamsGroupCurrentMemberAssignmentKey(Message):
    RECORD_TYPE = 22
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group_id: str = string()
    member_id: str = string()


class CurrentTaskIds(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable=True, default=None, tag=0)


class StreamsGroupCurrentMemberAssignmentValue(Message):
    RECORD_TYPE = 22
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: list[CurrentTaskIds] = array(CurrentTaskIds)
    standby_tasks: list[CurrentTaskIds] = array(CurrentTaskIds)
    warmup_tasks: list[CurrentTaskIds] = array(CurrentTaskIds)
    active_tasks_pending_revocation: list[CurrentTaskIds] = array(CurrentTaskIds)
    standby_tasks_pending_revocation: list[CurrentTaskIds] = array(CurrentTaskIds)
    warmup_tasks_pending_revocation: list[CurrentTaskIds] = array(CurrentTaskIds)


class StreamsGroupTopologyKey(Message):
    RECORD_TYPE = 23
    VERSIONS = (0, 0)
    FLEXIBLE = None

    group_id: str = string()


class TopicConfig(Struct):
    key: str = string()
    value: str = string()


class TopicInfo(Struct):
    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[TopicConfig] = array(TopicConfig)


class CopartitionGroup(Struct):
    source_topics: list[int] = array(int16)
    source_topic_regex: list[int] = array(int16)
    repartition_source_topics: list[int] = array(int16)


class Subtopology(Struct):
    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    source_topic_regex: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array(string)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


class StreamsGroupTopologyValue(Message):
    RECORD_TYPE = 23
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)


RECORDS: Registry = registry(
    (
        (StreamsGroupMetadataKey, StreamsGroupMetadataValue),
        (StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
        (StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
        (StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
        (StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
        (StreamsGroupTopologyKey, StreamsGroupTopologyValue),
    )
)
"""Key and value classes of streams groups by record type."""
