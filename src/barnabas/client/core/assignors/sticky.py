"""Sticky: as even as possible, and of all even assignments one that moves few partitions (KIP-54).

It is an eager assignor: members own nothing while they join. What each had is therefore told in the
subscription's user data: version 0 is the previous assignment, version 1 adds the generation it is
from (KIP-341). Where two members claim one partition the later generation is right; if both are of
one generation neither is, and the partition counts as nobody's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from barnabas.client.core.assignors.assignor import Assignment, GroupTopics, MemberSubscription
from barnabas.client.core.assignors.balance import balance
from barnabas.client.core.consumer_protocol import by_topic
from barnabas.client.core.metadata import TopicPartition
from barnabas.wire import codec
from barnabas.wire.fields import array, int32, string
from barnabas.wire.message import Message, Struct

Claim = tuple[Collection[TopicPartition], int]
"""The partitions that a member says it had, and the generation it had them in (-1: not known)."""


class PreviousTopic(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class StickyUserData(Message):
    VERSIONS = (0, 1)
    FLEXIBLE = None

    previous_assignment: list[PreviousTopic] = array(PreviousTopic)
    generation: int = int32("1+", default=-1, ignorable=True)


class StickyAssignor:
    name = "sticky"
    cooperative = False

    def user_data(self, previous: Collection[TopicPartition], generation: int) -> bytes | None:
        if not previous:
            return None
        message = StickyUserData(
            previous_assignment=[
                PreviousTopic(topic=topic, partitions=indexes)
                for topic, indexes in by_topic(previous).items()
            ],
            generation=generation,
        )
        return codec.encode(message, 1)

    def assign(self, topics: GroupTopics, members: Sequence[MemberSubscription]) -> Assignment:
        return assign_sticky(topics, members, [decode_user_data(m.user_data) for m in members])


def decode_user_data(data: bytes | None) -> Claim:
    """What a member had. Bytes that are no user data of this assignor claim nothing."""
    if data:
        for version in (1, 0):
            try:
                message = codec.decode(StickyUserData, version, data)
            except codec.DecodeError:
                continue
            claimed = [
                (entry.topic, index)
                for entry in message.previous_assignment
                for index in entry.partitions
            ]
            return claimed, message.generation
    return (), -1


def assign_sticky(
    topics: GroupTopics, members: Sequence[MemberSubscription], claims: Sequence[Claim]
) -> Assignment:
    """The even assignment nearest to what `claims`, one for each member, say."""
    pairs = sorted(zip(members, claims, strict=True), key=lambda pair: pair[0].order)
    subscriptions = [member.topics for member, _ in pairs]
    counts = {topic: count for topic, count in topics.counts.items() if count > 0}
    owners = _owners(counts, subscriptions, [claim for _, claim in pairs])
    divided = balance(counts, subscriptions, owners)
    return {member.member_id: divided[i] for i, (member, _) in enumerate(pairs)}


def _owners(
    counts: dict[str, int], subscriptions: Sequence[frozenset[str]], claims: Iterable[Claim]
) -> dict[TopicPartition, int]:
    owners: dict[TopicPartition, int] = {}
    since: dict[TopicPartition, int] = {}
    for member, (claimed, generation) in enumerate(claims):
        for partition in set(claimed):
            topic, index = partition
            if topic not in subscriptions[member] or not 0 <= index < counts.get(topic, 0):
                continue
            known = since.get(partition)
            if known is None or generation > known:
                owners[partition] = member
                since[partition] = generation
            elif generation == known:
                owners.pop(partition, None)
    return owners
