"""OffsetFetch (9): how far groups have come.

Until version 7 a request is about one group, since 8 about several; both forms are served by the
second. Since version 10 topics are named by id: unknown ids are answered here, and when all topics
are asked for, those that do not exist any more are left out.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from barnabas.api import DEFERRED, Answer
from barnabas.api.repeats import check_repeats
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node
    from barnabas.metadata.image import MetadataImage

KEY = ApiKey.OFFSET_FETCH
VERSIONS = (1, 10)

_TOP_LEVEL_ERROR_SINCE = 2
_SEVERAL_GROUPS_SINCE = 8
_TOPIC_IDS_SINCE = 10
_NO_OFFSET = -1


def handle(node: Node, context: Context, request: OffsetFetchRequest) -> Answer:
    version = context.api_version
    groups = request.groups if version >= _SEVERAL_GROUPS_SINCE else [_only_group(request)]
    fetch = _Fetch(node, context, request, groups)
    return fetch.start()


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if request.topics is None
        else [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ],
    )


class _Fetch:
    """Collects the answers for each group; usually all are there at once."""

    def __init__(
        self,
        node: Node,
        context: Context,
        request: OffsetFetchRequest,
        groups: list[OffsetFetchRequestGroup],
    ) -> None:
        self._node = node
        self._context = context
        self._request = request
        self._groups = groups
        self._answers: list[OffsetFetchResponseGroup | None] = [None] * len(groups)
        self._unknown: list[list[OffsetFetchResponseTopics]] = []
        self._missing = len(groups)
        self._is_deferred = False

    def start(self) -> Answer:
        check_repeats([group.group_id for group in self._groups])
        by_id = self._context.api_version >= _TOPIC_IDS_SINCE
        for at, group in enumerate(self._groups):
            check_repeats(
                [
                    (topic.name, topic.topic_id, index)
                    for topic in group.topics or ()
                    for index in topic.partition_indexes
                ]
            )
            unknown = _resolve(self._node.metadata.image, group) if by_id else []
            self._unknown.append(unknown)
            answer = self._node.groups.fetch_offsets(
                group,
                require_stable=self._request.require_stable,
                respond=functools.partial(self._later, at),
            )
            if answer is not None:
                self._take(at, answer)
        if self._missing:
            self._is_deferred = True
            return DEFERRED
        return self._response()

    def _later(self, at: int, answer: OffsetFetchResponseGroup) -> None:
        self._take(at, answer)
        if self._is_deferred and not self._missing:
            self._context.respond(self._response())

    def _take(self, at: int, answer: OffsetFetchResponseGroup) -> None:
        self._answers[at] = answer
        self._missing -= 1

    def _response(self) -> OffsetFetchResponse:
        version = self._context.api_version
        answers = [answer for answer in self._answers if answer is not None]
        if version >= _TOPIC_IDS_SINCE:
            for group, answer, unknown in zip(self._groups, answers, self._unknown, strict=True):
                if group.topics is None:
                    _name_by_id(self._node.metadata.image, answer)
                elif answer.error_code == ErrorCode.NONE:
                    answer.topics += unknown
        if version >= _SEVERAL_GROUPS_SINCE:
            return OffsetFetchResponse(groups=answers)
        return _of_one_group(self._request, answers[0], version)


def _resolve(
    image: MetadataImage, group: OffsetFetchRequestGroup
) -> list[OffsetFetchResponseTopics]:
    """Gives topics the name of their id; those without one are taken out, and answered."""
    if group.topics is None:
        return []
    known = []
    unknown = []
    for topic in group.topics:
        found = image.topics_by_id.get(topic.topic_id)
        if found is not None:
            topic.name = found.name
            known.append(topic)
        else:
            unknown.append(
                OffsetFetchResponseTopics(
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetFetchResponsePartitions(
                            partition_index=index,
                            committed_offset=_NO_OFFSET,
                            metadata="",
                            error_code=ErrorCode.UNKNOWN_TOPIC_ID,
                        )
                        for index in topic.partition_indexes
                    ],
                )
            )
    group.topics = known
    return unknown


def _name_by_id(image: MetadataImage, answer: OffsetFetchResponseGroup) -> None:
    kept = []
    for topic in answer.topics:
        found = image.topics.get(topic.name)
        if found is not None:
            topic.topic_id = found.topic_id
            kept.append(topic)
    answer.topics = kept


def _of_one_group(
    request: OffsetFetchRequest, answer: OffsetFetchResponseGroup, version: int
) -> OffsetFetchResponse:
    if answer.error_code != ErrorCode.NONE:
        return error_response(request, answer.error_code, version)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=one.partition_index,
                        committed_offset=one.committed_offset,
                        committed_leader_epoch=one.committed_leader_epoch,
                        metadata=one.metadata,
                        error_code=one.error_code,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in answer.topics
        ]
    )


def error_response(request: OffsetFetchRequest, code: int, version: int) -> OffsetFetchResponse:
    if version >= _SEVERAL_GROUPS_SINCE:
        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
                for group in request.groups
            ]
        )
    if version >= _TOP_LEVEL_ERROR_SINCE:
        return OffsetFetchResponse(error_code=code)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=_NO_OFFSET,
                        metadata="",
                        error_code=code,
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    )
