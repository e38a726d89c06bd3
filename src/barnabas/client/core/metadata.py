"""What a client knows of the cluster: brokers, topics, leaders, as the last answers told it.

Two rules keep it from going backwards. A partition's leader is only replaced by news of the same or a
newer leader epoch (KIP-320), because brokers answer from their own, possibly old, view; and a topic
with another id is another topic, so all that was known under its name is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.wire.uuids import ZERO

if TYPE_CHECKING:
    from barnabas.wire.messages.metadata import MetadataResponse

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Broker:
    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()
    error_code: int = 0
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


@dataclass(slots=True)
class TopicInfo:
    name: str
    topic_id: bytes = ZERO
    internal: bool = False
    partitions: dict[int, PartitionInfo] = field(default_factory=dict)
    error_code: int = 0

    @property
    def replication_factor(self) -> int:
        return max((len(p.replicas) for p in self.partitions.values()), default=0)


class ClusterMetadata:
    """Mutable; owned by one client. Everything read from it may be stale, never torn."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, TopicInfo] = {}
        self.names_by_id: dict[bytes, str] = {}
        self.updated_ms = -1.0
        self.version = 0

    def update(self, response: MetadataResponse, now_ms: float, *, all_topics: bool) -> None:
        """Take an answer in. `all_topics` means topics it does not name are gone."""
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {
            broker.node_id: Broker(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in response.brokers
        }
        named: set[str] = set()
        for answer in response.topics:
            if answer.name is None:
                continue
            named.add(answer.name)
            before = self.topics.get(answer.name)
            topic = TopicInfo(
                answer.name, answer.topic_id, answer.is_internal, {}, answer.error_code
            )
            same = before is not None and before.topic_id == topic.topic_id
            for entry in answer.partitions:
                info = PartitionInfo(
                    answer.name,
                    entry.partition_index,
                    entry.leader_id,
                    entry.leader_epoch,
                    tuple(entry.replica_nodes),
                    tuple(entry.isr_nodes),
                    tuple(entry.offline_replicas),
                    entry.error_code,
                )
                if same and before is not None:
                    known = before.partitions.get(entry.partition_index)
                    if known is not None and 0 <= info.leader_epoch < known.leader_epoch:
                        info = known
                topic.partitions[entry.partition_index] = info
            self._store(topic)
        if all_topics:
            for name in [name for name in self.topics if name not in named]:
                self.forget(name)
        self.updated_ms = now_ms
        self.version += 1

    def _store(self, topic: TopicInfo) -> None:
        before = self.topics.get(topic.name)
        if before is not None and before.topic_id != topic.topic_id:
            self.names_by_id.pop(before.topic_id, None)
        self.topics[topic.name] = topic
        if topic.topic_id != ZERO:
            self.names_by_id[topic.topic_id] = topic.name

    def forget(self, name: str) -> None:
        topic = self.topics.pop(name, None)
        if topic is not None:
            self.names_by_id.pop(topic.topic_id, None)

    def learn_leader(self, topic: str, partition: int, leader: int, leader_epoch: int) -> bool:
        """Take a leader that a produce or fetch answer named (KIP-951); False if it is no news."""
        info = self.partition(topic, partition)
        if info is None or leader < 0 or leader_epoch <= info.leader_epoch:
            return False
        if leader not in self.brokers:
            return False
        self.topics[topic].partitions[partition] = PartitionInfo(
            topic, partition, leader, leader_epoch, info.replicas, info.isr, info.offline
        )
        return True

    def add_broker(self, broker: Broker) -> None:
        self.brokers[broker.node_id] = broker

    def partition(self, topic: str, partition: int) -> PartitionInfo | None:
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(partition)

    def leader(self, topic: str, partition: int) -> int:
        """The leader's node id, or -1 if none is known."""
        info = self.partition(topic, partition)
        return -1 if info is None else info.leader

    def topic_id(self, topic: str) -> bytes:
        found = self.topics.get(topic)
        return ZERO if found is None else found.topic_id

    def partitions_of(self, topics: Iterable[str]) -> Iterator[PartitionInfo]:
        for name in topics:
            found = self.topics.get(name)
            if found is not None:
                yield from (found.partitions[index] for index in sorted(found.partitions))
