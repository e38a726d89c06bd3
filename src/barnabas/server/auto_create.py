"""Topics that are created because somebody asked for them.

However many requests ask for the same topic at once, it is created once. When the controller has
created it, the answer waits until this broker knows it too, so that the client that asked need not
ask again.
"""

from __future__ import annotations

import asyncio
import logging
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


class TopicCreation:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._creating: dict[str, asyncio.Future[ErrorCode]] = {}

    def create(self, name: str) -> asyncio.Future[ErrorCode]:
        """One creation a name, however many requests ask for it at once."""
        future = self._creating.get(name)
        if future is None:
            future = self._node.world.loop.create_task(self._create(name))
            self._creating[name] = future
            future.add_done_callback(lambda _: self._creating.pop(name, None))
        return future

    async def _create(self, name: str) -> ErrorCode:
        node = self._node
        topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
        if name == OFFSETS_TOPIC:
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
        request = CreateTopicsRequest(topics=[topic], timeout_ms=CREATION_TIMEOUT_MS)
        try:
            response = await node.controller.create_topics(request)
        except ApiError as error:
            return error.code
        code = ErrorCode.of(response.topics[0].error_code)
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            logger.info(
                "topic %s was not created on demand: %s", name, response.topics[0].error_message
            )
            return code
        await node.until_known(lambda image: name in image.topics, KNOWN_TIMEOUT_MS)
        return ErrorCode.NONE
