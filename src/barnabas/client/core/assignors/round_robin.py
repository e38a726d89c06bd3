"""Round robin: all partitions of all topics, in order, dealt out to the members in turn.

A member that does not subscribe to a partition's topic is passed over and asked again for the next
partition. With equal subscriptions counts differ by one at most; with unequal ones the deal may be
far from even, and `sticky` is the better choice.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from barnabas.client.core.assignors.assignor import (
    Assignment,
    GroupTopics,
    MemberSubscription,
    subscribers,
)
from barnabas.client.core.metadata import TopicPartition


class RoundRobinAssignor:
    name = "roundrobin"
    cooperative = False

    def user_data(self, previous: Collection[TopicPartition], generation: int) -> bytes | None:
        return None

    def assign(self, topics: GroupTopics, members: Sequence[MemberSubscription]) -> Assignment:
        given: Assignment = {member.member_id: [] for member in members}
        ordered = sorted(members, key=lambda member: member.order)
        turn = 0
        for topic in subscribers(topics, members):
            for index in range(topics.counts[topic]):
                while topic not in ordered[turn].topics:
                    turn = (turn + 1) % len(ordered)
                given[ordered[turn].member_id].append((topic, index))
                turn = (turn + 1) % len(ordered)
        return given
