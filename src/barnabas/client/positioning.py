"""Finding out where to read: committed offsets, the offsets of times, and whether they still hold.

Each question is asked once; whatever fails is asked again after the partition's backoff, by the next
`start`. So one leader that does not answer holds up its own partitions only. Answers that come too late
(the partition was sought or given away meanwhile) are recognised by the fetcher.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, Final, NamedTuple

from barnabas.client.cluster import Cluster
from barnabas.client.core.fetcher import Fetcher
from barnabas.client.core.metadata import TopicPartition
from barnabas.client.core.partition_state import PartitionState, Step
from barnabas.client.errors import (
    BrokerError,
    ClientError,
    NoOffsetError,
    VersionError,
    broker_error,
)
from barnabas.wire.errors import ErrorCode

VALIDATES_FROM: Final = 3
"""Before this version OffsetForLeaderEpoch was for brokers, and needed rights over the cluster."""

Committed = Callable[
    [Collection[TopicPartition]], Awaitable[Mapping[TopicPartition, tuple[int, int]]]
]
"""Gives (offset, leader epoch) of those partitions that have a committed offset."""

_LEADER_MAY_KNOW = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
    }
)


class Question(NamedTuple):
    state: PartitionState
    version: int


class Positioning:
    """`changed` is called after every answer."""

    def __init__(
        self,
        cluster: Cluster,
        fetcher: Fetcher,
        *,
        isolation_level: int,
        committed: Committed | None,
        group_id: str | None,
        changed: Callable[[], object],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._cluster = cluster
        self._fetcher = fetcher
        self._isolation_level = isolation_level
        self._committed = committed
        self._group_id = group_id
        self._changed = changed
        self._spawn = spawn
        self._asking: dict[PartitionState, int] = {}

    def start(self, now: float) -> None:
        """Ask all that is unknown and not being asked already."""
        unknown = self._take(Step.UNKNOWN, now)
        if unknown:
            if self._committed is None:
                for question in unknown:
                    self._done(question.state)
                self._reset_by_policy(unknown)
            else:
                self._spawn(self._find_committed(unknown))
        self._by_leader(self._take(Step.RESET, now), self._ask_offsets)
        self._by_leader(self._take(Step.VALIDATE, now), self._ask_epochs)

    def wake_at(self) -> float:
        """When something that failed may be asked again."""
        return min(
            (
                s.not_before
                for s in self._fetcher.partitions.values()
                if s.step is not Step.FETCH and s.failure is None and s not in self._asking
            ),
            default=float("inf"),
        )

    def _take(self, step: Step, now: float) -> list[Question]:
        asking = self._asking
        taken = [
            Question(s, s.version)
            for s in self._fetcher.in_step(step, now)
            if asking.get(s) != s.version
        ]
        for question in taken:
            asking[question.state] = question.version
        return taken

    def _done(self, state: PartitionState) -> None:
        self._asking.pop(state, None)

    # -- committed offsets

    async def _find_committed(self, unknown: list[Question]) -> None:
        assert self._committed is not None
        fetcher = self._fetcher
        try:
            found = await self._committed([q.state.partition for q in unknown])
        except ClientError as error:
            now = self._cluster.reactor.now()
            for question in unknown:
                self._failed(question, error, now)
        else:
            for question in unknown:
                self._done(question.state)
            missing = []
            for question in unknown:
                position = found.get(question.state.partition)
                if position is not None:
                    fetcher.positioned(*question, *position)
                elif fetcher.holds(*question):
                    missing.append(question)
            self._reset_by_policy(missing)
        finally:
            for question in unknown:
                self._done(question.state)
        self._changed()

    def _reset_by_policy(self, missing: list[Question]) -> None:
        if not missing:
            return
        if self._fetcher.reset_policy.is_none:
            places = [q.state.partition for q in missing]
            self._fetcher.fail((q.state for q in missing), NoOffsetError(places, self._group_id))
            return
        for question in missing:
            self._fetcher.reset(question.state.partition)
        self._by_leader(self._take(Step.RESET, self._cluster.reactor.now()), self._ask_offsets)

    # -- questions to leaders

    def _by_leader(
        self, questions: list[Question], ask: Callable[[int, list[Question]], None]
    ) -> None:
        if not questions:
            return
        metadata = self._cluster.metadata
        nodes: dict[int, list[Question]] = {}
        for question in questions:
            nodes.setdefault(metadata.leader(*question.state.partition), []).append(question)
        now = self._cluster.reactor.now()
        for node_id, asked in nodes.items():
            if node_id in metadata.brokers:
                ask(node_id, asked)
                continue
            self._fetcher.needs_metadata = True
            for question in asked:
                self._done(question.state)
                self._fetcher.not_positioned(*question, now, leaderless=True)

    def _ask_offsets(self, node_id: int, asked: list[Question]) -> None:
        from barnabas.wire.messages import list_offsets as api

        wall_ms = self._cluster.reactor.wall_ms()
        topics = []
        for topic, of_topic in by_topic(asked).items():
            partitions = []
            for question in of_topic:
                timestamp = question.state.reset_timestamp
                if timestamp is None:
                    timestamp = self._fetcher.reset_policy.timestamp(wall_ms)
                partitions.append(
                    api.ListOffsetsPartition(
                        partition_index=question.state.partition[1],
                        current_leader_epoch=question.state.leader_epoch,
                        timestamp=timestamp,
                    )
                )
            topics.append(api.ListOffsetsTopic(name=topic, partitions=partitions))
        request = api.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=self._isolation_level,
            topics=topics,
            timeout_ms=self._cluster.settings.request_timeout_ms,
        )
        self._ask(node_id, request, asked, "offsets", self._take_offset)

    def _take_offset(self, question: Question, answer: Any, now: float) -> None:
        self._fetcher.offset_found(*question, answer.offset)

    def _ask_epochs(self, node_id: int, asked: list[Question]) -> None:
        from barnabas.wire.messages import offset_for_leader_epoch as api

        versions = self._cluster.versions(node_id)
        key = api.OffsetForLeaderEpochRequest.API_KEY
        if versions is not None and versions.ranges.get(key, (0, 0))[1] < VALIDATES_FROM:
            self._cannot_validate(asked)
            return
        request = api.OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                api.OffsetForLeaderTopic(
                    topic=topic,
                    partitions=[
                        api.OffsetForLeaderPartition(
                            partition=q.state.partition[1],
                            current_leader_epoch=q.state.leader_epoch,
                            leader_epoch=q.state.next_epoch,
                        )
                        for q in of_topic
                    ],
                )
                for topic, of_topic in by_topic(asked).items()
            ],
        )
        self._ask(node_id, request, asked, "the ends of leader epochs", self._take_epoch)

    def _take_epoch(self, question: Question, answer: Any, now: float) -> None:
        self._fetcher.validated(*question, answer.leader_epoch, answer.end_offset)

    def _cannot_validate(self, asked: Iterable[Question]) -> None:
        for question in asked:
            self._done(question.state)
            self._fetcher.cannot_validate(*question)
        self._cluster.reactor.call_soon(self._changed)

    def _ask(
        self,
        node_id: int,
        request: Any,
        asked: list[Question],
        what: str,
        take: Callable[[Question, Any, float], None],
    ) -> None:
        by_place = {q.state.partition: q for q in asked}

        def done(response: Any, error: ClientError | None) -> None:
            now = self._cluster.reactor.now()
            if isinstance(error, VersionError) and take == self._take_epoch:
                self._cannot_validate(by_place.values())
                return
            if error is None:
                for topic in response.topics:
                    name = topic.name if hasattr(topic, "name") else topic.topic
                    for answer in topic.partitions:
                        index = getattr(answer, "partition_index", None)
                        place = (name, answer.partition if index is None else index)
                        question = by_place.pop(place, None)
                        if question is None:
                            continue
                        if answer.error_code == ErrorCode.NONE:
                            self._done(question.state)
                            take(question, answer, now)
                        else:
                            code_error = broker_error(
                                answer.error_code, subject=question.state.name
                            )
                            self._failed(question, code_error, now)
            missing = error or broker_error(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"Broker {node_id} did not answer about it."
            )
            for question in by_place.values():
                self._failed(question, missing, now, final=error is not None)
            self._changed()

        self._cluster.send(node_id, request, done, what=what)

    def _failed(
        self, question: Question, error: ClientError, now: float, *, final: bool = True
    ) -> None:
        self._done(question.state)
        fetcher = self._fetcher
        if not fetcher.holds(*question):
            return
        passing = (
            error.retriable
            or not final
            or not isinstance(error, (BrokerError, VersionError))
            or (isinstance(error, BrokerError) and error.code in _LEADER_MAY_KNOW)
        )
        if passing:
            fetcher.not_positioned(*question, now)
            fetcher.needs_metadata = True
        else:
            fetcher.fail([question.state], error)


def by_topic(asked: Iterable[Question]) -> dict[str, list[Question]]:
    topics: dict[str, list[Question]] = {}
    for question in asked:
        topics.setdefault(question.state.partition[0], []).append(question)
    return topics
