"""What an assignor is: a pure function from a group's subscriptions to an assignment.

The leader of a group runs the assignor that all members have in common. It sees how many partitions
each topic has, where their replicas are, and of every member what it subscribes to, where it is and
what it owns. Nothing else may influence the result, so that any member would decide the same.

A group rebalances *eagerly* or *cooperatively*. Eager members give everything up before they join, so
an assignor may hand any partition to anybody. Cooperative members keep what they have while they
join, so an assignor must not give a partition to a new owner in the rebalance in which the old one
has to give it up (KIP-429); the old owner joins again once it has, and then the partition is free.

An object of your own with these members can stand in `partition.assignment.strategy`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from barnabas.client.core.metadata import TopicPartition

Assignment = dict[str, list[TopicPartition]]
"""The partitions of every member by its id; a member that gets nothing has an empty list."""


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """A member as the leader knows it from the coordinator."""

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    rack: str | None = None
    owned: frozenset[TopicPartition] = frozenset()
    generation: int = -1
    user_data: bytes | None = None

    @property
    def order(self) -> tuple[bool, str, str]:
        """Static members first, by instance id, so that a restart does not shuffle them."""
        return (self.instance_id is None, self.instance_id or "", self.member_id)


@dataclass(frozen=True, slots=True)
class GroupTopics:
    """How many partitions the topics have that exist, and the racks of their replicas if known."""

    counts: Mapping[str, int]
    racks: Mapping[TopicPartition, frozenset[str]] = field(default_factory=dict)


@runtime_checkable
class Assignor(Protocol):
    @property
    def name(self) -> str:
        """Its name on the wire; members agree on one that all of them know."""

    @property
    def cooperative(self) -> bool:
        """Whether it may be used by members that keep their partitions while they join."""

    def user_data(self, previous: Collection[TopicPartition], generation: int) -> bytes | None:
        """What a member adds to its subscription: `previous` is what it was assigned last."""

    def assign(self, topics: GroupTopics, members: Sequence[MemberSubscription]) -> Assignment:
        """Who gets what. Every member is a key of the answer."""


def subscribers(
    topics: GroupTopics, members: Sequence[MemberSubscription]
) -> dict[str, list[MemberSubscription]]:
    """The members that want each topic that exists, topics and members in their order."""
    ordered = sorted(members, key=lambda member: member.order)
    found: dict[str, list[MemberSubscription]] = {}
    for topic in sorted(topics.counts):
        if topics.counts[topic] > 0:
            wanting = [member for member in ordered if topic in member.topics]
            if wanting:
                found[topic] = wanting
    return found
