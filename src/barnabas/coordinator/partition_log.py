"""The log under a shard, as the runtime sees it.

The runtime needs little: append a batch and learn its last offset and how far the log is
committed, and read the log from its start. The server gives it that over its replicas, tests over a
list of batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

Buffer = bytes | bytearray | memoryview


class Appended(NamedTuple):
    last_offset: int
    # The first offset that is not committed yet.
    high_watermark: int


class Chunk(NamedTuple):
    """Whole batches, from the asked offset on; empty at the end of the log."""

    batches: Buffer
    log_end_offset: int
    high_watermark: int


class PartitionLog(Protocol):
    """All partitions of one coordinator's topic. Failures are ApiError."""

    def append(self, partition: int, batch: bytearray, now_ms: int) -> Appended: ...

    def start_offset(self, partition: int) -> int: ...

    def read(self, partition: int, offset: int, max_bytes: int) -> Chunk:
        """At least one batch, however large, unless the offset is the log's end."""

    def listen(self, partition: int, listener: Callable[[int], None]) -> None:
        """`listener(high_watermark)` whenever it moves, also by appends of this runtime."""

    def unlisten(self, partition: int) -> None: ...
