"""Which partitions each broker has a replica of.

A broker that comes or goes concerns its own partitions only, and a cluster may have many more. The
table is kept next to the newest image: it takes the moves that each delta reports, and is made
anew from an image when that is thrown back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.metadata.delta import MetadataDelta
    from barnabas.metadata.image import MetadataImage, PartitionRegistration, TopicImage


class ReplicaIndex:
    def __init__(self, image: MetadataImage) -> None:
        self._partitions: dict[int, dict[bytes, set[int]]] = {}
        for topic_id, topic in image.topics_by_id.items():
            for index, partition in topic.partitions.items():
                self._add(topic_id, index, partition.replicas)

    def update(self, delta: MetadataDelta) -> None:
        """Follow the image to where the delta leads."""
        for topic_id, index, before, after in delta.moved_replicas:
            for broker_id in before:
                if broker_id not in after:
                    self._remove(topic_id, index, broker_id)
            self._add(topic_id, index, after)

    def _add(self, topic_id: bytes, index: int, replicas: tuple[int, ...]) -> None:
        for broker_id in replicas:
            self._partitions.setdefault(broker_id, {}).setdefault(topic_id, set()).add(index)

    def _remove(self, topic_id: bytes, index: int, broker_id: int) -> None:
        topics = self._partitions[broker_id]
        topics[topic_id].discard(index)
        if not topics[topic_id]:
            del topics[topic_id]
            if not topics:
                del self._partitions[broker_id]

    def of_broker(
        self, image: MetadataImage, broker_id: int
    ) -> Iterator[tuple[TopicImage, int, PartitionRegistration]]:
        """The partitions of a broker in an image that the index is in step with."""
        for topic_id, indices in self._partitions.get(broker_id, {}).items():
            topic = image.topics_by_id[topic_id]
            for index in sorted(indices):
                yield topic, index, topic.partitions[index]

    def count(self, broker_id: int) -> int:
        return sum(map(len, self._partitions.get(broker_id, {}).values()))
