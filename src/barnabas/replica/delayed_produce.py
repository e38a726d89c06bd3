"""A Produce that waits until what it wrote is committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.delayed.purgatory import DelayedOperation
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.replica.partition import Partition


class Awaited:
    """One partition of the request: committed once its high watermark reaches `required_offset`."""

    __slots__ = ("code", "partition", "required_offset", "settled")

    def __init__(self, partition: Partition, required_offset: int) -> None:
        self.partition = partition
        self.required_offset = required_offset
        self.settled = False
        self.code = ErrorCode.REQUEST_TIMED_OUT

    def check(self) -> bool:
        if self.settled:
            return True
        partition = self.partition
        log = partition.log
        if log is None:
            self.code, self.settled = ErrorCode.KAFKA_STORAGE_ERROR, True
        elif not partition.is_leader:
            self.code, self.settled = ErrorCode.NOT_LEADER_OR_FOLLOWER, True
        elif log.high_watermark >= self.required_offset:
            enough = len(partition.maximal_isr) >= partition.min_insync_replicas
            self.code = ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            self.settled = True
        return self.settled


class DelayedProduce(DelayedOperation):
    __slots__ = ("_done", "awaited")

    def __init__(self, timeout_ms: int, awaited: list[Awaited], done: Callable[[], None]) -> None:
        super().__init__(timeout_ms)
        self.awaited = awaited
        self._done = done

    def try_complete(self) -> bool:
        for one in self.awaited:
            if not one.check():
                return False
        return self.force_complete()

    def on_complete(self) -> None:
        for one in self.awaited:
            one.check()
        self._done()
