"""What every assignor promises, over made-up groups, and what the sticky ones promise on top."""

from __future__ import annotations

import itertools
import random
import time
from dataclasses import replace

import pytest
from hypothesis import given as made_up
from hypothesis import settings
from hypothesis import strategies as st

from barnabas.client.core.assignors import ASSIGNORS, assignors
from barnabas.client.core.assignors.assignor import Assignor, GroupTopics, MemberSubscription
from barnabas.client.core.assignors.sticky import StickyUserData, decode_user_data
from barnabas.client.errors import OptionError
from barnabas.wire import codec
from tests.client.assignors.groups import (
    Case,
    check_whole,
    churn,
    generate,
    joined,
    kept,
    settle,
    unevenness,
)

EVERY = list(ASSIGNORS.values())
STICKY = [ASSIGNORS["sticky"], ASSIGNORS["cooperative-sticky"]]
SEEDS = st.integers(0, 2**32)


def named(assignor: Assignor) -> str:
    return assignor.name


@pytest.mark.parametrize("assignor", EVERY, ids=named)
@settings(max_examples=150, deadline=None)
@made_up(seed=SEEDS)
def test_every_partition_has_one_owner(assignor: Assignor, seed: int) -> None:
    chance = random.Random(seed)
    case = generate(chance, racks=chance.random() < 0.5)
    check_whole(case, assignor.assign(*case))
    later = churn(chance, case, assignor.assign(*case))
    check_whole(later, settle(assignor, later))


@pytest.mark.parametrize("assignor", EVERY, ids=named)
@settings(max_examples=60, deadline=None)
@made_up(seed=SEEDS)
def test_the_order_of_members_and_topics_does_not_matter(assignor: Assignor, seed: int) -> None:
    chance = random.Random(seed)
    case = generate(chance)
    topics, members = churn(chance, case, assignor.assign(*case))
    counts = list(topics.counts.items())
    chance.shuffle(counts)
    shuffled = chance.sample(members, len(members))
    again = assignor.assign(GroupTopics(dict(counts), topics.racks), shuffled)
    assert again == assignor.assign(topics, members)


@pytest.mark.parametrize("assignor", [ASSIGNORS["roundrobin"], *STICKY], ids=named)
@settings(max_examples=100, deadline=None)
@made_up(seed=SEEDS)
def test_equal_subscriptions_get_equal_shares(assignor: Assignor, seed: int) -> None:
    chance = random.Random(seed)
    case = generate(chance, equal=True)
    found = assignor.assign(*case)
    sizes = [len(partitions) for partitions in found.values()]
    assert max(sizes) - min(sizes) <= 1


@settings(max_examples=100, deadline=None)
@made_up(seed=SEEDS)
def test_range_gives_consecutive_partitions(seed: int) -> None:
    topics, members = generate(random.Random(seed))
    found = ASSIGNORS["range"].assign(topics, members)
    for topic, partitions in itertools.product(topics.counts, found.values()):
        indexes = [index for name, index in partitions if name == topic]
        assert indexes == list(range(indexes[0], indexes[0] + len(indexes))) if indexes else True


def test_range_with_racks_prefers_what_is_near() -> None:
    members = [
        MemberSubscription(f"m{rack}", frozenset({"t", "u"}), rack=rack) for rack in ("a", "b", "c")
    ]
    near = {(t, i): frozenset({"cab"[i % 3]}) for t in ("t", "u") for i in range(6)}
    found = ASSIGNORS["range"].assign(GroupTopics({"t": 6, "u": 6}, near), members)
    for member in members:
        assert {near[p] for p in found[member.member_id]} == {frozenset({member.rack})}
        assert len(found[member.member_id]) == 4


# -- sticky


