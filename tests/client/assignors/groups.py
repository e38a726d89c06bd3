"""Made-up groups for the tests of assignors, and what is measured of an assignment."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from barnabas.client.core.assignors import ASSIGNORS
from barnabas.client.core.assignors.assignor import (
    Assignment,
    Assignor,
    GroupTopics,
    MemberSubscription,
)
from barnabas.client.core.metadata import TopicPartition

Case = tuple[GroupTopics, list[MemberSubscription]]
MAX_TOPICS, MAX_PARTITIONS, MAX_MEMBERS = 6, 8, 8


def generate(chance: random.Random, *, racks: bool = False, equal: bool | None = None) -> Case:
    """A group in which nobody owns anything yet."""
    names = [f"t{index}" for index in range(chance.randint(1, MAX_TOPICS))]
    same = chance.randint(1, MAX_PARTITIONS)
    counts = {
        name: same if chance.random() < 0.4 else chance.randint(0, MAX_PARTITIONS) for name in names
    }
    places = ["a", "b", "c"]
    where = {
        (name, index): frozenset(chance.sample(places, chance.randint(0 if racks else 1, 2)))
        for name in names
        for index in range(counts[name])
    }
    if equal is None:
        equal = chance.random() < 0.5
    members = []
    for number in range(chance.randint(1, MAX_MEMBERS)):
        topics = names if equal else chance.sample(names, chance.randint(0, len(names)))
        members.append(
            MemberSubscription(
                member_id=f"m{chance.randrange(10**6):06}-{number}",
                topics=frozenset(topics) | ({"not-there"} if chance.random() < 0.1 else set()),
                instance_id=f"i{number}" if chance.random() < 0.2 else None,
                rack=chance.choice([*places, "d", None]) if racks else None,
            )
        )
    return GroupTopics(counts, where if racks else {}), members


def joined(
    members: Sequence[MemberSubscription], given: Mapping[str, Sequence[TopicPartition]], at: int
) -> list[MemberSubscription]:
    """The members as they join again after generation `at`, in which they got `given`."""
    return [
        replace(
            member,
            owned=frozenset(given[member.member_id]),
            generation=at,
            user_data=ASSIGNORS["sticky"].user_data(given[member.member_id], at),
        )
        if member.member_id in given
        else member
        for member in members
    ]


def churn(chance: random.Random, case: Case, given: Assignment, at: int = 1) -> Case:
    """The same group later: members have come, gone, changed their mind, topics have grown."""
    topics, members = case
    later = [m for m in joined(members, given, at) if chance.random() > 0.2]
    if chance.random() < 0.3:
        later = [
            replace(m, topics=m.topics | {chance.choice(sorted(topics.counts))})
            if chance.random() < 0.3
            else m
            for m in later
        ]
    if chance.random() < 0.2 and later:
        # One that was away for a while and still believes what it had.
        ghost = replace(chance.choice(later), member_id=f"ghost{at}", generation=at - 1)
        user_data = ASSIGNORS["sticky"].user_data(ghost.owned, at - 1)
        later.append(replace(ghost, user_data=user_data, instance_id=None))
    for number in range(chance.randint(0 if later else 1, 2)):
        wanted = members[0].topics if members else frozenset(topics.counts)
        later.append(MemberSubscription(f"n{chance.randrange(10**6):06}-{number}", wanted))
    counts = dict(topics.counts)
    if chance.random() < 0.3:
        counts[chance.choice(sorted(counts))] += 2
    return GroupTopics(counts, topics.racks), later


def settle(assignor: Assignor, case: Case) -> Assignment:
    """The assignment when nothing changes any more: cooperative ones need a second rebalance."""
    topics, members = case
    found = assignor.assign(topics, members)
    if assignor.cooperative:
        check_single(case, found)
        found = assignor.assign(topics, joined(members, found, 2))
    return found


def wanted_partitions(case: Case) -> set[TopicPartition]:
    topics, members = case
    everything = {topic for member in members for topic in member.topics}
    return {(t, i) for t, count in topics.counts.items() if t in everything for i in range(count)}


def check_whole(case: Case, given: Assignment) -> None:
    """Every partition that somebody wants has exactly one owner, who subscribes to it."""
    check_single(case, given)
    assert {p for partitions in given.values() for p in partitions} == wanted_partitions(case)


def check_single(case: Case, given: Assignment) -> None:
    _, members = case
    assert set(given) == {member.member_id for member in members}
    handed = [p for partitions in given.values() for p in partitions]
    assert len(handed) == len(set(handed)), "a partition has two owners"
    assert set(handed) <= wanted_partitions(case)
    for member in members:
        assert {topic for topic, _ in given[member.member_id]} <= member.topics


def unevenness(given: Mapping[str, Sequence[TopicPartition]]) -> int:
    """Smaller is more even, for the same partitions and members."""
    return sum(len(partitions) ** 2 for partitions in given.values())


def kept(members: Sequence[MemberSubscription], given: Assignment) -> int:
    """How many partitions stay with the member that had them last."""
    latest = max((member.generation for member in members), default=-1)
    return sum(
        len(member.owned & set(given[member.member_id]))
        for member in members
        if member.generation == latest
    )
