"""ShareGroupHeartbeat: a member of a share group joins, stays, leaves and gets its assignment."""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int16, int32, string, struct, uuid
from barnabas.wire.message import Message, Struct


class ShareGroupHeartbeatRequest(Message):
    API_KEY = ApiKey.SHARE_GROUP_HEARTBEAT
    VERSIONS = (1, 1)
    FLEXIBLE = (1, 1)

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(nullable=True, default=None)
    subscribed_topic_names: list[str] | None = array(string, nullable=True, default=None)


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ShareGroupHeartbeatResponse(Message):
    API_KEY = ApiKey.SHARE_GROUP_HEARTBEAT
    VERSIONS = (1, 1)
    FLEXIBLE = (1, 1)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    member_id: str | None = string(nullable=True, default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, nullable=True, default=None)
