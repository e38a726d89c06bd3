"""How a node gets its controller: format if allowed, replay, register, adopt, unfence."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.config.listeners import SECURITY_PROTOCOLS
from barnabas.controller.format import format_storage, random_cluster_id, storage_info
from barnabas.controller.kraft.controller import KraftController
from barnabas.metadata.image import Listener
from barnabas.wire import uuids

if TYPE_CHECKING:
    from barnabas.log.log import Log
    from barnabas.server.node import Node

logger = logging.getLogger(__name__)

FALLBACK_HOST = "localhost"


async def start_controller(node: Node) -> None:
    world, config = node.world, node.config
    controller = KraftController(
        config,
        world.disk,
        background=world.background,
        clock=world.clock,
        randomness=world.randomness,
        new_promise=world.loop.create_future,
        publish=node.publish,
        failed=node.metadata_failed,
    )
    node.attach_controller(controller)
    await controller.start()
    node.cluster_id = controller.cluster_id
    await controller.register_this_broker(_listeners(node))
    await _settle_strays(node, controller)
    await controller.unfence()


def format_if_empty(node: Node) -> None:
    """Give unformatted directories an identity: the cluster's, or that of a new cluster."""
    world, config = node.world, node.config
    known = [each.meta.cluster_id for each in storage_info(world.disk, config) if each.meta]
    done = format_storage(
        world.disk,
        config,
        cluster_id=known[0] if known else random_cluster_id(world.randomness),
        randomness=world.randomness,
        now_ms=world.clock.now_ms(),
        ignore_formatted=True,
    )
    for directory in done.directories:
        logger.info("formatted %s: cluster id %s", directory, done.cluster_id)


def _listeners(node: Node) -> list[Listener]:
    protocols = node.config.listener_security_protocol_map
    told = []
    for listener in node.network.listeners:
        endpoint = node.advertised.to_cluster(listener.bound, FALLBACK_HOST)
        protocol = SECURITY_PROTOCOLS[protocols.get(listener.name, "PLAINTEXT")]
        told.append(Listener(listener.name, endpoint.host, endpoint.port, protocol))
    return told


async def _settle_strays(node: Node, controller: KraftController) -> None:
    """Logs that belong to no topic: of a topic that was deleted, or put there by somebody."""
    image = node.metadata.image
    strays: dict[str, list[Log]] = {}
    for log in node.logs.find_strays(
        lambda log: image.partition(log.topic, log.partition) is not None
    ):
        if log.topic_id is not None and log.topic_id in controller.removed_topic_ids:
            node.logs.delete(log.topic, log.partition)
        else:
            strays.setdefault(log.topic, []).append(log)
    for topic, logs in strays.items():
        if not node.config.barnabas_adopt_topic_directories or topic in image.topics:
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
        if await controller.adopt_topic(topic, topic_id, epochs):
            logger.info("adopted topic %s with %d partitions", topic, max(epochs) + 1)
