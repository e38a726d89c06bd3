"""Leaders and replicas spread over brokers and racks."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from barnabas.controller.kraft.placement import place_replicas
from barnabas.metadata.image import BrokerRegistration
from barnabas.wire.errors import ApiError, ErrorCode


def brokers(*racks: str | None, fenced: tuple[int, ...] = ()) -> list[BrokerRegistration]:
    return [
        BrokerRegistration(
            number,
            0,
            b"i" * 16,
            (),
            {},
            rack=rack,
            fenced=number in fenced,
            directories=(b"d" * 16,),
        )
        for number, rack in enumerate(racks, 1)
    ]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("racks", "factor"),
    [
        (("a", "b", "c"), 3),
        (("a", "a", "b", "b", "c", "c"), 3),
        (("a", "a", "a", "b"), 2),
        (("a", "a", "a", "b", "c"), 3),
        (("a", "a", "b", "b"), 4),
        ((None,) * 5, 3),
    ],
)
def test_replicas_are_in_as_many_racks_as_can_be(
    racks: tuple[str | None, ...], factor: int, seed: int
) -> None:
    cluster = brokers(*racks)
    placed = place_replicas(cluster, 0, 60, factor, random.Random(seed))
    of_broker = {each.broker_id: each.rack for each in cluster}
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert len({of_broker[each] for each in replicas}) == min(factor, len(set(racks)))
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders.values()) <= 1
    assert len(leaders) == len(racks)


@pytest.mark.parametrize("seed", range(10))
def test_brokers_out_of_service_come_last(seed: int) -> None:
    cluster = brokers("a", "b", "c", "d", fenced=(2, 3))
    for replicas in place_replicas(cluster, 0, 20, 3, random.Random(seed)):
        assert set(replicas[:2]) == {1, 4}
        assert replicas[2] in (2, 3)


def test_followers_of_one_leader_are_not_always_the_same() -> None:
    placed = place_replicas(brokers(*(None,) * 4), 0, 40, 2, random.Random(1))
    assert len(set(map(tuple, placed))) == 12


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(ApiError) as refused:
        place_replicas(brokers("a", "b"), 0, 1, 3, random.Random(1))
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
