"""One turn of the loop: a callback in which several connections may get something to send.

A Produce received on one connection completes Fetches of others. During a turn, what is written to
a connection is only queued; at its end each connection is flushed once, so that all responses of
one turn leave together. Outside of a turn a write is flushed at once.
"""

from collections.abc import Callable
from typing import Protocol


class Flushable(Protocol):
    def flush(self) -> None:
        """Send what is queued. Never raises."""


class Turn:
    __slots__ = ("active", "unflushed")

    def __init__(self) -> None:
        self.active = False
        self.unflushed: list[Flushable] = []

    def end(self) -> None:
        self.active = False
        if self.unflushed:
            flushing, self.unflushed = self.unflushed, []
            for connection in flushing:
                connection.flush()

    def run(self, callback: Callable[[], object]) -> None:
        """Call `callback` as a turn, or as a part of the present one."""
        if self.active:
            callback()
            return
        self.active = True
        try:
            callback()
        finally:
            self.end()
