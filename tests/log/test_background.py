"""Many works at a start: one by one while they are short, in threads when they make us wait."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from barnabas.log import disk
from barnabas.log.disk import LONG_WORK_S, WORKS_TO_JUDGE, ThreadBackground


class Clocks:
    """Each work takes `wall_s`, of which the processor was used for `cpu_s`."""

    def __init__(self, wall_s: float, cpu_s: float) -> None:
        self.wall_s, self.cpu_s = wall_s, cpu_s
        self.works = 0

    def monotonic(self) -> float:
        return self.works * self.wall_s

    def thread_time(self) -> float:
        return self.works * self.cpu_s


@pytest.mark.parametrize(
    ("wall_s", "cpu_s", "alone"),
    [
        (0.001, 0.001, 30),
        (0.001, 0.0001, WORKS_TO_JUDGE),
        (2 * LONG_WORK_S, 2 * LONG_WORK_S, 1),
    ],
    ids=["short", "waiting", "long"],
)
def test_works_go_to_threads_when_that_helps(
    wall_s: float, cpu_s: float, alone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = Clocks(wall_s, cpu_s)
    monkeypatch.setattr(disk, "time", clocks)
    ran: list[tuple[int, bool]] = []

    def work(number: int) -> None:
        clocks.works += 1
        ran.append((number, threading.current_thread() is threading.main_thread()))

    with ThreadPoolExecutor(2) as executor:
        background = ThreadBackground(executor, lambda callback: callback())
        background.run_all([lambda number=number: work(number) for number in range(30)])  # type: ignore[misc]
    assert sorted(number for number, _ in ran) == list(range(30))
    assert [number for number, here in ran if here] == list(range(alone))
