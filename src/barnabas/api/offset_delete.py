"""OffsetDelete (47): forget offsets of topics that nobody in the group is subscribed to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.api import DEFERRED, Answer
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.OFFSET_DELETE
VERSIONS = (0, 0)

Unknown = dict[str, list[int]]


def handle(node: Node, context: Context, request: OffsetDeleteRequest) -> Answer:
    unknown = _take_out_unknown(node, request)
    response = node.groups.delete_offsets(
        request, lambda later: context.respond(_with_unknown(later, unknown))
    )
    return DEFERRED if response is None else _with_unknown(response, unknown)


def _take_out_unknown(node: Node, request: OffsetDeleteRequest) -> Unknown:
    topics = node.metadata.image.topics
    unknown: Unknown = {}
    known: list[OffsetDeleteRequestTopic] = []
    for topic in request.topics:
        found = topics.get(topic.name)
        exist = [
            one
            for one in topic.partitions
            if found is not None and one.partition_index in found.partitions
        ]
        if len(exist) < len(topic.partitions):
            unknown[topic.name] = [
                one.partition_index for one in topic.partitions if one not in exist
            ]
        if exist:
            known.append(OffsetDeleteRequestTopic(name=topic.name, partitions=exist))
    request.topics = known
    return unknown


def _with_unknown(response: OffsetDeleteResponse, unknown: Unknown) -> OffsetDeleteResponse:
    if response.error_code != ErrorCode.NONE:
        return response
    topics = {topic.name: topic for topic in response.topics}
    for name, indexes in unknown.items():
        topic = topics.get(name)
        if topic is None:
            topic = OffsetDeleteResponseTopic(name=name)
            response.topics.append(topic)
        topic.partitions += [
            OffsetDeleteResponsePartition(
                partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            for index in indexes
        ]
    return response