def best_possible(case: Case) -> int:
    """The least unevenness there is, by trying everything. For small groups only."""
    topics, members = case
    choices = [
        [m.member_id for m in members if topic in m.topics]
        for topic, count in topics.counts.items()
        for _ in range(count)
    ]
    sizes = {tuple([0] * len(members))}
    index = {member.member_id: i for i, member in enumerate(members)}
    for options in filter(None, choices):
        sizes = {
            tuple(n + (i == index[option]) for i, n in enumerate(size))
            for size in sizes
            for option in options
        }
    return min(sum(n * n for n in size) for size in sizes)


@pytest.mark.parametrize("assignor", STICKY, ids=named)
@settings(max_examples=100, deadline=None)
@made_up(seed=SEEDS)
def test_sticky_is_as_even_as_can_be(assignor: Assignor, seed: int) -> None:
    chance = random.Random(seed)
    names = ["t", "u", "v"][: chance.randint(1, 3)]
    topics = GroupTopics({name: chance.randint(0, 4) for name in names})
    members = [
        MemberSubscription(f"m{i}", frozenset(chance.sample(names, chance.randint(0, len(names)))))
        for i in range(chance.randint(1, 4))
    ]
    case = topics, members
    assert unevenness(settle(assignor, case)) == best_possible(case)
    later = churn(chance, case, assignor.assign(*case))
    assert unevenness(settle(assignor, later)) == best_possible(later)


@pytest.mark.parametrize("assignor", STICKY, ids=named)
@settings(max_examples=100, deadline=None)
@made_up(seed=SEEDS)
def test_nothing_moves_without_a_reason(assignor: Assignor, seed: int) -> None:
    topics, members = generate(random.Random(seed))
    found = assignor.assign(topics, members)
    assert assignor.assign(topics, joined(members, found, 1)) == found


@pytest.mark.parametrize("assignor", STICKY, ids=named)
@settings(max_examples=100, deadline=None)
@made_up(seed=SEEDS)
def test_only_the_partitions_of_a_member_that_leaves_move(assignor: Assignor, seed: int) -> None:
    chance = random.Random(seed)
    topics, members = generate(chance, equal=True)
    found = assignor.assign(topics, members)
    stay = joined(members, found, 1)
    stay.remove(chance.choice(stay))
    if not stay:
        return
    after = assignor.assign(topics, stay)
    assert all(member.owned <= set(after[member.member_id]) for member in stay)


