"""What members of a consumer group tell each other through the coordinator: subscription, assignment.

Both are a version (int16) followed by a message of that version; a reader takes the fields it knows of
a newer version, as Kafka prescribes, because new fields are only ever added at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.client.core.metadata import TopicPartition
from barnabas.wire import codec
from barnabas.wire.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from barnabas.wire.messages.consumer_protocol_assignment import (
    TopicPartition as AssignedTopic,
)
from barnabas.wire.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from barnabas.wire.messages.consumer_protocol_subscription import (
    TopicPartition as OwnedTopic,
)

SUBSCRIPTION_VERSION = 3
ASSIGNMENT_VERSION = 3


def encode_subscription(
    topics: Iterable[str],
    *,
    owned: Mapping[str, Iterable[int]] | None = None,
    generation_id: int = -1,
    rack: str | None = None,
    user_data: bytes | None = None,
) -> bytes:
    message = ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=user_data,
        owned_partitions=[
            OwnedTopic(topic=topic, partitions=sorted(partitions))
            for topic, partitions in sorted((owned or {}).items())
        ],
        generation_id=generation_id,
        rack_id=rack or None,
    )
    body = codec.encode(message, SUBSCRIPTION_VERSION)
    return SUBSCRIPTION_VERSION.to_bytes(2, "big") + body


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    version = min(_version(data), SUBSCRIPTION_VERSION)
    read = codec.reader(ConsumerProtocolSubscription, version)
    message, _ = read(memoryview(data), 2, len(data))
    assert isinstance(message, ConsumerProtocolSubscription)
    return message


def encode_assignment(partitions: Mapping[str, Iterable[int]]) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            AssignedTopic(topic=topic, partitions=sorted(indexes))
            for topic, indexes in sorted(partitions.items())
        ]
    )
    return ASSIGNMENT_VERSION.to_bytes(2, "big") + codec.encode(message, ASSIGNMENT_VERSION)


def decode_assignment(data: bytes) -> dict[str, list[int]]:
    """Partitions by topic; empty for a member that was assigned nothing."""
    if not data:
        return {}
    version = min(_version(data), ASSIGNMENT_VERSION)
    read = codec.reader(ConsumerProtocolAssignment, version)
    message, _ = read(memoryview(data), 2, len(data))
    assert isinstance(message, ConsumerProtocolAssignment)
    return {entry.topic: list(entry.partitions) for entry in message.assigned_partitions}


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Sorted partition indexes of each topic, topics sorted too."""
    found: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        found.setdefault(topic, []).append(index)
    return found


def _version(data: bytes) -> int:
    if len(data) < 2:
        raise codec.DecodeError("a consumer protocol message without a version")
    return int.from_bytes(data[:2], "big", signed=True)
