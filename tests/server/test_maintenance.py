"""What a node does from time to time, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from barnabas.config.broker import BrokerConfig
from barnabas.delayed.timer import TimingWheel
from barnabas.server.maintenance import Maintenance

BACKOFF_MS = 15_000


class Logs:
    """Counts what it is asked to do; `due` logs need compaction."""

    def __init__(self) -> None:
        self.cleaner: Any = SimpleNamespace(schedule=None, on_progress=None)
        self.due = 0
        self.asked_ms: list[int] = []
        self.ms = 0
        self.retention_steps: Any = lambda now_ms: iter(())

    def clean_once(self, now_ms: int) -> bool:
        self.asked_ms.append(now_ms)
        return self.due > 0

    def finish_round(self) -> None:
        self.due -= 1
        self.cleaner.on_progress()

    def now_ms(self) -> int:
        return self.ms

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def maintained(logs: Logs, **settings: str) -> tuple[Maintenance, TimingWheel]:
    wheel = TimingWheel(lambda: logs.ms)
    node: Any = SimpleNamespace(
        config=BrokerConfig({name.replace("_", "."): value for name, value in settings.items()}),
        logs=logs,
        clock=logs,
        network=SimpleNamespace(wheel=wheel),
        replicas=SimpleNamespace(tick=lambda now_ms: None),
    )
    return Maintenance(node), wheel


def test_retention_goes_in_steps_and_rests_after_the_last() -> None:
    logs = Logs()
    steps: list[int] = []

    def retention_steps(now_ms: int) -> Iterator[int]:
        for number in range(3):
            steps.append(number)
            yield 0

    logs.retention_steps = retention_steps
    maintenance, wheel = maintained(
        logs, log_retention_check_interval_ms="1000", log_initial_task_delay_ms="10"
    )
    maintenance.start()
    seen = []
    for ms in [*range(10, 16), 1_012, 1_013]:
        logs.ms = ms
        wheel.advance(ms)
        seen.append(len(steps))
    assert seen == [1, 2, 3, 3, 3, 3, 3, 4]
    maintenance.stop()
    logs.ms = 5_000
    wheel.advance(logs.ms)
    assert len(steps) == 4


def test_the_cleaner_rests_only_when_there_is_nothing_to_clean() -> None:
    logs = Logs()
    maintenance, wheel = maintained(logs, log_cleaner_backoff_ms=str(BACKOFF_MS))

    def advance(ms: int) -> None:
        logs.ms += ms
        wheel.advance(logs.ms)

    maintenance.start()
    logs.due = 3
    advance(BACKOFF_MS)
    for _ in range(3):
        logs.finish_round()
        advance(1)
    assert logs.asked_ms == [BACKOFF_MS + step for step in range(4)]
    advance(BACKOFF_MS - 1)
    assert len(logs.asked_ms) == 4
    advance(1)
    assert len(logs.asked_ms) == 5
    maintenance.stop()
    logs.finish_round()
    advance(BACKOFF_MS)
    assert len(logs.asked_ms) == 5
