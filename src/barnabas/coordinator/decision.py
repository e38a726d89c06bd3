"""What a shard decides: records to be written, and what to do when they are.

A shard never writes. It returns a `Write`; the runtime appends the records, replays them, and
calls `done` exactly once: with NONE when they are committed, or with the reason why they are not,
already in the terms of a coordinator's client. `done` may run before `perform` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from barnabas.wire.errors import ErrorCode

Done = Callable[[ErrorCode], None]


class EncodableRecord(Protocol):
    def encode(self) -> tuple[bytes, bytes | None]:
        """Key and value as bytes; a value of None is a tombstone."""


R = TypeVar("R", bound=EncodableRecord)


class Write(Generic[R]):
    """Records, all in one batch if `atomic`, else in as many as their size asks for."""

    __slots__ = ("atomic", "done", "records")

    def __init__(self, records: Sequence[R], done: Done, *, atomic: bool = True) -> None:
        self.records = records
        self.done = done
        self.atomic = atomic


# Errors of the log under the coordinator's topic, and what a client of the coordinator is told.
_COORDINATOR_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

TOO_LARGE = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_FETCH_SIZE,
    }
)


def coordinator_error(code: ErrorCode) -> ErrorCode:
    return _COORDINATOR_ERRORS.get(code, code)
