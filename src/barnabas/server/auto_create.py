"""Topics that are created because somebody asked for them.

However many requests ask for the same topic at once, it is created once, and the topics of one
request are one change of the metadata: a change costs what the whole image costs. When the
controller has created them, the answer waits until this broker knows them too, so that the client
that asked need not ask again.

At most `MAX_CREATING` are under way. What is beyond is not created now; clients are told that the
topic is unknown, and ask again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from barnabas.coordinator.group.coordinator import OFFSETS_TOPIC
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

if TYPE_CHECKING:
    from barnabas.server.node import Node

logger = logging.getLogger(__name__)

CREATION_TIMEOUT_MS: Final = 10_000
KNOWN_TIMEOUT_MS: Final = 2_000
MAX_CREATING: Final = 1_000
MAX_RECORDS_PER_REQUEST: Final = 10_000
"""The controller's own bound on what one request may make."""


class TopicCreation:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._creating: dict[str, asyncio.Future[dict[str, ErrorCode]]] = {}

    async def create(self, names: Iterable[str]) -> dict[str, ErrorCode]:
        """Create what is not being created already; gives what became of each."""
        wanted = list(dict.fromkeys(names))
        new = [name for name in wanted if name not in self._creating]
        new = new[: max(0, MAX_CREATING - len(self._creating))]
        at_once = max(1, MAX_RECORDS_PER_REQUEST // (self._node.config.num_partitions + 1))
        for start in range(0, len(new), at_once):
            self._begin(new[start : start + at_once])
        under_way = {name: self._creating.get(name) for name in wanted}
        results = {}
        for name, future in under_way.items():
            if future is None:
                results[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                results[name] = (await future)[name]
        return results

    def _begin(self, names: list[str]) -> None:
        def forget(_: object) -> None:
            for name in names:
                del self._creating[name]

        task = self._node.world.loop.create_task(self._create(names))
        self._creating.update(dict.fromkeys(names, task))
        task.add_done_callback(forget)

    async def _create(self, names: list[str]) -> dict[str, ErrorCode]:
        node = self._node
        request = CreateTopicsRequest(
            topics=[self._topic(name) for name in names], timeout_ms=CREATION_TIMEOUT_MS
        )
        try:
            response = await node.controller.create_topics(request)
        except ApiError as error:
            return dict.fromkeys(names, error.code)
        results = dict.fromkeys(names, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        there = []
        for topic in response.topics:
            code = ErrorCode.of(topic.error_code)
            if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                code = ErrorCode.NONE
                there.append(topic.name)
            else:
                logger.info(
                    "topic %s was not created on demand: %s", topic.name, topic.error_message
                )
            results[topic.name] = code
        await node.until_known(
            lambda image: all(name in image.topics for name in there), KNOWN_TIMEOUT_MS
        )
        return results

    def _topic(self, name: str) -> CreatableTopic:
        topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
        if name == OFFSETS_TOPIC:
            node = self._node
            topic.num_partitions = node.config.offsets_topic_num_partitions
            topic.replication_factor = min(
                node.config.offsets_topic_replication_factor,
                max(1, len(node.metadata.alive_brokers())),
            )
            topic.configs = [
                CreatableTopicConfig(name="cleanup.policy", value="compact"),
                CreatableTopicConfig(name="compression.type", value="producer"),
                CreatableTopicConfig(
                    name="segment.bytes", value=str(node.config.offsets_topic_segment_bytes)
                ),
            ]
        return topic
