"""Memory to receive into, shared by all connections of a loop.

Small frames are parsed where they were received, in one buffer that every connection uses in turn;
a frame larger than what has arrived gets memory of its own. Frames are handed on as writable views
and nobody is asked to promise when they are done with them. The rule is checked instead: **memory
is used again only when no view of it is left**. CPython refuses to resize a bytearray while a view
of it exists, which makes that check exact and nearly free. A handler that answers at once has
dropped its request by then; one that waits (deferred, or a task) simply keeps the memory, and the
next reader gets a new buffer.
"""

BUFFER_SIZE = 64 * 1024
SPARES = 4
SPARE_SIZE_LIMIT = 4 * 1024 * 1024
GROWTH_LIMIT = 1024 * 1024

_ZEROS = memoryview(bytes(GROWTH_LIMIT))


def is_free(buffer: bytearray) -> bool:
    """True if no view of `buffer` exists."""
    try:
        buffer.append(0)
    except BufferError:
        return False
    buffer.pop()
    return True


class ReceiveMemory:
    """The shared buffer, and a few spare ones for large frames."""

    __slots__ = ("_shared", "_spares")

    def __init__(self) -> None:
        self._shared = bytearray(BUFFER_SIZE)
        self._spares: list[bytearray] = []

    def shared(self) -> memoryview:
        """`BUFFER_SIZE` bytes of which no other view exists."""
        shared = self._shared
        try:
            shared.append(0)
        except BufferError:
            shared = self._shared = bytearray(BUFFER_SIZE)
        else:
            shared.pop()
        return memoryview(shared)

    def frame(self, size: int) -> bytearray:
        """A buffer for a frame of `size` bytes: a spare one, or a small one to be grown.

        What a peer announces is not believed: memory grows with the bytes that arrive.
        """
        for index, spare in enumerate(self._spares):
            if len(spare) >= size:
                return self._spares.pop(index)
        return bytearray(min(size, BUFFER_SIZE))

    def grow(self, buffer: bytearray, size: int) -> None:
        """Make room after `buffer` was filled, towards `size`. At most doubles, within limits."""
        length = len(buffer)
        buffer.extend(_ZEROS[: min(size - length, max(length, BUFFER_SIZE), GROWTH_LIMIT)])

    def give_back(self, buffer: bytearray) -> None:
        """Keep the memory of a frame for later if nobody looks at it any more."""
        if BUFFER_SIZE < len(buffer) <= SPARE_SIZE_LIMIT and is_free(buffer):
            spares = self._spares
            if len(spares) >= SPARES:
                smallest = min(range(len(spares)), key=lambda index: len(spares[index]))
                if len(spares[smallest]) >= len(buffer):
                    return
                del spares[smallest]
            spares.append(buffer)
