"""Incremental fetch sessions (KIP-227).

A consumer that fetches from many partitions would repeat all of them in every request and get every
one of them back in every response. With a session, both sides remember the list: a request names only
what changed in it, a response only partitions that have something new to say.

A request's `(session_id, session_epoch)` says which of these it is:

    id 0, epoch -1   no session wanted
    id 0, epoch 0    a full fetch that asks for a new session
    id n, epoch 0    the same, after closing session n
    id n, epoch -1   close session n and fetch without one
    id n, epoch e    the next incremental fetch of session n; e must be the one expected

Epochs run 1, 2, … 2^31-1 and wrap to 1. The cache is bounded. When it is full, a new session takes the
place of one that has been idle for two minutes, or of one that is both that old and smaller; else the
peer gets session id 0 and simply goes on without.

A session costs memory and, with every small request that continues it, the time to look at all of its
partitions. So it may have no more of them than this broker has, twice over as some may be gone, and
all sessions together have a bound too. Where a new one would pass a bound the peer goes on without; one
that grows beyond it is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.uuids import ZERO

if TYPE_CHECKING:
    from barnabas.seams import Randomness
    from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, PartitionData

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
INVALID_SESSION_ID = 0
MAX_EPOCH = 2**31 - 1
EVICTION_MS = 120_000
ALWAYS_ALLOWED = 1_000
MAX_PARTITIONS = 1_000_000
"""A partition of a session takes about 260 bytes."""

FIRST_VERSION_WITH_TOPIC_IDS = 13


class TopicNames(Protocol):
    def topic_name(self, topic_id: bytes) -> str | None: ...


class FetchTarget:
    """A partition somebody wants to read, and inside a session what was last said about it."""

    __slots__ = (
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "max_bytes",
        "said_high_watermark",
        "said_log_start_offset",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str | None, topic_id: bytes, partition: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = partition.partition
        self.said_high_watermark = -1
        self.said_log_start_offset = -1
        self.update(partition)

    def update(self, partition: FetchPartition) -> None:
        self.fetch_offset = partition.fetch_offset
        self.max_bytes = partition.partition_max_bytes
        self.leader_epoch = partition.current_leader_epoch
        self.last_fetched_epoch = partition.last_fetched_epoch
        self.log_start_offset = partition.log_start_offset

    def has_news(self, data: PartitionData) -> bool:
        """Whether an incremental response must mention this partition; remembers what it says."""
        news = len(data.records or b"") > 0 or data.preferred_read_replica != -1
        if self.said_high_watermark != data.high_watermark:
            self.said_high_watermark = data.high_watermark
            news = True
        if self.said_log_start_offset != data.log_start_offset:
            self.said_log_start_offset = data.log_start_offset
            news = True
        if data.error_code != 0:
            # Told again next time, until the cause is gone.
            self.said_high_watermark = -1
            news = True
        return news or data.diverging_epoch.epoch != -1


class FetchSession:
    __slots__ = ("created_ms", "epoch", "last_used_ms", "session_id", "targets", "uses_topic_ids")

    def __init__(
        self, session_id: int, targets: dict[object, FetchTarget], uses_topic_ids: bool, now_ms: int
    ) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.targets = targets
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms

    def rotate(self, served: Iterable[FetchTarget]) -> None:
        """Partitions that gave data go to the end of the line, so that none is starved."""
        for target in served:
            key = _key(target.topic, target.topic_id, target.index, self.uses_topic_ids)
            if self.targets.pop(key, None) is not None:
                self.targets[key] = target


class FetchSessionCache:
    """`partitions_here` is how many partitions this broker has."""

    def __init__(
        self,
        slots: int,
        randomness: Randomness,
        eviction_ms: int = EVICTION_MS,
        partitions_here: Callable[[], int] = lambda: MAX_PARTITIONS,
    ) -> None:
        self._slots = slots
        self._partitions_here = partitions_here
        self._eviction_ms = eviction_ms
        self._randomness = randomness
        self._sessions: dict[int, FetchSession] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        # A scrape asks from another thread: look at a copy.
        return sum(len(session.targets) for session in tuple(self._sessions.values()))

    def open(
        self, request: FetchRequest, version: int, names: TopicNames, now_ms: int
    ) -> tuple[FetchSession | None, list[FetchTarget], bool]:
        """What to read for a request: `(session, targets, incremental)`."""
        uses_topic_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
        epoch = request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != INVALID_SESSION_ID:
                self._sessions.pop(request.session_id, None)
            targets = _targets_of(request, uses_topic_ids, names)
            if epoch == FINAL_EPOCH:
                return None, list(targets.values()), False
            session = self._create(targets, uses_topic_ids, now_ms)
            return session, list(targets.values()), False
        session = self._sessions.get(request.session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        size = len(session.targets)
        self._update(session, request, names)
        if len(session.targets) > size and not self._has_room_for(session.targets):
            del self._sessions[session.session_id]
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.epoch = 1 if session.epoch == MAX_EPOCH else session.epoch + 1
        session.last_used_ms = now_ms
        # Least recently used first: the order of the dict is the order of use.
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        return session, list(session.targets.values()), True

    def _create(
        self, targets: dict[object, FetchTarget], uses_topic_ids: bool, now_ms: int
    ) -> FetchSession | None:
        if not targets or self._slots <= 0 or not self._has_room_for(targets, more=len(targets)):
            return None
        if len(self._sessions) >= self._slots and not self._evict(len(targets), now_ms):
            return None
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = self._randomness.randrange(2**31)
        session = FetchSession(session_id, targets, uses_topic_ids, now_ms)
        self._sessions[session_id] = session
        return session

    def _has_room_for(self, targets: dict[object, FetchTarget], *, more: int = 0) -> bool:
        if len(targets) <= ALWAYS_ALLOWED:
            return True
        allowed = 2 * self._partitions_here()
        return len(targets) <= allowed and self.partition_count + more <= MAX_PARTITIONS

    def _evict(self, newcomer_size: int, now_ms: int) -> bool:
        oldest = next(iter(self._sessions.values()))
        victim: FetchSession | None = None
        if now_ms - oldest.last_used_ms > self._eviction_ms:
            victim = oldest
        else:
            settled = [
                session
                for session in self._sessions.values()
                if now_ms - session.created_ms > self._eviction_ms
                and len(session.targets) < newcomer_size
            ]
            if settled:
                victim = min(settled, key=lambda session: len(session.targets))
        if victim is None:
            return False
        del self._sessions[victim.session_id]
        self.evictions += 1
        return True

    def _update(self, session: FetchSession, request: FetchRequest, names: TopicNames) -> None:
        targets = session.targets
        by_id = session.uses_topic_ids
        for topic in request.topics:
            for partition in topic.partitions:
                key = _key(topic.topic, topic.topic_id, partition.partition, by_id)
                target = targets.get(key)
                if target is None:
                    name = names.topic_name(topic.topic_id) if by_id else topic.topic
                    targets[key] = FetchTarget(name, topic.topic_id, partition)
                else:
                    target.update(partition)
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                targets.pop(_key(forgotten.topic, forgotten.topic_id, index, by_id), None)
        if by_id:
            for target in targets.values():
                if target.topic is None:
                    target.topic = names.topic_name(target.topic_id)


def _key(topic: str | None, topic_id: bytes, index: int, by_id: bool) -> object:
    return (topic_id if by_id else topic, index)


def _targets_of(request: FetchRequest, by_id: bool, names: TopicNames) -> dict[object, FetchTarget]:
    targets: dict[object, FetchTarget] = {}
    for topic in request.topics:
        topic_id = topic.topic_id if by_id else ZERO
        name = names.topic_name(topic_id) if by_id else topic.topic
        for partition in topic.partitions:
            key = _key(topic.topic, topic_id, partition.partition, by_id)
            targets[key] = FetchTarget(name, topic_id, partition)
    return targets
