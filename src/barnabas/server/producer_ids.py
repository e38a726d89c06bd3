"""Producer ids for this broker, taken from the controller a block at a time.

A block is the broker's own once the controller has committed it; the rest of a block is lost in a
restart, which is fine, as ids only have to be unique. The next block is asked for before the present
one runs out, and however many requests wait, one allocation is under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

PREFETCH_AT = 0.9


class ProducerIds:
    def __init__(self, allocate: Callable[[], Awaitable[tuple[int, int]]]) -> None:
        """`allocate()` gives `(first_id, count)`."""
        self._allocate = allocate
        self._next = 0
        self._end = 0
        self._spare: tuple[int, int] | None = None
        self._prefetch_at = 0
        self._allocation: asyncio.Task[None] | None = None

    def next_id(self) -> int | None:
        """An id, or None if a block has to be fetched first."""
        if self._next >= self._end:
            if self._spare is None:
                return None
            self._open(self._spare)
            self._spare = None
        producer_id = self._next
        self._next += 1
        if self._next >= self._prefetch_at and self._spare is None:
            self._start()
        return producer_id

    async def next_id_after_allocation(self) -> int:
        while True:
            producer_id = self.next_id()
            if producer_id is not None:
                return producer_id
            await asyncio.shield(self._start())

    def _open(self, block: tuple[int, int]) -> None:
        first, count = block
        self._next, self._end = first, first + count
        self._prefetch_at = first + int(count * PREFETCH_AT)

    def _start(self) -> asyncio.Task[None]:
        if self._allocation is None or self._allocation.done():
            self._allocation = asyncio.get_running_loop().create_task(self._fetch())
            self._allocation.add_done_callback(_consume_error)
        return self._allocation

    async def _fetch(self) -> None:
        block = await self._allocate()
        if self._next >= self._end:
            self._open(block)
        else:
            self._spare = block


def _consume_error(task: asyncio.Task[None]) -> None:
    """A failed prefetch is tried again by the next request that needs an id, and told there."""
    if not task.cancelled():
        task.exception()
