"""Nothing is lost, doubled or reordered, whatever happens between a producer and its brokers."""

from __future__ import annotations

import pytest

from tests.client.producer_world import World

SEEDS = 150


@pytest.mark.parametrize("part", range(5))
def test_idempotent_producer(part: int) -> None:
    for seed in range(part * SEEDS // 5, (part + 1) * SEEDS // 5):
        world = World(seed)
        try:
            world.run_all(150)
            world.check()
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_without_idempotence_nothing_is_lost() -> None:
    for seed in range(40):
        world = World(seed, enable_idempotence=False)
        world.run_all(150)
        world.check()


def test_in_calm_everything_is_delivered_in_order() -> None:
    for seed in range(20):
        world = World(seed, faults=False, delivery_timeout_ms=100_000)
        world.run_all(200)
        world.check()
        assert all(f.batch.part_of(f.index)[0].error is None for _, _, f in world.sent)
