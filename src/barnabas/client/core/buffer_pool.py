"""The memory of a producer: `buffer.memory` bytes, given out to batches, waited for in order.

A batch reserves its whole size when it is opened and gives it back when it is done. Who finds too
little waits in a line: memory that comes back goes to the first in it until that one has what it needs,
even if a later one could be served with less, so that a large record is not passed over for ever.

Buffers of the usual size are kept and used again, as memory that was just written is in the
processor's cache and new memory has to be cleared.

Invariants: what is reserved and what is available make up the total; kept buffers are no more than
what is available; nobody waits while there is enough for the first in line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Ticket:
    """A place in the line. `granted` says that the memory is reserved for it."""

    __slots__ = ("callback", "granted", "size")

    def __init__(self, size: int, callback: Callable[[], object]) -> None:
        self.size = size
        self.callback = callback
        self.granted = False


class BufferPool:
    def __init__(self, total: int, buffer_size: int) -> None:
        self.total = total
        self.buffer_size = buffer_size
        self.available = total
        self._free: list[bytearray] = []
        self._line: deque[Ticket] = deque()

    @property
    def waiting(self) -> int:
        return len(self._line)

    def reserve(self, size: int) -> bool:
        """Take `size` bytes if they are there and nobody waits for them."""
        assert size <= self.total, "a record over buffer.memory is refused before"
        if self._line or size > self.available:
            return False
        self.available -= size
        if size != self.buffer_size:
            self._trim()
        return True

    def wait(self, size: int, callback: Callable[[], object]) -> Ticket:
        """Stand in line; `callback` is called once when the memory is reserved."""
        ticket = Ticket(size, callback)
        self._line.append(ticket)
        self._serve()
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Leave the line, giving back what was granted."""
        if ticket.granted:
            self.give_back(ticket.size)
        elif ticket in self._line:
            self._line.remove(ticket)
            self._serve()

    def buffer(self, size: int) -> bytearray | None:
        """Memory to use again, if there is some of that size."""
        return self._free.pop() if size == self.buffer_size and self._free else None

    def give_back(self, size: int, buffer: bytearray | None = None) -> None:
        """`buffer` must not be in anybody's hands any more."""
        self.available += size
        assert self.available <= self.total
        if buffer is not None and size == self.buffer_size:
            self._free.append(buffer)
        self._serve()
        self._trim()

    def _serve(self) -> None:
        while self._line and self._line[0].size <= self.available:
            ticket = self._line.popleft()
            self.available -= ticket.size
            ticket.granted = True
            ticket.callback()

    def _trim(self) -> None:
        while self._free and len(self._free) * self.buffer_size > self.available:
            self._free.pop()
