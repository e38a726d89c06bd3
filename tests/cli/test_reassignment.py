"""Plans: how they are read, and what is proposed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.exits import CommandError
from barnabas.cli.reassign import parse_rate
from barnabas.cli.reassignment import (
    Target,
    drained,
    propose,
    read_plan,
    throttled_replicas,
    write_plan,
)
from barnabas.client.administration.replicas import Reassignment
from barnabas.client.core.metadata import Broker


def brokers(*ids: int, racks: int = 1) -> list[Broker]:
    return [Broker(i, "h", 1, f"rack-{i % racks}" if racks > 1 else None) for i in ids]


def test_a_plan_is_read_as_it_is_written() -> None:
    plan = {("a", 0): Target((1, 2), ("any", "/d")), ("b", 1): Target((3,), ("any",))}
    assert read_plan(write_plan(plan)) == plan
    assert plan[("a", 0)].directory_moves == [(2, "/d")]


def entry(**fields: object) -> str:
    found = {"topic": "a", "partition": 0, "replicas": [1], **fields}
    return json.dumps({"version": 1, "partitions": [found]})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense", "not JSON"),
        ("[]", "version"),
        ('{"version": 2}', "version"),
        ('{"version": 1}', "partitions"),
        ('{"version": 1, "partitions": []}', "cannot be empty"),
        (entry(replicas=[1, 1]), "duplicate entries: a-0 contains multiple entries for 1"),
        (entry(log_dirs=["any", "any"]), "different from size of log dirs"),
        (entry(partition="x"), "misspells"),
    ],
)
def test_a_bad_plan_is_refused(text: str, words: str) -> None:
    with pytest.raises(CommandError, match=words):
        read_plan(text)


def test_what_may_stay_stays() -> None:
    now = {("t", i): Target(r) for i, r in enumerate([(1, 2), (2, 3), (3, 1)])}
    assert {p: set(t.replicas) for p, t in propose(now, brokers(1, 2, 3)).items()} == {
        p: set(t.replicas) for p, t in now.items()
    }


@given(
    st.integers(1, 12),
    st.integers(1, 6),
    st.integers(1, 3),
    st.data(),
)
def test_a_proposal_is_balanced_and_lawful(
    partitions: int, nodes: int, racks: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, nodes))
    pool = list(range(1, nodes + 3))
    now = {
        ("t", i): Target(tuple(data.draw(st.permutations(pool))[:factor]))
        for i in range(partitions)
    }
    chosen = brokers(*range(1, nodes + 1), racks=racks)
    plan = propose(now, chosen)
    assert set(plan) == set(now)
    count = dict.fromkeys(range(1, nodes + 1), 0)
    for target in plan.values():
        assert len(set(target.replicas)) == factor
        for broker in target.replicas:
            count[broker] += 1
        used = {chosen[b - 1].rack for b in target.replicas}
        assert len(used) == min(factor, len({b.rack for b in chosen}))
    if racks == 1:
        assert max(count.values()) - min(count.values()) <= partitions


def test_more_replicas_than_brokers() -> None:
    said = r"a-0 needs 2 brokers, .* only 1 to choose from \(1\)"
    with pytest.raises(CommandError, match=said):
        propose({("a", 0): Target((1, 2))}, brokers(1))


def test_a_drain_moves_only_what_must_move() -> None:
    now = {("t", 0): Target((1, 2)), ("t", 1): Target((2, 3)), ("t", 2): Target((3, 4))}
    assert drained(now, {1}, brokers(1, 2, 3, 4)) == {("t", 0): Target((4, 2))}
    with pytest.raises(CommandError, match="without broker 2"):
        drained(now, {2}, brokers(2, 1))


def test_who_is_throttled() -> None:
    now = {("t", 0): Target((1, 2))}
    plan = {("t", 0): Target((3, 2))}
    assert throttled_replicas(now, plan, {}) == ({"t": {"0:1", "0:2"}}, {"t": {"0:3"}})
    under_way = {("t", 0): Reassignment((4, 1, 2), (4,), (1,))}
    assert throttled_replicas({("t", 0): Target((4, 1, 2))}, plan, under_way) == (
        {"t": {"0:1", "0:2"}},
        {"t": {"0:3"}},
    )


def test_rates() -> None:
    assert [parse_rate(t) for t in ("1000", "500k", "20MB", "1 GB/s")] == [
        1000,
        500_000,
        20_000_000,
        1_000_000_000,
    ]
