"""Small decisions of the clients without I/O."""

from __future__ import annotations

from barnabas.client.core.backoff import Backoff


def test_backoff_doubles_within_bounds() -> None:
    backoff = Backoff(100, 1000, lambda: 0.5)
    assert [backoff.next_ms() for _ in range(6)] == [100, 200, 400, 800, 1000, 1000]
    backoff.reset()
    assert backoff.next_ms() == 100
