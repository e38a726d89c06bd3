"""What happens to partitions when a broker leaves, comes back, or may have lost records.

Only partitions of that broker are looked at. One that leaves is taken out of the in-sync sets and
leads no more; one that comes back gets the partitions that have no leader and wait for it; one that
stopped without finishing its logs (an unclean shutdown) is neither in sync nor eligible any more,
since the end of its logs may be gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from barnabas.controller.kraft.partition_change import (
    Election,
    PartitionChange,
    has_online_directory,
)
from barnabas.metadata.image import NO_LEADER

if TYPE_CHECKING:
    from barnabas.controller.kraft.decision import View
    from barnabas.metadata.image import PartitionRegistration, TopicImage
    from barnabas.wire.records.metadata import PartitionChangeRecord

Located = tuple["TopicImage", int, "PartitionRegistration"]


def change(
    view: View,
    topic: TopicImage,
    index: int,
    partition: PartitionRegistration,
    *,
    leaving: int | None = None,
    returning: int | None = None,
    election: Election | None = None,
) -> PartitionChange:
    """A change of a partition as the cluster is now, but for a broker about to leave or return."""

    def may_lead(broker_id: int) -> bool:
        broker = view.image.brokers.get(broker_id)
        if broker is None or broker_id == leaving:
            return False
        in_service = broker.active or broker_id == returning
        return in_service and has_online_directory(broker, partition.directory(broker_id))

    if election is None:
        unclean = view.unclean_election_enabled(topic.name)
        election = Election.UNCLEAN if unclean else Election.ONLINE
    return PartitionChange(
        topic.topic_id,
        index,
        partition,
        may_lead=may_lead,
        min_isr=view.min_isr(topic.name),
        elr_enabled=view.elr_enabled,
        level=view.level,
        election=election,
    )


def broker_left(
    view: View, broker_id: int, among: Iterable[Located] | None = None
) -> Iterator[PartitionChangeRecord]:
    """The broker serves these partitions no more; by default none at all."""
    for topic, index, partition in (
        view.replicas.of_broker(view.image, broker_id) if among is None else among
    ):
        if broker_id in partition.isr or partition.leader == broker_id:
            made = change(view, topic, index, partition, leaving=broker_id)
            made.isr = [each for each in partition.isr if each != broker_id]
            record = made.build()
            if record is not None:
                yield record


def broker_lost_records(view: View, broker_id: int) -> Iterator[PartitionChangeRecord]:
    for topic, index, partition in view.replicas.of_broker(view.image, broker_id):
        if broker_id in partition.isr or broker_id in partition.elr:
            made = change(view, topic, index, partition, leaving=broker_id)
            made.isr = [each for each in partition.isr if each != broker_id]
            made.unclean_shutdown = broker_id
            record = made.build()
            if record is not None:
                yield record


def broker_returned(view: View, broker_id: int) -> Iterator[PartitionChangeRecord]:
    for topic, index, partition in view.replicas.of_broker(view.image, broker_id):
        if partition.leader == NO_LEADER:
            record = change(view, topic, index, partition, returning=broker_id).build()
            if record is not None:
                yield record


def leads_any(view: View, broker_id: int) -> bool:
    return any(
        partition.leader == broker_id
        for _topic, _index, partition in view.replicas.of_broker(view.image, broker_id)
    )
