"""From decisions to committed metadata: replay, append, wait until the quorum has it, answer.

While a controller is active it is ahead of what is committed: `latest` has everything that it wrote,
and the next decision is made on it. Between `latest` and the committed image stand the changes that
wait for the quorum. Nothing is answered before what it rests upon is committed and published, in
the order of the log.

When the leadership is lost, `latest` is thrown away, and whoever waits is told to ask the next
controller; what was written may still be committed by it, as an answer lost on the way would be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from barnabas.controller.kraft.replica_index import ReplicaIndex
from barnabas.metadata.delta import MetadataDelta
from barnabas.metadata.image import MetadataImage
from barnabas.metadata.snapshot import record_version
from barnabas.raft.errors import NotLeader
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.records.metadata import (
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    encode_metadata_record,
)

if TYPE_CHECKING:
    from barnabas.raft.raft import Raft

R = TypeVar("R")

RECORDS_PER_BATCH: Final = 10_000
MAX_WAITING = 10_000
MAX_WAITING_TOPICS = 2_000_000
"""Each change that waits has an image, and an image costs what its topics cost."""


class Promise(Protocol):
    """A result that comes later; `asyncio.Future` is one."""

    def __await__(self) -> Any: ...

    def set_result(self, result: Any, /) -> None: ...

    def set_exception(self, error: BaseException, /) -> None: ...

    def done(self) -> bool: ...


@dataclass(slots=True)
class Change:
    """One batch that is in the log and waits to be committed."""

    last_offset: int
    image: MetadataImage
    delta: MetadataDelta
    answers: list[tuple[Promise, object]] = field(default_factory=list)

    def answer(self) -> None:
        for promise, response in self.answers:
            if not promise.done():
                promise.set_result(response)

    def fail(self, error: ApiError) -> None:
        for promise, _response in self.answers:
            if not promise.done():
                promise.set_exception(error)


class Committing:
    """What an active controller of one epoch has written. It begins with what is committed."""

    def __init__(
        self, raft: Raft, image: MetadataImage, epoch: int, new_promise: Callable[[], Promise]
    ) -> None:
        self.latest = image
        self.replicas = ReplicaIndex(image)
        self._raft = raft
        self._epoch = epoch
        self._new_promise = new_promise
        self._waiting: deque[Change] = deque()

    def check(self) -> None:
        """Refuse to decide anything while too much waits."""
        waiting = len(self._waiting)
        if waiting >= MAX_WAITING or waiting * len(self.latest.topics) >= MAX_WAITING_TOPICS:
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "Too many changes wait.")

    def commit(self, records: Sequence[Message], response: R, now_ms: int) -> Awaitable[R]:
        """Append `records`; the result is `response`, once everything it rests upon is committed."""
        promise = self._new_promise()
        answer = (promise, response)
        if records:
            self.append(records, now_ms, answer)
        elif self._waiting:
            self._waiting[-1].answers.append(answer)
        else:
            promise.set_result(response)
        return promise

    def append(
        self,
        records: Sequence[Message],
        now_ms: int,
        answer: tuple[Promise, object] | None = None,
    ) -> None:
        """As one batch, unless it is more than a batch may hold; the answer is that of the last."""
        for start in range(0, len(records), RECORDS_PER_BATCH):
            part = records[start : start + RECORDS_PER_BATCH]
            is_last = start + RECORDS_PER_BATCH >= len(records)
            self._append(part, now_ms, answer if is_last else None)

    def _append(
        self, part: Sequence[Message], now_ms: int, answer: tuple[Promise, object] | None
    ) -> None:
        assert _is_whole(part), "a transaction of ours is one batch, committed at once"
        delta = MetadataDelta(self.latest)
        delta.replay_all(part)
        level = self.latest.features.metadata_version or _level_in(part)
        values = [encode_metadata_record(each, record_version(each, level)) for each in part]
        last_offset = self._raft.log.end_offset + len(part) - 1
        change = Change(last_offset, delta.apply(last_offset, self._epoch), delta)
        if answer is not None:
            change.answers.append(answer)
        # It waits before it is written, since a log may be quick to say that it is committed.
        self._waiting.append(change)
        before, self.latest = self.latest, change.image
        self.replicas.update(delta)
        try:
            appended = self._raft.append(values, now_ms)
        except (OSError, NotLeader) as error:
            if change in self._waiting:
                self._waiting.remove(change)
            self.latest = before
            self.replicas = ReplicaIndex(before)
            if isinstance(error, NotLeader):
                raise ApiError(ErrorCode.NOT_CONTROLLER) from error
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata log failed: {error}"
            ) from error
        assert appended == last_offset, "offsets of a batch follow one another"

    def committed(self, last_offset: int) -> Change | None:
        """The change of a committed batch; None for one of the log's own control records."""
        if not self._waiting or self._waiting[0].last_offset > last_offset:
            return None
        change = self._waiting.popleft()
        assert change.last_offset == last_offset, "batches are committed in the order of the log"
        return change

    def settled(self) -> Awaitable[None]:
        """Done when everything that was written until now is committed."""
        return self.commit([], None, 0)

    def give_up(self, error: ApiError) -> None:
        while self._waiting:
            self._waiting.popleft().fail(error)


def _is_whole(records: Sequence[Message]) -> bool:
    begun = sum(isinstance(each, BeginTransactionRecord) for each in records)
    return begun == sum(isinstance(each, EndTransactionRecord) for each in records)


def _level_in(records: Sequence[Message]) -> int:
    """The level that the first records of a new log set."""
    return next(
        (
            record.feature_level
            for record in records
            if isinstance(record, FeatureLevelRecord) and record.name == "metadata.version"
        ),
        0,
    )
