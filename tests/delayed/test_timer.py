"""The timing wheel against the plainest model there is: a list of deadlines."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.delayed.timer import Timeout, TimingWheel


class Clock:
    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


@pytest.mark.parametrize(
    "delay_ms", [1, 2, 19, 20, 21, 63, 64, 65, 1023, 1024, 1025, 10**6, 10**12]
)
@pytest.mark.parametrize("size", [2, 16, 1024])
@pytest.mark.parametrize("start_ms", [0, 1, 1023, 987_654_321])
def test_fires_at_its_deadline_and_not_before(delay_ms: int, size: int, start_ms: int) -> None:
    clock = Clock(start_ms)
    wheel = TimingWheel(clock, size=size)
    fired: list[int] = []
    wheel.add(delay_ms, lambda: fired.append(clock.now_ms))
    while not fired:
        deadline = wheel.next_deadline_ms
        assert deadline is not None
        assert clock.now_ms < deadline <= start_ms + delay_ms
        clock.now_ms = deadline - 1
        assert wheel.advance(clock.now_ms) == 0
        clock.now_ms = deadline
        wheel.advance(deadline)
    assert fired == [start_ms + delay_ms]
    assert wheel.next_deadline_ms is None
    assert len(wheel) == 0


@pytest.mark.parametrize("delay_ms", [0, -1, -(10**9)])
def test_a_deadline_in_the_past_fires_at_the_next_tick_not_inside_add(delay_ms: int) -> None:
    clock = Clock(50)
    wheel = TimingWheel(clock)
    fired: list[int] = []
    wheel.add(delay_ms, lambda: fired.append(1))
    assert fired == []
    assert wheel.next_deadline_ms == 51
    wheel.advance(51)
    assert fired == [1]


def test_cancel_is_final_and_repeatable() -> None:
    clock = Clock()
    wheel = TimingWheel(clock)
    fired: list[str] = []
    first = wheel.add(10, lambda: fired.append("first"))
    second = wheel.add(10, lambda: fired.append("second"))
    assert len(wheel) == 2
    assert first.pending
    first.cancel()
    first.cancel()
    assert not first.pending
    assert len(wheel) == 1
    wheel.advance(10)
    second.cancel()
    assert fired == ["second"]
    assert not second.pending


def test_a_callback_can_cancel_another_of_the_same_tick() -> None:
    wheel = TimingWheel(Clock())
    fired: list[str] = []
    timers: list[Timeout] = []
    timers.append(wheel.add(5, lambda: (fired.append("a"), timers[1].cancel())))
    timers.append(wheel.add(5, lambda: fired.append("b")))
    wheel.advance(5)
    assert fired == ["a"]


def test_a_callback_that_raises_does_not_lose_the_others() -> None:
    wheel = TimingWheel(Clock())
    fired: list[str] = []

    def broken() -> None:
        raise RuntimeError("broken")

    wheel.add(5, broken)
    wheel.add(5, lambda: fired.append("b"))
    wheel.add(6, lambda: fired.append("c"))
    with pytest.raises(RuntimeError):
        wheel.advance(6)
    assert wheel.next_deadline_ms == 6
    wheel.advance(6)
    assert fired == ["b", "c"]


def test_a_callback_may_add_timers() -> None:
    clock = Clock()
    wheel = TimingWheel(clock)
    fired: list[int] = []

    def again() -> None:
        fired.append(clock.now_ms)
        if len(fired) < 4:
            wheel.add(7, again)

    wheel.add(7, again)
    for now_ms in range(40):
        clock.now_ms = now_ms
        wheel.advance(now_ms)
    assert fired == [7, 14, 21, 28]


def test_the_owner_is_told_of_an_earlier_deadline_only() -> None:
    wheel = TimingWheel(Clock())
    told: list[int] = []
    wheel.on_earlier = told.append
    wheel.add(100, lambda: None)
    wheel.add(200, lambda: None)
    wheel.add(100, lambda: None)
    wheel.add(50, lambda: None)
    assert told == [100, 50]


def test_cancelled_timers_leave_no_memory_behind() -> None:
    clock = Clock()
    wheel = TimingWheel(clock)
    for step in range(20_000):
        clock.now_ms = step // 10
        wheel.add(500, lambda: None).cancel()
    assert len(wheel) == 0
    assert len(wheel._starts) <= 1025
    assert wheel.next_deadline_ms is None
    assert wheel._starts == []


@pytest.mark.parametrize("size", [0, 1, 3, 1000])
def test_the_size_is_a_power_of_two(size: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        TimingWheel(Clock(), size=size)


Step = tuple[str, int]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(-5, 5000)),
        st.tuples(st.just("add"), st.integers(-5, 40)),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("advance"), st.integers(0, 300)),
        st.tuples(st.just("wait"), st.integers(0, 300)),
        st.tuples(st.just("advance"), st.integers(0, 9000)),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(steps=STEPS, size=st.sampled_from([2, 4, 32, 1024]), start_ms=st.integers(0, 5000))
def test_against_a_model(steps: list[Step], size: int, start_ms: int) -> None:
    clock = Clock(start_ms)
    wheel = TimingWheel(clock, size=size)
    fired: list[int] = []
    timers: list[Timeout] = []
    waiting: dict[int, int] = {}
    late: set[int] = set()

    for step, amount in steps:
        if step == "add":
            name = len(timers)
            timers.append(wheel.add(amount, lambda name=name: fired.append(name)))
            waiting[name] = clock.now_ms + max(amount, 1)
            if amount < 1:
                late.add(name)
        elif step == "cancel" and amount < len(timers):
            timers[amount].cancel()
            waiting.pop(amount, None)
        elif step == "wait":
            clock.now_ms += amount
        elif step == "advance":
            clock.now_ms += amount
            before = len(fired)
            wheel.advance(clock.now_ms)
            now_fired = fired[before:]
            due = {name for name, deadline in waiting.items() if deadline <= clock.now_ms}
            assert due <= set(now_fired) <= due | late
            on_time = [waiting[name] for name in now_fired if name not in late]
            assert on_time == sorted(on_time)
            for name in now_fired:
                del waiting[name]
        assert len(wheel) == len(waiting)
        deadline = wheel.next_deadline_ms
        if waiting:
            assert deadline is not None
            assert deadline <= max(min(waiting.values()), clock.now_ms + 1)
        else:
            assert deadline is None
    clock.now_ms += 20_000
    wheel.advance(clock.now_ms)
    assert len(wheel) == 0
    assert len(fired) == len(set(fired))
