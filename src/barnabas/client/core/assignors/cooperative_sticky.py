"""Cooperative sticky: the sticky assignment, reached without taking anything from somebody (KIP-429).

Members keep their partitions while they join and say in the subscription what they own. A partition
that has to move is given to nobody in this rebalance: its owner sees that it is missing, gives it up
and joins again, and in that next rebalance it is free and goes to where it belongs. So a partition
never has two owners, and one that need not move is consumed without a pause.

What a member owns stands in the subscription from version 1 on, the generation from version 2 on;
for leaders that read version 1 only, Java's members put the generation into the user data.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from barnabas.client.core.assignors.assignor import Assignment, GroupTopics, MemberSubscription
from barnabas.client.core.assignors.sticky import Claim, assign_sticky
from barnabas.client.core.metadata import TopicPartition

GENERATION_BYTES = 4


class CooperativeStickyAssignor:
    name = "cooperative-sticky"
    cooperative = True

    def user_data(self, previous: Collection[TopicPartition], generation: int) -> bytes | None:
        return generation.to_bytes(GENERATION_BYTES, "big", signed=True)

    def assign(self, topics: GroupTopics, members: Sequence[MemberSubscription]) -> Assignment:
        wanted = assign_sticky(topics, members, [_claim(member) for member in members])
        holders: dict[TopicPartition, list[str]] = {}
        for member in members:
            for partition in member.owned:
                holders.setdefault(partition, []).append(member.member_id)
        return {
            member_id: [p for p in partitions if _free(holders.get(p), member_id)]
            for member_id, partitions in wanted.items()
        }


def _free(holders: list[str] | None, member_id: str) -> bool:
    """Whether nobody else has to give the partition up before this member may have it.

    Of several that hold it, which is a fault of theirs, one may keep it; the others give it up.
    """
    return holders is None or member_id in holders


def _claim(member: MemberSubscription) -> Claim:
    generation = member.generation
    if generation < 0 and member.user_data and len(member.user_data) == GENERATION_BYTES:
        generation = int.from_bytes(member.user_data, "big", signed=True)
    return member.owned, generation
