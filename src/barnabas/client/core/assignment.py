"""How a group's leader divides partitions among members: range, as Kafka's default does.

For each topic, the members that want it, sorted by static instance id or member id, get consecutive
ranges; the first ones get one more when it does not divide evenly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def assign_range(
    partition_counts: Mapping[str, int],
    subscriptions: Mapping[str, Sequence[str]],
    instance_ids: Mapping[str, str | None] | None = None,
) -> dict[str, dict[str, list[int]]]:
    """Partitions by topic for every member."""
    instances = instance_ids or {}

    def order(member_id: str) -> tuple[bool, str, str]:
        instance = instances.get(member_id)
        return (instance is None, instance or "", member_id)

    given: dict[str, dict[str, list[int]]] = {member: {} for member in subscriptions}
    for topic, count in sorted(partition_counts.items()):
        members = sorted((m for m, topics in subscriptions.items() if topic in topics), key=order)
        if not members or count <= 0:
            continue
        each, more = divmod(count, len(members))
        first = 0
        for index, member in enumerate(members):
            size = each + (1 if index < more else 0)
            if size:
                given[member][topic] = list(range(first, first + size))
            first += size
    return given
