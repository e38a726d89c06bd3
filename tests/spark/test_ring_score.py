"""The score of a cluster of invitations, as a table."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.spark.jobs.ring_score import Edge, score

MINUTE = 60_000


def star(count: int, devices: int, minutes: int) -> list[Edge]:
    """One person invites `count` friends."""
    return [
        Edge(n * minutes * MINUTE, "root", f"f{n}", f"d{n % devices}", "1.1.1.1")
        for n in range(count)
    ]


def chain(count: int, devices: int, minutes: int) -> list[Edge]:
    return [
        Edge(n * minutes * MINUTE, f"c{n}", f"c{n + 1}", f"d{n % devices}", "1.1.1.1")
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("edges", "verdict"),
    [
        ([], "honest"),
        (chain(2, 1, 1), "honest"),  # a couple on one phone is no ring
        (star(10, 10, 200), "honest"),  # an office
        (star(15, 15, 2), "honest"),  # a crowd with phones of their own
        (chain(8, 1, 5), "fraud"),
        (chain(8, 3, 5), "fraud"),
        (star(8, 1, 5), "fraud"),
    ],
)
def test_verdicts(edges: list[Edge], verdict: str) -> None:
    assert score(edges).verdict == verdict


def test_what_is_measured() -> None:
    found = score([*chain(4, 2, 10), *star(2, 1, 10)])
    assert (found.invitees, found.devices, found.depth, found.burst) == (6, 2, 4, 6)


@given(
    st.lists(st.tuples(*[st.integers(0, 6)] * 5), max_size=30), st.randoms(use_true_random=False)
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_order_and_copies_do_not_matter(
    numbers: list[tuple[int, ...]], shuffler: random.Random
) -> None:
    edges = [Edge(t * 1000, f"a{i}", f"a{j}", f"d{d}", f"x{x}") for t, i, j, d, x in numbers]
    again = [*edges, *edges]
    shuffler.shuffle(again)
    found = score(edges)
    assert score(again) == found
    assert 0 <= found.score <= 1
