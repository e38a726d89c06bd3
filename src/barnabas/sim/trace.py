"""What a simulation did: a digest of everything, and lines for people when they ask for them.

The digest covers each delivered byte with its time and place, so two runs with equal digests did the
same thing. Lines are made only when somebody reads them; they change nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from barnabas.sim.scheduler import Scheduler


class Trace:
    def __init__(self, scheduler: Scheduler, write: Callable[[str], object] | None = None) -> None:
        self._scheduler = scheduler
        self._write = write
        self._digest = 0
        self.verbose = write is not None

    @property
    def digest(self) -> str:
        return f"{self._digest:08x}-{self._scheduler.events}"

    def note(self, place: str, what: str) -> None:
        """Something that everybody should know of: a fault, an end, a client's finding."""
        now_ns = self._scheduler.now_ns
        self._digest = zlib.crc32(f"{now_ns} {place} {what}".encode(), self._digest)
        if self._write is not None:
            self._write(f"{now_ns / 1e9:12.6f}  {place:<10} {what}")

    def bytes(self, place: str, data: bytes) -> None:
        """Bytes that arrived."""
        now = self._scheduler.now_ns.to_bytes(8, "big")
        self._digest = zlib.crc32(data, zlib.crc32(now + place.encode(), self._digest))

    def line(self, place: str, what: str) -> None:
        """For people only; ask `verbose` before making the text."""
        if self._write is not None:
            self._write(f"{self._scheduler.now_ns / 1e9:12.6f}  {place:<10} {what}")
