"""ConsumerGroupDescribe: state and members of groups of the consumer protocol.

Version 1 says of each member which protocol it uses.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, boolean, int8, int16, int32, string, struct, uuid
from barnabas.wire.message import Message, Struct


class ConsumerGroupDescribeRequest(Message):
    API_KEY = ApiKey.CONSUMER_GROUP_DESCRIBE
    VERSIONS = (0, 1)
    FLEXIBLE = (0, 1)

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class Member(Struct):
    member_id: str = string()
    instance_id: str | None = string(nullable=True, default=None)
    rack_id: str | None = string(nullable=True, default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable=True, default=None)
    assignment: Assignment = struct(Assignment)
    target_assignment: Assignment = struct(Assignment)
    member_type: int = int8("1+", default=-1, ignorable=True)


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-0x80000000)


class ConsumerGroupDescribeResponse(Message):
    API_KEY = ApiKey.CONSUMER_GROUP_DESCRIBE
    VERSIONS = (0, 1)
    FLEXIBLE = (0, 1)

    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
