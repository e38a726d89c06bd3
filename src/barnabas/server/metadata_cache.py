"""What handlers ask about the cluster: the present image, and how nodes are reached.

A node's address depends on who asks. A client is told the advertised address of the listener it came
by; where none is configured for this node, the very address the client used, since that one works.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, NamedTuple

from barnabas.metadata.image import EMPTY, MetadataImage, PartitionRegistration

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext
    from barnabas.server.endpoint import Advertised


class NodeAddress(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class MetadataCache:
    def __init__(self, node_id: int, advertised: Advertised, offline: AbstractSet[object]) -> None:
        self.image: MetadataImage = EMPTY
        self._node_id = node_id
        self._advertised = advertised
        self._offline = offline
        self._alive: frozenset[int] = frozenset()

    def publish(self, image: MetadataImage) -> None:
        if image.brokers is not self.image.brokers:
            self._alive = frozenset(
                broker_id for broker_id, broker in image.brokers.items() if not broker.fenced
            )
        self.image = image

    def alive_brokers(self) -> frozenset[int]:
        return self._alive

    def controller_id(self) -> int:
        """The id clients may take for the controller's: requests to any broker reach it."""
        if self._node_id in self._alive:
            return self._node_id
        return min(self._alive, default=-1)

    def endpoint(self, node_id: int, context: RequestContext) -> NodeAddress | None:
        broker = self.image.brokers.get(node_id)
        if broker is None:
            return None
        if node_id == self._node_id:
            local = self._advertised.to_client(context.listener_name, context.local_address)
            return NodeAddress(node_id, local.host, local.port, broker.rack, broker.fenced)
        listener = broker.listener(context.listener_name)
        if listener is None:
            return None
        return NodeAddress(node_id, listener.host, listener.port, broker.rack, broker.fenced)

    def endpoints(self, context: RequestContext, *, fenced: bool = False) -> list[NodeAddress]:
        found = (self.endpoint(node_id, context) for node_id in sorted(self.image.brokers))
        return [each for each in found if each is not None and (fenced or not each.is_fenced)]

    def offline_replicas(
        self, topic: str, index: int, partition: PartitionRegistration
    ) -> list[int]:
        offline = [each for each in partition.replicas if each not in self._alive]
        if (topic, index) in self._offline and self._node_id not in offline:
            offline.append(self._node_id)
        return offline
