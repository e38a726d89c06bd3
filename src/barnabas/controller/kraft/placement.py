"""Which brokers get a new partition.

Leaders are striped: the brokers stand in a circle, in turns of their racks, each partition is led by
the one after the leader of the partition before, and the starting point is random, so that load
spreads over brokers however small the topics are. The followers come from the next places of the
circle, but first from racks that the partition is not in yet, so that as few replicas as possible
are lost with a rack. Brokers out of service get replicas only when there are too few others, and
never the first place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.wire import uuids
from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.metadata.image import BrokerRegistration, MetadataImage
    from barnabas.seams import Randomness


def place_replicas(
    brokers: Iterable[BrokerRegistration],
    first_partition: int,
    partition_count: int,
    replication_factor: int,
    randomness: Randomness,
) -> list[list[int]]:
    """The replicas of each new partition, the first one to lead."""
    usable = [broker for broker in brokers if not _cordoned(broker)]
    if replication_factor > len(usable):
        raise _cannot(
            replication_factor,
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(usable)} broker(s) are registered or some brokers have all their log "
            "directories cordoned.",
        )
    active = _in_turns([broker for broker in usable if broker.active], randomness)
    waiting = _in_turns([broker for broker in usable if not broker.active], randomness)
    if not active:
        raise _cannot(
            replication_factor,
            "All brokers are currently fenced, or have all their log directories cordoned.",
        )
    racks = {broker.broker_id: broker.rack for broker in usable}
    placed = []
    for index in range(first_partition, first_partition + partition_count):
        lap = index // len(active)
        circle = _rotated(active, index)
        # A shift each lap, so that the same leader does not always have the same followers.
        followers = _rotated(circle[1:], lap)
        replicas = _spread([circle[0]], followers, replication_factor, racks)
        placed.append(_spread(replicas, _rotated(waiting, index), replication_factor, racks))
    return placed


def _spread(
    chosen: list[int],
    candidates: Sequence[int],
    replication_factor: int,
    racks: Mapping[int, str | None],
) -> list[int]:
    """Add candidates, always one of a rack that has the fewest of the chosen."""
    used = Counter(racks[broker_id] for broker_id in chosen)
    chosen, left = list(chosen), list(candidates)
    while left and len(chosen) < replication_factor:
        best = min(left, key=lambda broker_id: used[racks[broker_id]])
        left.remove(best)
        chosen.append(best)
        used[racks[best]] += 1
    return chosen


def _cordoned(broker: BrokerRegistration) -> bool:
    cordoned = broker.cordoned_directories
    return bool(cordoned) and set(broker.directories) <= set(cordoned or ())


def _in_turns(brokers: list[BrokerRegistration], randomness: Randomness) -> list[int]:
    """Broker ids so that neighbours are in different racks, starting anywhere."""
    racks: dict[str | None, list[int]] = {}
    for broker in sorted(brokers, key=lambda each: each.broker_id):
        racks.setdefault(broker.rack, []).append(broker.broker_id)
    groups = [racks[rack] for rack in sorted(racks, key=lambda rack: (rack is not None, rack))]
    found = []
    for turn in range(max((len(group) for group in groups), default=0)):
        found += [group[turn] for group in groups if turn < len(group)]
    return _rotated(found, randomness.randrange(len(found))) if found else []


def _rotated(values: Sequence[int], by: int) -> list[int]:
    if not values:
        return []
    at = by % len(values)
    return [*values[at:], *values[:at]]


def _cannot(replication_factor: int, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replication_factor} time(s): {reason}",
    )


def check_manual_assignment(
    image: MetadataImage, broker_ids: Sequence[int], replication_factor: int | None
) -> None:
    """Refuse replicas that a partition cannot have. The factor is that of earlier partitions."""

    def refuse(message: str) -> ApiError:
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)

    if not broker_ids:
        raise refuse("The manual partition assignment includes an empty replica list.")
    previous: int | None = None
    for broker_id in sorted(broker_ids):
        if broker_id not in image.brokers:
            raise refuse(
                f"The manual partition assignment includes broker {broker_id}, but no such broker "
                "is registered."
            )
        if broker_id == previous:
            raise refuse(
                f"The manual partition assignment includes the broker {broker_id} more than once."
            )
        previous = broker_id
    if replication_factor is not None and len(broker_ids) != replication_factor:
        raise refuse(
            f"The manual partition assignment includes a partition with {len(broker_ids)} "
            "replica(s), but this is not consistent with previous partitions, which have "
            f"{replication_factor} replica(s)."
        )


def default_directory(image: MetadataImage, broker_id: int) -> bytes:
    """Where a new replica will be: clear if the broker has one directory, else it will tell."""
    broker = image.brokers.get(broker_id)
    if broker is None or not broker.directories:
        return uuids.MIGRATING_DIRECTORY
    return broker.directories[0] if len(broker.directories) == 1 else uuids.UNASSIGNED_DIRECTORY
