"""What a member of a classic consumer group subscribes to, as it tells the group's leader.

It travels as opaque bytes in JoinGroup, with its version in front. Version 1 adds the partitions
that the member owns, for cooperative rebalancing, 2 the generation of these and 3 its rack.
"""

from __future__ import annotations

from barnabas.wire.fields import array, binary, int32, string
from barnabas.wire.message import Message, Struct


class TopicPartition(Struct):
    topic: str = string("1+")
    partitions: list[int] = array(int32, "1+")


class ConsumerProtocolSubscription(Message):
    VERSIONS = (0, 3)
    FLEXIBLE = None

    topics: list[str] = array(string)
    user_data: bytes | None = binary(nullable=True, default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable=True, default=None, ignorable=True)
