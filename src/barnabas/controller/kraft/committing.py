"""From decisions to committed metadata: append, replay, flush many at once, publish, answer.

`Committing` holds two images. `latest` has everything that is in the log, and the next decision is
made on it; `committed` has what is durable. Between the two stand the changes that wait for the
flush that is under way, or for the one after it: while the disk works, changes gather, and the next
flush takes them all.

Nothing is answered and nothing is published before it is committed, and in the order of the log. If
the disk fails, nothing after that is answered with anything but an error: a controller that does
not know what is on its disk must not go on.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from barnabas.metadata.delta import MetadataDelta
from barnabas.metadata.image import MetadataImage
from barnabas.metadata.snapshot import record_version
from barnabas.raft.log import MetadataLog
from barnabas.seams import Background
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.records.metadata import FeatureLevelRecord, encode_metadata_record

logger = logging.getLogger(__name__)

R = TypeVar("R")

RECORDS_PER_BATCH = 10_000
MAX_WAITING = 10_000


class Promise(Protocol):
    """A result that comes later; `asyncio.Future` is one."""

    def __await__(self) -> Any: ...

    def set_result(self, result: Any, /) -> None: ...

    def set_exception(self, error: BaseException, /) -> None: ...

    def done(self) -> bool: ...


Publisher = Callable[[MetadataImage, MetadataDelta], None]


@dataclass(slots=True)
class _Change:
    """One change that is in the log and waits to be committed."""

    last_offset: int
    image: MetadataImage
    delta: MetadataDelta
    size: int
    answers: list[tuple[Promise, object]] = field(default_factory=list)


class Committing:
    def __init__(
        self,
        log: MetadataLog,
        image: MetadataImage,
        *,
        background: Background,
        new_promise: Callable[[], Promise],
        publish: Publisher,
        failed: Callable[[OSError], None],
    ) -> None:
        self.latest = image
        self.committed = image
        self.bytes_since_snapshot = 0
        self._log = log
        self._background = background
        self._new_promise = new_promise
        self._publish = publish
        self._failed = failed
        self._waiting: deque[_Change] = deque()
        self._flushing = False
        self._failure: OSError | None = None

    @property
    def failure(self) -> OSError | None:
        return self._failure

    def check(self) -> None:
        """Refuse to decide anything if what was decided before may be lost, or too much waits."""
        if self._failure is not None:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata log failed: {self._failure}"
            )
        if len(self._waiting) >= MAX_WAITING:
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "Too many changes wait.")

    def commit(
        self, records: Sequence[Message], response: R, epoch: int, now_ms: int
    ) -> Awaitable[R]:
        """Append `records`; the result is `response`, once everything it rests upon is committed."""
        promise = self._new_promise()
        if records:
            try:
                self._append(records, epoch, now_ms)
            except OSError as error:
                self._fail(error)
                raise ApiError(
                    ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata log failed: {error}"
                ) from error
        if self._waiting:
            self._waiting[-1].answers.append((promise, response))
            self._flush()
        else:
            promise.set_result(response)
        return promise

    def settled(self) -> Awaitable[None]:
        """Done when everything that is in the log now is committed."""
        promise = self._new_promise()
        if self._failure is not None or not self._waiting:
            promise.set_result(None)
        else:
            self._waiting[-1].answers.append((promise, None))
        return promise

    def _append(self, records: Sequence[Message], epoch: int, now_ms: int) -> None:
        """As one batch, unless it is more than a batch may hold."""
        for start in range(0, len(records), RECORDS_PER_BATCH):
            part = records[start : start + RECORDS_PER_BATCH]
            last_offset = self._log.end_offset + len(part) - 1
            delta = MetadataDelta(self.latest)
            delta.replay_all(part)
            level = self.latest.features.metadata_version or _level_in(part)
            values = [encode_metadata_record(each, record_version(each, level)) for each in part]
            appended = self._log.append(values, epoch, now_ms)
            assert appended == last_offset, "offsets of a batch follow one another"
            self.latest = delta.apply(last_offset, epoch)
            size = sum(map(len, values))
            self._waiting.append(_Change(last_offset, self.latest, delta, size))

    def note_appended(self, last_offset: int, epoch: int) -> None:
        """Control records were appended: nothing changes but the place in the log."""
        delta = MetadataDelta(self.latest)
        self.latest = delta.apply(last_offset, epoch)
        self._waiting.append(_Change(last_offset, self.latest, delta, 0))
        self._flush()

    # ---- flushing

    def _flush(self) -> None:
        if self._flushing or not self._waiting or self._failure is not None:
            return
        self._flushing = True
        self._background.submit(self._log.flush, self._flushed)

    def _flushed(self, offset: int | None, error: Exception | None) -> None:
        self._flushing = False
        if error is not None or offset is None:
            self._fail(error if isinstance(error, OSError) else OSError(str(error)))
            return
        self._log.advance_high_watermark(offset)
        while self._waiting and self._waiting[0].last_offset < offset:
            change = self._waiting.popleft()
            self.committed = change.image
            self.bytes_since_snapshot += change.size
            self._tell(change)
        self._flush()

    def _tell(self, change: _Change) -> None:
        try:
            self._publish(change.image, change.delta)
        except Exception:
            logger.exception("what follows from the metadata at %d failed", change.last_offset)
        for promise, response in change.answers:
            if not promise.done():
                promise.set_result(response)

    def _fail(self, error: OSError) -> None:
        if self._failure is not None:
            return
        logger.critical("the metadata log cannot be written: %s", error)
        self._failure = error
        answer = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata log failed: {error}")
        while self._waiting:
            for promise, _response in self._waiting.popleft().answers:
                if not promise.done():
                    promise.set_exception(answer)
        self._failed(error)


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
