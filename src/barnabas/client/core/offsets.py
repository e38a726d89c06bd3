"""Partitions and offsets as a caller gives them, and as a consumer gives them back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from barnabas.client.errors import OptionError


class TopicPartition(NamedTuple):
    """A partition of a topic; equal to the plain tuple."""

    topic: str
    partition: int


class GroupMetadata(NamedTuple):
    """What a member is in its group: for those who must prove it elsewhere."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None


class OffsetAndMetadata(NamedTuple):
    """`offset` is that of the next record to read; `leader_epoch` that of the record before it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


def check_offsets(offsets: Mapping[Any, Any]) -> dict[tuple[str, int], OffsetAndMetadata]:
    """What `commit` was given: an offset, (offset, metadata), or OffsetAndMetadata for each."""
    checked: dict[tuple[str, int], OffsetAndMetadata] = {}
    for place, given in offsets.items():
        partition = check_partition(place)
        wanted = OffsetAndMetadata(given) if isinstance(given, int) else OffsetAndMetadata(*given)
        check_offset(partition, wanted.offset)
        checked[partition] = wanted
    return checked


def check_partition(place: Any) -> TopicPartition:
    try:
        topic, partition = place
    except (TypeError, ValueError):
        topic, partition = None, None
    if not isinstance(topic, str) or not isinstance(partition, int) or not topic or partition < 0:
        raise OptionError(
            f"{place!r} is not a partition.",
            next_step="Give TopicPartition(topic, partition), with a partition from 0 on.",
        )
    return TopicPartition(topic, partition)


def check_offset(place: tuple[str, int], offset: Any) -> None:
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
        raise OptionError(
            f"{offset!r} is no offset for {place[0]}-{place[1]}.",
            next_step="Offsets are whole numbers from 0 on; seek_to_beginning() and seek_to_end() "
            "go to the ends.",
        )


def to_commit(
    positions: Mapping[tuple[str, int], tuple[int, int]],
) -> dict[tuple[str, int], OffsetAndMetadata]:
    """What is committed for positions (offset, leader epoch)."""
    return {p: OffsetAndMetadata(offset, "", epoch) for p, (offset, epoch) in positions.items()}
