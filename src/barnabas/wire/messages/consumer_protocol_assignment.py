"""Which partitions a member of a classic consumer group gets, as the group's leader decided.

It travels as opaque bytes in SyncGroup, with its version in front.
"""

from __future__ import annotations

from barnabas.wire.fields import array, binary, int32, string
from barnabas.wire.message import Message, Struct


class TopicPartition(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class ConsumerProtocolAssignment(Message):
    VERSIONS = (0, 3)
    FLEXIBLE = None

    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = binary(nullable=True, default=None)
