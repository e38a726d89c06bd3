"""The order of offset commits: one request under way, the rest in line, none overtaken.

Commits are answered in the order they were made, and a later one is never overwritten by an earlier
one that was tried again: only one request is under way at a time, and what waits meanwhile goes into
one request together, where a later offset of a partition replaces an earlier one. So a caller who
commits after every record is slowed down by nothing and asks the coordinator no more than it can take.

A commit belongs to the generation in which it was made. When the member has joined anew before it
could be sent, its offsets may only be stored if the member kept all its partitions meanwhile; else
somebody else may have gone on from there, and the commit fails.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from barnabas.client.core.backoff import Backoff
from barnabas.client.core.consumer_protocol import by_topic
from barnabas.client.core.metadata import TopicPartition
from barnabas.client.core.offsets import OffsetAndMetadata
from barnabas.client.errors import (
    ClientError,
    CommitFailedError,
    QueueFull,
    RebalanceInProgressError,
    RequestTimeout,
    broker_error,
    to_code,
)
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

MAX_WAITING: Final = 10_000
"""Commits in line. Their offsets are merged, so this bounds callbacks, not requests."""
HIGHEST_VERSION: Final = 9
"""Later ones name topics by id."""
UNKNOWN_TOPIC_ATTEMPTS: Final = 5
"""A broker may not know a new topic yet; one that still does not after so many attempts never will."""

_STRANGER = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
_ADVICE = {
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "The metadata of the offset is longer than the broker "
    "allows (offset.metadata.max.bytes).",
}


Offsets = Mapping[TopicPartition, OffsetAndMetadata]
Committed = Callable[[ClientError | None], object]
Identity = tuple[str, int]
"""Member id and generation; ("", -1) for a consumer that is no member."""


@dataclass(slots=True)
class Commit:
    offsets: Offsets  # what is not stored yet
    identity: Identity
    timeout_ms: float
    deadline: float
    done: Committed
    attempts: int = 0
    decided: bool = False  # only waits for those before it
    error: ClientError | None = field(default=None, repr=False)


class Commits:
    """`refusal` says why the member cannot commit now, `identity` and `owned` who it is now."""

    def __init__(
        self,
        group_id: str,
        instance_id: str | None,
        backoff: Backoff,
        *,
        identity: Callable[[], Identity],
        refusal: Callable[[], ClientError | None],
        owned: Callable[[], frozenset[TopicPartition] | None],
    ) -> None:
        self.group_id = group_id
        self.instance_id = instance_id
        self._identity = identity
        self._refusal = refusal
        self._owned = owned
        self._backoff = backoff
        self._waiting: deque[Commit] = deque()
        self._sent: list[Commit] = []
        self._sent_as: Identity = ("", -1)
        self._not_before = float("-inf")

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._sent

    @property
    def sent_as(self) -> Identity:
        """Who the request under way is from."""
        return self._sent_as

    def add(self, now: float, offsets: Offsets, timeout_ms: float, done: Committed) -> None:
        """`done` is called once, in the order of these calls; only commits that a rebalance made
        hopeless end at once. Raises what is known already: that the member may not commit now."""
        refusal = self._refusal()
        if refusal is not None:
            raise refusal
        if len(self._waiting) >= MAX_WAITING:
            raise QueueFull(f"{MAX_WAITING} commits of group {self.group_id} wait.")
        deadline = now + timeout_ms / 1000
        self._waiting.append(Commit(dict(offsets), self._identity(), timeout_ms, deadline, done))

    def due(self) -> float | None:
        """When `next_request` is to be called at the latest."""
        if self._sent or not self._waiting:
            return None
        if self._must_wait:
            return min(commit.deadline for commit in self._waiting)
        return self._not_before

    @property
    def _must_wait(self) -> bool:
        """A rebalance is under way: what comes after it decides."""
        return self._identity()[1] >= 0 and self._refusal() is not None

    def next_request(self, now: float) -> OffsetCommitRequest | None:
        """What to send now; it ends with `answered` or `failed`."""
        if self._sent or not self._waiting or now < self._not_before:
            return None
        if self._must_wait:
            self._end_overdue(now)
            return None
        identity = self._identity()
        waiting, self._waiting = self._waiting, deque()
        merged: dict[TopicPartition, OffsetAndMetadata] = {}
        for commit in waiting:
            if not commit.decided:
                stale = self._stale(commit, identity, now)
                if stale is not None or not commit.offsets:
                    self._decide(commit, stale)
            if not commit.decided:
                commit.attempts += 1
                merged.update(commit.offsets)
            self._sent.append(commit)
        if not merged:
            self._end_decided()
            return None
        for commit in self._sent:
            # If one is tried again without the other, it must not go back behind what was sent.
            commit.offsets = {p: merged[p] for p in commit.offsets}
        self._sent_as = identity
        return self._request(merged, identity)

    def _decide(self, commit: Commit, error: ClientError | None) -> None:
        commit.decided = True
        commit.error = error
        commit.offsets = {}

    def _end_decided(self) -> None:
        """Tell those that are decided and have nobody undecided before them; the rest waits."""
        sent, self._sent = deque(self._sent), []
        ended = []
        while sent and sent[0].decided:
            ended.append(sent.popleft())
        self._waiting.extendleft(reversed(sent))
        for commit in ended:
            commit.done(commit.error)

    def _end_overdue(self, now: float) -> None:
        waiting, self._waiting = self._waiting, deque()
        for commit in waiting:
            if commit.decided:
                commit.done(commit.error)
            elif now >= commit.deadline:
                commit.done(self._overdue(commit))
            else:
                self._waiting.append(commit)

    def _overdue(self, commit: Commit) -> ClientError:
        what = f"the commit of offsets of group {self.group_id}"
        return RequestTimeout(what, int(commit.timeout_ms), last=commit.error)

    def _stale(self, commit: Commit, identity: Identity, now: float) -> ClientError | None:
        if commit.attempts and now >= commit.deadline:
            return self._overdue(commit)
        if commit.identity == identity:
            return None
        owned = self._owned()
        if identity[1] >= 0 and owned is not None and owned >= commit.offsets.keys():
            commit.identity = identity
            return None
        return CommitFailedError(
            self.group_id, "the group was rebalanced before they could be stored"
        )

    def partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        """The member gave these up or lost them: commits of them that wait must not be sent."""
        waiting, self._waiting = self._waiting, deque()
        for commit in waiting:
            if partitions.isdisjoint(commit.offsets):
                self._waiting.append(commit)
            else:
                commit.done(
                    CommitFailedError(
                        self.group_id, "their partitions were given up before they could be stored"
                    )
                )

    def _request(self, offsets: Offsets, identity: Identity) -> OffsetCommitRequest:
        from barnabas.wire.messages import offset_commit as api

        member_id, generation = identity
        return api.OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=self.instance_id if generation >= 0 else None,
            topics=[
                api.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        api.OffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=offsets[(topic, index)].offset,
                            committed_leader_epoch=offsets[(topic, index)].leader_epoch,
                            committed_metadata=offsets[(topic, index)].metadata,
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(offsets).items()
            ],
        )

    # -- answers

    def failed(self, now: float, error: ClientError) -> None:
        """No answer came, and whether the offsets are stored is not known."""
        for commit in self._sent:
            if not commit.decided:
                self._judge(commit, error, again=error.retriable and now < commit.deadline)
        self._end_round(now)

    def answered(self, now: float, response: OffsetCommitResponse) -> int:
        """Ends the commits that this decides; the group's error code in it, or 0."""
        codes: dict[TopicPartition, int] = {
            (topic.name, entry.partition_index): entry.error_code
            for topic in response.topics
            for entry in topic.partitions
            if entry.error_code != ErrorCode.NONE
        }
        if not codes:
            self._backoff.reset()
        for commit in self._sent:
            if not commit.decided:
                # What is stored must not be sent again: a later commit may have replaced it.
                commit.offsets = {p: at for p, at in commit.offsets.items() if p in codes}
                error, again = self._verdict(commit, codes)
                self._judge(commit, error, again=again and now < commit.deadline)
        self._end_round(now)
        return next(iter(codes.values()), 0)

    def _judge(self, commit: Commit, error: ClientError | None, *, again: bool) -> None:
        if again:
            commit.error = error
        else:
            self._decide(commit, error)

    def _end_round(self, now: float) -> None:
        if not all(commit.decided for commit in self._sent):
            self._not_before = now + self._backoff.next_ms() / 1000
        self._end_decided()

    def _verdict(
        self, commit: Commit, codes: Mapping[TopicPartition, int]
    ) -> tuple[ClientError | None, bool]:
        """The error of a commit, and whether to try again."""
        if not commit.offsets:
            return None, False
        failed = [(p, codes[p]) for p in commit.offsets]
        partition, code = next((f for f in failed if not to_code(f[1]).retriable), failed[0])
        subject = f"group {self.group_id}, {partition[0]}-{partition[1]}"
        if code in _STRANGER:
            reason = "the group was rebalanced meanwhile, and other members may own the partitions"
            return CommitFailedError(self.group_id, f"{reason} ({to_code(code).name})"), False
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            detail = "The group is being rebalanced; call poll() until that is over, then commit."
            return RebalanceInProgressError(code, detail, subject=subject), False
        error = broker_error(code, _ADVICE.get(to_code(code)), subject=subject)
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return error, commit.attempts < UNKNOWN_TOPIC_ATTEMPTS
        return error, error.retriable

    def close(self, error: ClientError) -> None:
        """End everything that is not decided."""
        ended = [*self._sent, *self._waiting]
        self._sent, self._waiting = [], deque()
        for commit in ended:
            commit.done(error)
