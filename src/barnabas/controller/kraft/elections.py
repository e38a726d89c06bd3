"""Who leads a partition when brokers come and go.

A broker that leaves is taken out of the in-sync sets. Where that would leave nobody, it depends on
the feature of eligible leaders: with it, the set becomes empty and the broker is remembered as
eligible, having everything that was committed; without it, the last one stays in the set. Either
way the partition has no leader until such a broker is back.

A broker that comes back gets the partitions that wait for it, in a new leader epoch, and so do
those that it never gave up because it crashed: what its log lost by that, others can tell by the
epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.metadata.features import ELR_VERSION
from barnabas.metadata.image import NO_LEADER, MetadataImage, PartitionRegistration, ResourceType
from barnabas.wire.records.metadata import PartitionChangeRecord

if TYPE_CHECKING:
    from barnabas.config.broker import BrokerConfig


def partitions_of_returning_broker(
    image: MetadataImage, broker_id: int
) -> Iterator[PartitionChangeRecord]:
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            if broker_id not in partition.replicas:
                continue
            if partition.leader in (NO_LEADER, broker_id) and _may_lead(partition, broker_id):
                record = PartitionChangeRecord(
                    partition_id=index, topic_id=topic.topic_id, leader=broker_id
                )
                if broker_id not in partition.isr:
                    record.isr = [broker_id]
                if partition.elr:
                    record.eligible_leader_replicas = []
                if partition.last_known_elr:
                    record.last_known_elr = []
                yield record


def _may_lead(partition: PartitionRegistration, broker_id: int) -> bool:
    if partition.isr:
        return broker_id in partition.isr
    if partition.elr:
        return broker_id in partition.elr
    return partition.last_known_elr == (broker_id,)


def partitions_of_leaving_broker(
    image: MetadataImage, broker_id: int, config: BrokerConfig
) -> Iterator[PartitionChangeRecord]:
    elr_enabled = bool(image.features.finalized_levels.get(ELR_VERSION))
    for topic in image.topics.values():
        own = image.config(ResourceType.TOPIC, topic.name).get("min.insync.replicas", "")
        minimum = int(own) if own.isdecimal() else config.min_insync_replicas
        for index, partition in topic.partitions.items():
            if broker_id in partition.isr or partition.leader == broker_id:
                record = _without(image, partition, broker_id, minimum, elr_enabled)
                record.partition_id = index
                record.topic_id = topic.topic_id
                yield record


def _without(
    image: MetadataImage,
    partition: PartitionRegistration,
    broker_id: int,
    minimum: int,
    elr_enabled: bool,
) -> PartitionChangeRecord:
    record = PartitionChangeRecord()
    others = tuple(each for each in partition.isr if each != broker_id)
    if partition.leader == broker_id:
        ready = (each for each in others if (b := image.brokers.get(each)) and b.active)
        record.leader = next(ready, NO_LEADER)
    if others or elr_enabled:
        record.isr = list(others)
    if elr_enabled and len(others) < min(minimum, len(partition.replicas)):
        eligible = [*partition.elr, *(each for each in partition.isr if each not in others)]
        record.eligible_leader_replicas = sorted(set(eligible) - set(others))
        if record.leader == NO_LEADER:
            record.last_known_elr = [broker_id]
    return record
