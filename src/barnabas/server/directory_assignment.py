"""Tells the controller in which log directory each replica is (KIP-858).

The controller must know it to give leaderships away when one directory of several fails. It assigns
the directory itself where a broker has only one. With several, the broker chooses, and says so here
whenever the metadata has something else: after a replica was created or found elsewhere, before one is
moved, and after a move that did not come to its end. One request is under way at a time; what it did not
settle is told again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)

if TYPE_CHECKING:
    import asyncio

    from barnabas.delayed.timer import Timeout
    from barnabas.metadata.image import TopicImage
    from barnabas.replica.partition import Partition
    from barnabas.server.node import Node

logger = logging.getLogger(__name__)

RETRY_MS: Final = 500
MAX_PER_REQUEST: Final = 2_250


class DirectoryAssignment:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._wanted: set[tuple[bytes, int]] = set()
        self._timer: Timeout | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def check(self, topic: TopicImage) -> None:
        """A topic has changed: see whether the metadata knows where its replicas are."""
        if len(self._node.config.log_dirs) < 2:
            return
        for index in topic.partitions:
            self._check(topic, index)

    def check_partition(self, partition: Partition) -> None:
        """A replica is, or will be, in another directory."""
        topic = self._node.metadata.image.topics_by_id.get(partition.topic_id)
        if topic is not None:
            self._check(topic, partition.index)

    def _check(self, topic: TopicImage, index: int) -> None:
        if self._misplaced(topic, index) is None:
            return
        self._wanted.add((topic.topic_id, index))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._soon(0)

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _misplaced(self, topic: TopicImage, index: int) -> bytes | None:
        """The directory that a replica should be known to be in, if the metadata says another."""
        node = self._node
        found = node.replicas.find(topic.name, index)
        registration = topic.partitions.get(index)
        if found is None or registration is None:
            return None
        wanted = node.replicas.directory_of(found)
        if wanted is None or registration.directory(node.node_id) in (None, wanted):
            return None
        return wanted

    def _soon(self, delay_ms: int) -> None:
        if self._timer is None and self._task is None and not self._closed:
            self._timer = self._node.network.wheel.add(delay_ms, self._send)

    def _send(self) -> None:
        self._timer = None
        image = self._node.metadata.image
        directories: dict[bytes, dict[bytes, AssignReplicasToDirsRequestTopicData]] = {}
        for count, (topic_id, index) in enumerate(sorted(self._wanted)):
            topic = image.topics_by_id.get(topic_id)
            directory = None if topic is None else self._misplaced(topic, index)
            if directory is None:
                self._wanted.discard((topic_id, index))
            elif count < MAX_PER_REQUEST:
                data = directories.setdefault(directory, {}).setdefault(
                    topic_id,
                    AssignReplicasToDirsRequestTopicData(topic_id=topic_id, partitions=[]),
                )
                data.partitions.append(
                    AssignReplicasToDirsRequestPartitionData(partition_index=index)
                )
        if directories:
            request = AssignReplicasToDirsRequest(
                broker_id=self._node.node_id,
                broker_epoch=self._node.broker_lifecycle.broker_epoch,
                directories=[
                    AssignReplicasToDirsRequestDirectoryData(
                        id=directory, topics=list(topics.values())
                    )
                    for directory, topics in directories.items()
                ],
            )
            self._task = self._node.world.loop.create_task(self._ask(request))

    async def _ask(self, request: AssignReplicasToDirsRequest) -> None:
        try:
            response = await self._node.controller_channel.assign_replicas_to_dirs(request)
            code = ErrorCode.of(response.error_code)
        except ApiError as error:
            code = error.code
        if code is not ErrorCode.NONE:
            logger.info("the directories of replicas are told again: %s", code.name)
        self._task = None
        # The metadata tells what was settled; the rest is told again.
        self._soon(RETRY_MS)
