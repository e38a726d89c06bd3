"""Virtual time: order, tasks, wrong clocks, and the death of a process."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.sim.scheduler import NoProgress
from tests.sim.world import SECOND_NS, World


def test_what_is_due_runs_in_order_and_the_clock_stands_at_its_time() -> None:
    world = World()
    loop = world.loop("one")
    seen: list[tuple[str, float]] = []
    for name, delay in (("late", 2.0), ("early", 0.5), ("second", 0.5)):
        loop.call_later(delay, lambda name=name: seen.append((name, loop.time())))
    loop.call_soon(lambda: seen.append(("now", loop.time())))
    loop.call_later(1.0, lambda: seen.append(("cancelled", loop.time()))).cancel()
    world.go_on(3)
    assert seen == [("now", 0.0), ("early", 0.5), ("second", 0.5), ("late", 2.0)]
    assert world.scheduler.now_ns == 3 * SECOND_NS


def test_asyncio_waits_in_virtual_time() -> None:
    world = World()
    loop = world.loop("one")

    async def work() -> list[float]:
        times = []
        await asyncio.sleep(5)
        times.append(loop.time())
        try:
            async with asyncio.timeout(2):
                await asyncio.Event().wait()
        except TimeoutError:
            times.append(loop.time())
        await asyncio.wait_for(asyncio.gather(asyncio.sleep(1), asyncio.sleep(3)), 4)
        times.append(loop.time())
        return times

    assert world.run(loop, work()) == [5.0, 7.0, 10.0]


@pytest.mark.parametrize("drift_ppm", [-2_000, -1, 0, 1, 3, 2_000])
def test_a_timer_never_fires_before_its_own_clock_shows_the_time(drift_ppm: int) -> None:
    world = World()
    loop = world.loop("one", drift_ppm=drift_ppm)
    fired: list[bool] = []
    for deadline_ms in range(1, 3_000, 7):
        loop.call_at(
            deadline_ms / 1000,
            lambda due=deadline_ms: fired.append(loop.clock.monotonic_ms() == due),
        )
    world.go_on(4)
    assert len(fired) == 429
    assert all(fired)


def test_a_dead_process_does_nothing_more() -> None:
    world = World()
    loop = world.loop("one")
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(1)
            seen.append("went on")
        finally:
            seen.append("cleaned up")

    loop.create_task(work())
    loop.call_later(1, lambda: seen.append("timer"))
    world.go_on(0.5)
    loop.die()
    world.go_on(5)
    assert seen == []
    loop.bury()
    assert seen == ["cleaned up"]


def test_a_task_that_fails_and_a_callback_that_raises_are_told() -> None:
    world = World()
    loop = world.loop("one")

    async def work() -> None:
        raise ValueError("of a task")

    loop.create_task(work())
    loop.call_soon(lambda: int("of a callback"))
    world.go_on(1)
    loop.judge_tasks()
    assert len(world.failures) == 2
    assert "of a callback" in world.failures[0]
    assert "of a task" in world.failures[1]


def test_callbacks_without_end_are_noticed() -> None:
    world = World()
    loop = world.loop("one")

    def again() -> None:
        loop.call_soon(again)

    again()
    with pytest.raises(NoProgress, match="one"):
        world.go_on(1)
