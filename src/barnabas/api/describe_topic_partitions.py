"""DescribeTopicPartitions (75): topics page by page (KIP-966).

Topics are walked in the order of their names. A page ends after `response_partition_limit` partitions,
and a cursor tells where the next one starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.api import authorized_operations
from barnabas.api.metadata import is_valid_topic_name
from barnabas.api.produce import INTERNAL_TOPICS
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node
    from barnabas.metadata.image import TopicImage

KEY = ApiKey.DESCRIBE_TOPIC_PARTITIONS
VERSIONS = (0, 0)


def handle(
    node: Node, context: Context, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    image = node.metadata.image
    limit = min(
        max(request.response_partition_limit, 1), node.config.max_request_partition_size_limit
    )
    first_topic, first_partition = "", 0
    if request.cursor is not None:
        first_topic, first_partition = request.cursor.topic_name, request.cursor.partition_index
        if first_partition < 0:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Cursor partition must be valid")
    asked = {topic.name for topic in request.topics}
    names = sorted(name for name in (asked or image.topics) if name >= first_topic)
    if request.cursor is not None and asked and first_topic not in asked:
        raise ApiError(ErrorCode.INVALID_REQUEST, "The cursor's topic must be among the topics")
    response = DescribeTopicPartitionsResponse()
    left = limit
    for name in names:
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            response.topics.append(_missing(name))
            continue
        start = first_partition if name == first_topic else 0
        described = _describe(node, topic, start, left)
        response.topics.append(described)
        left -= len(described.partitions)
        following = start + len(described.partitions)
        if following < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=following)
            break
    return response


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    valid = is_valid_topic_name(name)
    return DescribeTopicPartitionsResponseTopic(
        error_code=(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION
        ),
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=authorized_operations.TOPIC,
    )


def _describe(
    node: Node, topic: TopicImage, start: int, limit: int
) -> DescribeTopicPartitionsResponseTopic:
    alive = node.metadata.alive_brokers()
    partitions = []
    for index in sorted(topic.partitions)[start : start + limit]:
        partition = topic.partitions[index]
        available = partition.leader in alive
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                error_code=0 if available else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=partition.leader if available else -1,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                eligible_leader_replicas=list(partition.elr),
                last_known_elr=list(partition.last_known_elr),
                offline_replicas=node.metadata.offline_replicas(topic.name, index, partition),
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=authorized_operations.TOPIC,
    )


def error_response(
    request: DescribeTopicPartitionsRequest, code: ErrorCode, version: int
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name)
            for topic in request.topics
        ]
    )
