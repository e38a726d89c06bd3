"""Metadata (3): brokers, topics, partitions and their leaders.

A topic that does not exist is created on the way if the client and `auto.create.topics.enable` both
allow it, and the answer waits for it, so that the first produce of a new topic needs one round trip.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.api import authorized_operations
from barnabas.api.produce import INTERNAL_TOPICS
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.wire.uuids import ZERO

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.api.types import Context, Node
    from barnabas.metadata.image import MetadataImage, TopicImage

KEY = ApiKey.METADATA
VERSIONS = (0, 13)

_FIRST_VERSION_WITH_TOPIC_IDS_ONLY = 12
_FIRST_VERSION_WHERE_NULL_MEANS_ALL = 1


def handle(
    node: Node, context: Context, request: MetadataRequest
) -> MetadataResponse | Awaitable[MetadataResponse]:
    missing = _to_create(node, context, request)
    if missing:
        return _create_then_answer(node, context, request, missing)
    return _answer(node, context, request, {})


def _to_create(node: Node, context: Context, request: MetadataRequest) -> list[str]:
    if not (request.allow_auto_topic_creation and node.config.auto_create_topics_enable):
        return []
    topics = node.metadata.image.topics
    return [
        asked.name
        for asked in request.topics or ()
        if asked.name is not None and asked.topic_id == ZERO and asked.name not in topics
    ]


async def _create_then_answer(
    node: Node, context: Context, request: MetadataRequest, missing: list[str]
) -> MetadataResponse:
    errors = await node.auto_create_topics(missing)
    return _answer(node, context, request, errors)


def _answer(
    node: Node, context: Context, request: MetadataRequest, errors: dict[str, ErrorCode]
) -> MetadataResponse:
    image = node.metadata.image
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=endpoint.node_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=endpoint.rack,
            )
            for endpoint in node.metadata.endpoints(context)
        ],
        cluster_id=node.cluster_id,
        controller_id=node.metadata.controller_id(),
        topics=list(_topics(node, context, request, image, errors)),
        cluster_authorized_operations=(
            authorized_operations.CLUSTER
            if request.include_cluster_authorized_operations
            else authorized_operations.NOT_ASKED
        ),
    )


def _topics(
    node: Node,
    context: Context,
    request: MetadataRequest,
    image: MetadataImage,
    errors: dict[str, ErrorCode],
) -> Iterable[MetadataResponseTopic]:
    operations = (
        authorized_operations.TOPIC
        if request.include_topic_authorized_operations
        else authorized_operations.NOT_ASKED
    )
    everything = request.topics is None or (
        not request.topics and context.api_version < _FIRST_VERSION_WHERE_NULL_MEANS_ALL
    )
    if everything:
        for topic in image.topics.values():
            yield _described(node, topic, operations)
        return
    told: set[str | bytes] = set()
    for asked in request.topics or ():
        key = asked.topic_id if asked.name is None else asked.name
        if key in told:
            continue
        told.add(key)
        if asked.name is not None:
            found = image.topics.get(asked.name)
            code = errors.get(asked.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if found is None and not is_valid_topic_name(asked.name):
                code = ErrorCode.INVALID_TOPIC_EXCEPTION
        else:
            found = image.topics_by_id.get(asked.topic_id)
            code = ErrorCode.UNKNOWN_TOPIC_ID
        if found is not None:
            yield _described(node, found, operations)
        else:
            name: str | None = asked.name
            if name is None and context.api_version < _FIRST_VERSION_WITH_TOPIC_IDS_ONLY:
                name = ""
            yield MetadataResponseTopic(
                error_code=code,
                name=name,
                topic_id=asked.topic_id,
                is_internal=name in INTERNAL_TOPICS,
            )


def _described(node: Node, topic: TopicImage, operations: int) -> MetadataResponseTopic:
    alive = node.metadata.alive_brokers()
    partitions = []
    for index, partition in topic.partitions.items():
        available = partition.leader in alive
        partitions.append(
            MetadataResponsePartition(
                error_code=0 if available else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=partition.leader if available else -1,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                offline_replicas=node.metadata.offline_replicas(topic.name, index, partition),
            )
        )
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=operations,
    )


def is_valid_topic_name(name: str) -> bool:
    from barnabas.controller.topic_names import topic_name_error

    return topic_name_error(name) is None


def error_response(request: MetadataRequest, code: ErrorCode, version: int) -> MetadataResponse:
    return MetadataResponse(
        error_code=code,
        topics=[
            MetadataResponseTopic(error_code=code, name=topic.name, topic_id=topic.topic_id)
            for topic in request.topics or ()
        ],
    )
