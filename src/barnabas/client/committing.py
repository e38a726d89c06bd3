"""Commits of a group's offsets.

Every commit is one request to the group's coordinator. Those that wait for it repeat what may pass
until their time is up; those that do not are tried once, and tell a callback. All go out in the order
of the calls, over one connection, so that an older position never overwrites a newer one; a commit
that waits lets those before it come to their end first.

`Membership` is who commits: a member of the group, or nobody (generation -1), which the coordinator
takes as long as the group has no members.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from barnabas.client.cluster import Cluster
from barnabas.client.consumer_metrics import ConsumerMetrics
from barnabas.client.core.metadata import TopicPartition
from barnabas.client.core.offsets import OffsetAndMetadata
from barnabas.client.errors import (
    ClientError,
    CommitFailedError,
    QueueFull,
    RequestTimeout,
    broker_error,
    to_code,
)
from barnabas.client.interceptors import ConsumerInterceptors
from barnabas.client.reactor import Future
from barnabas.client.settings import ConsumerSettings
from barnabas.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
Callback = Callable[[Offsets, ClientError | None], object]

MAX_UNANSWERED: Final = 1_000
LAST_VERSION_BY_NAME: Final = 9
_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_PASSING = (
    *_MOVED,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
_STRANGER = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)


class Membership(Protocol):
    """What a commit needs of the member on whose behalf it is made."""

    @property
    def identity(self) -> tuple[str, int]: ...

    def refuses_commit(self) -> ClientError | None: ...

    def commit_refused(self, now: float, identity: tuple[str, int], code: int) -> None: ...


class Commits:
    def __init__(
        self,
        settings: ConsumerSettings,
        cluster: Cluster,
        metrics: ConsumerMetrics,
        interceptors: ConsumerInterceptors,
    ) -> None:
        assert settings.group_id is not None
        self.group_id: str = settings.group_id
        self.membership: Membership | None = None
        self._settings = settings
        self._cluster = cluster
        self._metrics = metrics
        self._interceptors = interceptors
        self._unanswered: deque[Future[None]] = deque()
        self._finding: Future[int] | None = None

    @property
    def unanswered(self) -> int:
        """Commits that nobody waits for and whose answer is not in."""
        return len(self._unanswered)

    async def commit(self, offsets: Offsets, timeout_ms: float) -> None:
        """Commit and wait until it is done, after those before it."""
        deadline = self._cluster.reactor.now() + timeout_ms / 1000
        await self.settle(timeout_ms)
        if not offsets:
            return
        what = f"the commit of group {self.group_id}"
        backoff = self._cluster.backoff()
        while True:
            now = self._cluster.reactor.now()
            try:
                await self._attempt(offsets, max((deadline - now) * 1000, 1))
                break
            except ClientError as error:
                pause_s = backoff.next_ms() / 1000
                if not _may_pass(error):
                    raise
                if self._cluster.reactor.now() + pause_s >= deadline:
                    raise RequestTimeout(what, int(timeout_ms), last=error) from error
                await self._cluster.reactor.sleep(pause_s)
        if self._interceptors.on_commit:
            await self._cluster.reactor.call_user(self._interceptors.commit, dict(offsets))

    def commit_soon(self, offsets: Offsets, callback: Callback | None = None) -> None:
        """Commit without waiting; `callback(offsets, None or why not)` is called later."""
        if len(self._unanswered) >= MAX_UNANSWERED:
            full = QueueFull("commits without an answer", MAX_UNANSWERED)
            self._tell(offsets, callback, full)
            return
        self._unanswered.append(self._cluster.reactor.spawn(self._commit_once(offsets, callback)))

    async def _commit_once(self, offsets: Offsets, callback: Callback | None) -> None:
        error: ClientError | None = None
        try:
            await self._attempt(offsets, self._settings.request_timeout_ms)
        except ClientError as failure:
            error = failure
        self._tell(offsets, callback, error)

    def _tell(self, offsets: Offsets, callback: Callback | None, error: ClientError | None) -> None:
        outside = self._cluster.reactor.call_outside
        if error is None and self._interceptors.on_commit:
            outside(self._interceptors.commit, dict(offsets))
        if callback is not None:
            outside(callback, offsets, error)
        elif error is not None:
            level = logging.DEBUG if error.retriable else logging.WARNING
            logger.log(level, "Offsets of group %s were not committed: %s", self.group_id, error)

    async def settle(self, timeout_ms: float) -> None:
        """Wait until the commits under way have ended."""
        deadline = self._cluster.reactor.now() + timeout_ms / 1000
        while self._unanswered:
            if self._unanswered[0].done():
                self._unanswered.popleft()
                continue
            if self._cluster.reactor.now() >= deadline:
                return
            await _first(self._cluster, self._unanswered[0], deadline)

    def forget_done(self) -> None:
        """Drop those that have ended."""
        while self._unanswered and self._unanswered[0].done():
            self._unanswered.popleft()

    # -- one request

    async def _coordinator(self) -> int:
        """Looked for once by all who need it, so that they go on in their order."""
        if self._finding is None:
            self._finding = self._cluster.reactor.spawn(self._cluster.coordinator(self.group_id))
            self._finding.add_done_callback(self._found)
        return await self._finding

    def _found(self, _future: Any) -> None:
        self._finding = None

    async def _attempt(self, offsets: Offsets, timeout_ms: float) -> None:
        membership = self.membership
        if membership is not None:
            refusal = membership.refuses_commit()
            if refusal is not None:
                raise refusal
        member_id, generation = ("", -1) if membership is None else membership.identity
        reactor = self._cluster.reactor
        node_id = await self._coordinator()
        sent_at = reactor.now()
        try:
            response = await self._cluster.request(
                node_id,
                commit_request(self._settings, offsets, member_id, generation),
                what=f"the commit of group {self.group_id}",
                highest=LAST_VERSION_BY_NAME,
                timeout_ms=min(timeout_ms, self._settings.request_timeout_ms),
            )
        except ClientError:
            self._cluster.forget_coordinator(self.group_id)
            raise
        now = reactor.now()
        self._metrics.committed(sent_at, now)
        for topic in response.topics:
            for answer in topic.partitions:
                if answer.error_code != ErrorCode.NONE:
                    place = f"{topic.name}-{answer.partition_index}"
                    raise self._refused(answer.error_code, place, (member_id, generation), now)

    def _refused(
        self, code: int, place: str, identity: tuple[str, int], now: float
    ) -> ClientError:
        if code in _MOVED:
            self._cluster.forget_coordinator(self.group_id)
        if self.membership is not None:
            self.membership.commit_refused(now, identity, code)
        if code in _STRANGER:
            return CommitFailedError(
                self.group_id,
                f"the group was rebalanced meanwhile, and {place} may belong to another member "
                f"({to_code(code).name})"
                if identity[1] >= 0
                else f"the group has members, and this consumer is not one of them "
                f"({to_code(code).name})",
            )
        return broker_error(code, subject=f"group {self.group_id}, {place}")


def _may_pass(error: ClientError) -> bool:
    code = getattr(error, "code", None)
    if code is None:
        return error.retriable
    return code in _PASSING


async def _first(cluster: Cluster, future: Future[None], deadline: float) -> None:
    """Wait until the future has ended or the deadline has come."""
    waiter: Future[None] = cluster.reactor.future()

    def wake(_future: Any = None) -> None:
        if not waiter.done():
            waiter.set_result(None)

    timer = cluster.reactor.call_at(deadline, wake)
    future.add_done_callback(wake)
    try:
        await waiter
    finally:
        timer.cancel()


def commit_request(
    settings: ConsumerSettings, offsets: Offsets, member_id: str, generation: int
) -> Any:
    from barnabas.wire.messages import offset_commit as api

    topics: dict[str, list[Any]] = {}
    for (topic, index), wanted in offsets.items():
        topics.setdefault(topic, []).append(
            api.OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=wanted.offset,
                committed_leader_epoch=wanted.leader_epoch,
                committed_metadata=wanted.metadata,
            )
        )
    return api.OffsetCommitRequest(
        group_id=settings.group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=settings.group_instance_id if member_id else None,
        topics=[
            api.OffsetCommitRequestTopic(name=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )


def to_commit(
    positions: Mapping[TopicPartition, tuple[int, int]],
) -> dict[TopicPartition, OffsetAndMetadata]:
    return {p: OffsetAndMetadata(offset, "", epoch) for p, (offset, epoch) in positions.items()}

