"""OffsetCommit (8): remember how far a group has come.

Whether topics and partitions exist is checked here, the rest is the coordinator's. Since version
10 topics are named by id. Almost every request is entirely valid and goes on as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.api import DEFERRED, Answer
from barnabas.coordinator.group.coordinator import all_partitions_failed
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.OFFSET_COMMIT
VERSIONS = (2, 10)

_TOPIC_IDS_SINCE = 10

Refused = list[tuple[OffsetCommitRequestTopic, OffsetCommitRequestPartition, ErrorCode]]


def handle(node: Node, context: Context, request: OffsetCommitRequest) -> Answer:
    version = context.api_version
    refused = _take_out_unknown(node, request, version)
    if not refused:
        response = node.groups.commit_offsets(request, version, context.respond)
        return DEFERRED if response is None else response
    if not request.topics:
        return _with_refused(OffsetCommitResponse(), refused)
    response = node.groups.commit_offsets(
        request, version, lambda later: context.respond(_with_refused(later, refused))
    )
    return DEFERRED if response is None else _with_refused(response, refused)


def _take_out_unknown(node: Node, request: OffsetCommitRequest, version: int) -> Refused:
    """What does not exist is taken out of the request; topics get the name of their id."""
    image = node.metadata.image
    refused: Refused = []
    for topic in request.topics:
        if version >= _TOPIC_IDS_SINCE:
            found = image.topics_by_id.get(topic.topic_id)
            code = ErrorCode.UNKNOWN_TOPIC_ID
            if found is not None:
                topic.name = found.name
        else:
            found = image.topics.get(topic.name)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if found is None:
            refused += [(topic, one, code) for one in topic.partitions]
            topic.partitions = []
            continue
        known = found.partitions
        for one in topic.partitions:
            if one.partition_index not in known:
                refused.append((topic, one, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    if refused:
        unknown = {id(one) for _topic, one, _code in refused}
        for topic in request.topics:
            topic.partitions = [one for one in topic.partitions if id(one) not in unknown]
        request.topics = [topic for topic in request.topics if topic.partitions]
    return refused


def _with_refused(response: OffsetCommitResponse, refused: Refused) -> OffsetCommitResponse:
    topics = {(topic.name, topic.topic_id): topic for topic in response.topics}
    for topic, one, code in refused:
        key = (topic.name, topic.topic_id)
        answered = topics.get(key)
        if answered is None:
            answered = topics[key] = OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id
            )
            response.topics.append(answered)
        answered.partitions.append(
            OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
        )
    return response


def error_response(
    request: OffsetCommitRequest, code: ErrorCode, version: int
) -> OffsetCommitResponse:
    return all_partitions_failed(request, code)
