"""A DeleteRecords that waits until every live replica has raised the start of its log.

The leader raises its own at once; followers learn it with their next Fetch and tell theirs with the one
after. The low watermark, the lowest start of all live replicas, is what the answer carries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.delayed.purgatory import DelayedOperation
from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.replica.partition import Partition


class Deletion:
    """One partition of the request: done once its low watermark reaches `required_offset`."""

    __slots__ = ("code", "low_watermark", "partition", "required_offset", "settled")

    def __init__(self, partition: Partition, required_offset: int) -> None:
        self.partition = partition
        self.required_offset = required_offset
        self.settled = False
        self.code = ErrorCode.REQUEST_TIMED_OUT
        self.low_watermark = -1

    def check(self) -> bool:
        if self.settled:
            return True
        try:
            low_watermark = self.partition.low_watermark
        except ApiError as error:
            self.code, self.settled = error.code, True
            return True
        if low_watermark >= self.required_offset:
            self.code, self.settled = ErrorCode.NONE, True
            self.low_watermark = low_watermark
        return self.settled


class DelayedDeleteRecords(DelayedOperation):
    __slots__ = ("_done", "deletions")

    def __init__(
        self, timeout_ms: int, deletions: list[Deletion], done: Callable[[], None]
    ) -> None:
        super().__init__(timeout_ms)
        self.deletions = deletions
        self._done = done

    def try_complete(self) -> bool:
        for deletion in self.deletions:
            if not deletion.check():
                return False
        return self.force_complete()

    def on_complete(self) -> None:
        for deletion in self.deletions:
            deletion.check()
        self._done()
