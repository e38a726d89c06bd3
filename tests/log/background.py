"""A background whose work is done when a test says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class HeldBackground:
    """Work and its end happen when the test says so, as they may with threads."""

    def __init__(self) -> None:
        self.works: list[tuple[Callable[[], Any], Callable[[Any, Any], None]]] = []

    def submit(self, work: Callable[[], Any], done: Callable[[Any, Any], None]) -> None:
        self.works.append((work, done))

    def run_all(self, works: Any) -> None:
        for work in works:
            work()

    def run(self, between: Callable[[], object] = lambda: None) -> None:
        """Do what waits; `between` happens after the work and before the loop hears of it."""
        works, self.works = self.works, []
        for work, done in works:
            result, error = None, None
            try:
                result = work()
            except OSError as failure:
                error = failure
            between()
            done(result, error)
