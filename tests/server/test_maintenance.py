"""What a node does from time to time, in virtual time."""

from __future__ import annotations

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


def test_the_cleaner_rests_only_when_there_is_nothing_to_clean() -> None:
    logs = Logs()
    wheel = TimingWheel(lambda: logs.ms)
    node: Any = SimpleNamespace(
        config=BrokerConfig({"log.cleaner.backoff.ms": str(BACKOFF_MS)}),
        logs=logs,
        clock=logs,
        network=SimpleNamespace(wheel=wheel),
        replicas=SimpleNamespace(tick=lambda now_ms: None),
    )

    def advance(ms: int) -> None:
        logs.ms += ms
        wheel.advance(logs.ms)

    maintenance = Maintenance(node)
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
