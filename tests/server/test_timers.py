"""The one loop timer that drives all others; turns; receive memory."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any

import pytest

from barnabas.delayed.timer import TimingWheel
from barnabas.server.real import SystemClock
from barnabas.server.receive import (
    BUFFER_SIZE,
    SPARE_SIZE_LIMIT,
    SPARES,
    ReceiveMemory,
    is_free,
)
from barnabas.server.timers import TimerDriver
from barnabas.server.turn import Turn
from tests.server.serving import on_loop


def driven() -> tuple[TimingWheel, TimerDriver]:
    clock = SystemClock()
    wheel = TimingWheel(clock.monotonic_ms)
    return wheel, TimerDriver(wheel, asyncio.get_running_loop(), clock, Turn())


@on_loop
async def test_timers_fire_in_order_and_not_early() -> None:
    wheel, driver = driven()
    loop = asyncio.get_running_loop()
    fired: list[tuple[int, float]] = []
    begun = loop.time()
    for delay_ms in (30, 10, 20, 10, 0):
        wheel.add(delay_ms, lambda delay_ms=delay_ms: fired.append((delay_ms, loop.time())))
    while len(fired) < 5:
        await asyncio.sleep(0.005)
    assert [delay_ms for delay_ms, _ in fired] == [0, 10, 10, 20, 30]
    assert all(at - begun >= (delay_ms - 1) / 1000 for delay_ms, at in fired)
    assert driver._handle is None


@on_loop
async def test_a_timer_that_fails_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wheel, driver = driven()
    done = asyncio.Event()
    wheel.add(5, lambda: 1 // 0)
    wheel.add(5, done.set)
    async with asyncio.timeout(5):
        await done.wait()
    assert any(record.levelno == logging.ERROR for record in caplog.records)
    driver.close()


@on_loop
async def test_a_closed_driver_fires_nothing() -> None:
    wheel, driver = driven()
    fired: list[int] = []
    wheel.add(5, lambda: fired.append(1))
    driver.close()
    wheel.add(5, lambda: fired.append(2))
    await asyncio.sleep(0.02)
    assert fired == []


@on_loop
async def test_one_loop_timer_is_enough() -> None:
    wheel, driver = driven()
    loop: Any = asyncio.get_running_loop()
    for delay_ms in range(1000, 2000):
        wheel.add(delay_ms, lambda: None)
    assert sum(not handle.cancelled() for handle in loop._scheduled) == 1
    driver.close()


class Flushed:
    def __init__(self) -> None:
        self.count = 0

    def flush(self) -> None:
        self.count += 1


def test_a_turn_flushes_at_its_end_even_if_it_fails() -> None:
    turn = Turn()
    flushed = Flushed()

    def fail() -> None:
        assert turn.active
        turn.unflushed.append(flushed)
        turn.run(lambda: turn.unflushed.append(flushed))
        assert flushed.count == 0
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        turn.run(fail)
    assert flushed.count == 2
    assert not turn.active
    assert turn.unflushed == []


def test_the_shared_buffer_is_only_shared_when_nobody_looks() -> None:
    memory = ReceiveMemory()
    first = memory.shared()
    assert len(first) == BUFFER_SIZE
    assert not first.readonly
    part = first[10:20]
    first.release()
    second = memory.shared()
    part[:] = b"0123456789"
    assert bytes(second[10:20]) == bytes(10)
    del part
    second.release()
    third = memory.shared()
    assert third.obj is memory._shared
    third.release()
    assert len(memory._shared) == BUFFER_SIZE


def test_a_frame_grows_towards_its_size() -> None:
    memory = ReceiveMemory()
    size = 3_000_001
    frame = memory.frame(size)
    lengths = [len(frame)]
    while len(frame) < size:
        memory.grow(frame, size)
        lengths.append(len(frame))
    assert lengths[0] == BUFFER_SIZE
    assert lengths[-1] == size
    assert all(later <= 2 * earlier for earlier, later in itertools.pairwise(lengths))


def test_spare_memory_is_bounded() -> None:
    memory = ReceiveMemory()
    for length in (100, BUFFER_SIZE, SPARE_SIZE_LIMIT + 1):
        memory.give_back(bytearray(length))
    assert memory._spares == []
    for index in range(SPARES + 3):
        memory.give_back(bytearray(BUFFER_SIZE + 1 + index))
    assert sorted(map(len, memory._spares)) == [BUFFER_SIZE + 4 + index for index in range(SPARES)]
    looked_at = bytearray(SPARE_SIZE_LIMIT)
    view = memoryview(looked_at)
    assert not is_free(looked_at)
    memory.give_back(looked_at)
    assert not any(spare is looked_at for spare in memory._spares)
    view.release()
    assert is_free(looked_at)
    assert len(memory.frame(BUFFER_SIZE + 5)) >= BUFFER_SIZE + 5
    assert len(memory._spares) == SPARES - 1
