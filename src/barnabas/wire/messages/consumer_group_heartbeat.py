"""ConsumerGroupHeartbeat: the one request of the consumer group protocol (KIP-848).

A member joins with epoch 0, leaves with -1 (static members for a while with -2), and is told its
assignment in the response. Fields that did not change since the last heartbeat are null. Version
1 adds subscription by regular expression and member ids made by the client.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int16, int32, string, struct, uuid
from barnabas.wire.message import Message, Struct


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupHeartbeatRequest(Message):
    API_KEY = ApiKey.CONSUMER_GROUP_HEARTBEAT
    VERSIONS = (0, 1)
    FLEXIBLE = (0, 1)

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable=True, default=None)
    rack_id: str | None = string(nullable=True, default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(string, nullable=True, default=None)
    subscribed_topic_regex: str | None = string("1+", nullable=True, default=None)
    server_assignor: str | None = string(nullable=True, default=None)
    topic_partitions: list[TopicPartitions] | None = array(
        TopicPartitions, nullable=True, default=None
    )


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupHeartbeatResponse(Message):
    API_KEY = ApiKey.CONSUMER_GROUP_HEARTBEAT
    VERSIONS = (0, 1)
    FLEXIBLE = (0, 1)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    member_id: str | None = string(nullable=True, default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, nullable=True, default=None)
