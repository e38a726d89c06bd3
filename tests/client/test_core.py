"""The parts of the clients that do no I/O."""

from __future__ import annotations

from barnabas.client.core.assignment import assign_range
from barnabas.client.core.backoff import Backoff


def test_backoff_doubles_within_bounds() -> None:
    backoff = Backoff(100, 1000, lambda: 0.5)
    assert [backoff.next_ms() for _ in range(6)] == [100, 200, 400, 800, 1000, 1000]
    backoff.reset()
    assert backoff.next_ms() == 100


def test_range_assignment() -> None:
    assert assign_range({"a": 5, "b": 2}, {"m2": ["a"], "m1": ["a", "b"]}) == {
        "m1": {"a": [0, 1, 2], "b": [0, 1]},
        "m2": {"a": [3, 4]},
    }
    assert assign_range({"a": 1}, {"m2": ["a"], "m1": ["a"]}, {"m2": "static"}) == {
        "m1": {},
        "m2": {"a": [0]},
    }
    assert assign_range({}, {"m": ["gone"]}) == {"m": {}}
