"""Logs on the disk that belong to no topic of the metadata, looked at once when a broker starts.

A log of a topic that was deleted while the broker was away is deleted. Where this node is the whole
cluster and may adopt, other logs become topics: somebody put them there. Else they are set aside.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.wire import uuids

if TYPE_CHECKING:
    from barnabas.log.log import Log
    from barnabas.server.node import Node

logger = logging.getLogger(__name__)


async def settle_strays(node: Node) -> None:
    image = node.metadata.image
    controller = node.quorum.active_controller
    may_adopt = (
        node.config.barnabas_adopt_topic_directories
        and controller is not None
        and set(image.brokers) <= {node.node_id}
    )
    for future in node.logs.futures:
        moved = image.topics_by_id.get(future.topic_id or uuids.ZERO)
        if moved is None:
            is_over = future.topic_id in node.quorum.replica.removed_topic_ids
        else:
            is_over = not _is_here(node, moved.partitions.get(future.partition))
        if is_over:
            node.logs.futures.delete(future)
    strays: dict[str, list[Log]] = {}
    for log in node.logs.find_strays(
        lambda log: _is_here(node, image.partition(log.topic, log.partition))
    ):
        if log.topic_id is not None and log.topic_id in node.quorum.replica.removed_topic_ids:
            node.logs.delete(log.topic, log.partition)
        else:
            strays.setdefault(log.topic, []).append(log)
    for topic, logs in strays.items():
        if not may_adopt or topic in image.topics:
            for log in logs:
                logger.warning("%s belongs to no topic and is set aside as stray", log.directory)
                node.logs.set_aside(log.topic, log.partition)
            continue
        topic_id = next((log.topic_id for log in logs if log.topic_id is not None), None)
        if topic_id is None or topic_id in image.topics_by_id:
            topic_id = uuids.random_uuid(node.world.randomness.randbytes)
        for log in logs:
            node.logs.give_topic_id(log, topic_id)
        epochs = {log.partition: max(log.epochs.latest, -1) for log in logs}
        assert controller is not None
        if await controller.adopt_topic(topic, topic_id, epochs):
            logger.info("adopted topic %s with %d partitions", topic, max(epochs) + 1)


def _is_here(node: Node, partition: object) -> bool:
    """Whether the metadata wants this broker to have a replica of it."""
    replicas = getattr(partition, "replicas", ())
    return node.node_id in replicas