@pytest.mark.parametrize("assignor", STICKY, ids=named)
@settings(max_examples=100, deadline=None)
@made_up(seed=SEEDS)
def test_a_member_that_joins_takes_only_its_share(assignor: Assignor, seed: int) -> None:
    chance = random.Random(seed)
    topics, members = generate(chance, equal=True)
    found = assignor.assign(topics, members)
    more = [*joined(members, found, 1), MemberSubscription("new", members[0].topics)]
    after = settle(assignor, (topics, more))
    everything = sum(map(len, found.values()))
    assert everything - kept(more, after) == len(after["new"])
    assert len(after["new"]) in (everything // len(more), -(-everything // len(more)))


@settings(max_examples=200, deadline=None)
@made_up(seed=SEEDS)
def test_cooperative_never_gives_away_what_somebody_still_has(seed: int) -> None:
    """A new owner only gets what nobody else has, so no partition has two owners at any time."""
    chance = random.Random(seed)
    assignor = ASSIGNORS["cooperative-sticky"]
    case = generate(chance)
    found = assignor.assign(*case)
    for at in range(1, 5):
        topics, members = case = churn(chance, case, found, at)
        found = assignor.assign(topics, members)
        for member in members:
            others = [m.owned for m in members if m is not member]
            gained = set(found[member.member_id]) - member.owned
            assert gained.isdisjoint(frozenset().union(*others))
        # Once they have given up what they do not have any more, one rebalance is enough.
        members = joined(members, found, at)
        found = assignor.assign(topics, members)
        check_whole((topics, members), found)
        case = topics, members


def test_the_later_generation_is_right_and_equal_ones_cancel_out() -> None:
    topics = GroupTopics({"t": 4})
    mine = frozenset({("t", 0), ("t", 1)})
    old = MemberSubscription("old", frozenset({"t"}), owned=mine, generation=3)
    now = MemberSubscription("now", frozenset({"t"}), owned=mine, generation=4)
    cooperative = ASSIGNORS["cooperative-sticky"]
    found = cooperative.assign(topics, [old, now])
    assert found == {"now": [("t", 0), ("t", 1)], "old": [("t", 2), ("t", 3)]}
    both = cooperative.assign(topics, [replace(old, generation=4), now])
    check_whole((topics, [old, now]), both)


def test_sticky_user_data_of_both_versions() -> None:
    sticky = ASSIGNORS["sticky"]
    mine = [("t", 2), ("t", 0), ("a", 1)]
    data = sticky.user_data(mine, 7)
    assert data is not None
    assert decode_user_data(data) == ([("a", 1), ("t", 0), ("t", 2)], 7)
    old = codec.encode(codec.decode(StickyUserData, 1, data), 0)
    assert data == old + (7).to_bytes(4, "big")
    assert decode_user_data(old) == ([("a", 1), ("t", 0), ("t", 2)], -1)
    assert decode_user_data(b"\x00\x00") == ((), -1)
    assert decode_user_data(b"") == decode_user_data(None) == ((), -1)
    assert sticky.user_data([], 7) is None
    assert ASSIGNORS["cooperative-sticky"].user_data([], 7) == b"\x00\x00\x00\x07"


def test_a_version_1_subscription_may_tell_its_generation_in_the_user_data() -> None:
    topics = GroupTopics({"t": 2})
    owned = frozenset({("t", 0), ("t", 1)})
    cooperative = ASSIGNORS["cooperative-sticky"]
    first = MemberSubscription(
        "first", frozenset({"t"}), owned=owned, user_data=(5).to_bytes(4, "big")
    )
    second = MemberSubscription("second", frozenset({"t"}), owned=owned, generation=4)
    assert len(cooperative.assign(topics, [second, first])["first"]) == 1
    assert cooperative.assign(topics, [second, first])["second"] == [("t", 1)]


@pytest.mark.parametrize("assignor", EVERY, ids=named)
@pytest.mark.parametrize("topic_count", [10, 1_000])
def test_a_thousand_partitions_and_a_hundred_members(assignor: Assignor, topic_count: int) -> None:
    topics = GroupTopics({f"t{i}": 1_000 // topic_count for i in range(topic_count)})
    chance = random.Random(1)
    members = [
        MemberSubscription(
            f"m{i}", frozenset(chance.sample(sorted(topics.counts), topic_count // 2))
        )
        for i in range(99)
    ]
    alone = MemberSubscription("alone", frozenset(topics.counts))
    [everything] = assignor.assign(topics, [alone]).values()
    members += joined([alone], {"alone": everything}, 1)
    started = time.process_time()
    assignor.assign(topics, members)
    assert time.process_time() - started < 1.0


# -- the option


def test_strategies_by_name_by_class_and_by_object() -> None:
    class Mine:
        name = "mine"
        cooperative = False

        def user_data(self, previous: object, generation: int) -> None:
            return None

        def assign(self, topics: object, members: object) -> dict[str, list[tuple[str, int]]]:
            return {}

    mine = Mine()
    chosen = assignors(["org.apache.kafka.clients.consumer.CooperativeStickyAssignor", mine])
    assert [one.name for one in chosen] == ["cooperative-sticky", "mine"]
    assert [one.name for one in assignors("range, sticky")] == ["range", "sticky"]
    assert assignors(mine) == [mine]


@pytest.mark.parametrize("wrong", ["", "uniform", [], "range,range", [3], None])
def test_wrong_strategies_are_refused(wrong: object) -> None:
    with pytest.raises(OptionError, match=r"partition\.assignment\.strategy"):
        assignors(wrong)
