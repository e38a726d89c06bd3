"""Topics, partitions, their offsets and producers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from barnabas.client.administration.base import AdminBase
from barnabas.client.core.metadata import PartitionInfo, TopicInfo, TopicPartition
from barnabas.client.errors import BrokerError, ClientError, broker_error
from barnabas.wire.errors import ErrorCode
from barnabas.wire.uuids import ZERO

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6
_LIST_OFFSETS_NEEDS = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
DESCRIBE_PAGE_PARTITIONS = 2_000
CREATE_WITH_DEFAULTS_SINCE = 4
NO_SUCH_TOPIC = "There is no such topic."


@dataclass(frozen=True, slots=True)
class NewTopic:
    """-1 leaves partitions or replication factor to the cluster's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """What became of one topic in a create, delete or alter call."""

    name: str
    error: BrokerError | None = None
    topic_id: bytes = ZERO
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OffsetAnswer:
    """An offset that a timestamp or a symbolic position stands for; -1 when there is none."""

    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class ProducerState:
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int


class TopicAdmin(AdminBase):
    async def list_topics(self) -> list[TopicInfo]:
        """All topics, sorted by name, with their partitions."""
        found = await self.cluster.retry("the list of topics", lambda: self.cluster.refresh(None))
        return [found[name] for name in sorted(found)]

    async def find_topics(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        """These topics, once every one of them has leaders; one that is not there is an error."""
        return await self.cluster.topics(names)

    async def describe_topics(self, names: Sequence[str]) -> dict[str, TopicInfo | ClientError]:
        """Each topic or the error that stands in its place, with eligible leaders where offered."""
        if not names:
            return {}
        if not self.cluster.metadata.brokers:
            await self.cluster.retry("the cluster's metadata", self.cluster.refresh)
        from barnabas.wire.api_keys import ApiKey

        if (await self.cluster.offered()).offers(ApiKey.DESCRIBE_TOPIC_PARTITIONS):
            found = await self._describe_by_pages(sorted(set(names)))
        else:
            found = await self.cluster.retry("metadata", lambda: self.cluster.refresh(names))
        answer: dict[str, TopicInfo | ClientError] = {}
        for name in names:
            topic = found.get(name)
            if topic is None:
                code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                answer[name] = broker_error(code, NO_SUCH_TOPIC, subject=f"topic {name}")
            elif topic.error_code != ErrorCode.NONE:
                answer[name] = _described_error(topic)
            else:
                answer[name] = topic
        return answer

    async def _describe_by_pages(self, names: list[str]) -> dict[str, TopicInfo]:
        from barnabas.wire.messages import describe_topic_partitions as api

        topics: dict[str, TopicInfo] = {}
        cursor: Any = None
        while True:
            wanted = [n for n in names if cursor is None or n >= cursor.topic_name]
            request = api.DescribeTopicPartitionsRequest(
                topics=[api.TopicRequest(name=name) for name in wanted],
                response_partition_limit=DESCRIBE_PAGE_PARTITIONS,
                cursor=None
                if cursor is None
                else api.Cursor(
                    topic_name=cursor.topic_name, partition_index=cursor.partition_index
                ),
            )
            response = await self.cluster.request_any(request, what="the description of topics")
            for entry in response.topics:
                topic = topics.setdefault(
                    entry.name,
                    TopicInfo(entry.name, entry.topic_id, entry.is_internal, {}, entry.error_code),
                )
                for p in entry.partitions:
                    topic.partitions[p.partition_index] = PartitionInfo(
                        entry.name,
                        p.partition_index,
                        p.leader_id,
                        p.leader_epoch,
                        tuple(p.replica_nodes),
                        tuple(p.isr_nodes),
                        tuple(p.offline_replicas),
                        p.error_code,
                        _optional(p.eligible_leader_replicas),
                        _optional(p.last_known_elr),
                    )
            cursor = response.next_cursor
            if cursor is None:
                return topics

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[TopicOutcome]:
        """Partitions and replication factor that are not given are the cluster's defaults."""
        from barnabas.wire.messages import create_topics as api

        versions = await self.cluster.offered()
        if versions.choose_for(api.CreateTopicsRequest()) < CREATE_WITH_DEFAULTS_SINCE:
            topics = await self._with_defaults(topics)
        request = api.CreateTopicsRequest(
            topics=[
                api.CreatableTopic(
                    name=topic.name,
                    num_partitions=-1 if topic.assignments else topic.partitions,
                    replication_factor=-1 if topic.assignments else topic.replication_factor,
                    assignments=[
                        api.CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids))
                        for index, ids in sorted(topic.assignments.items())
                    ],
                    configs=[
                        api.CreatableTopicConfig(name=name, value=value)
                        for name, value in topic.configs.items()
                    ],
                )
                for topic in topics
            ],
            timeout_ms=self.timeout_ms,
            validate_only=validate_only,
        )
        response = await self._call_controller(request, "the creation of topics", "topics")
        return [
            TopicOutcome(
                answer.name,
                _error(answer.error_code, answer.error_message, f"topic {answer.name}"),
                answer.topic_id,
                answer.num_partitions,
                answer.replication_factor,
                {c.name: c.value for c in answer.configs or ()},
            )
            for answer in response.topics
        ]

    async def _with_defaults(self, topics: Sequence[NewTopic]) -> list[NewTopic]:
        """What a broker before 2.4 does not fill in by itself, from the controller's settings."""
        wanting = [
            t
            for t in topics
            if not t.assignments and (t.partitions < 0 or t.replication_factor < 0)
        ]
        if not wanting:
            return list(topics)
        defaults = await self._defaults_of_new_topics()
        return [
            topic
            if topic.assignments
            else replace(
                topic,
                partitions=defaults[0] if topic.partitions < 0 else topic.partitions,
                replication_factor=defaults[1]
                if topic.replication_factor < 0
                else topic.replication_factor,
            )
            for topic in topics
        ]

    async def _defaults_of_new_topics(self) -> tuple[int, int]:
        from barnabas.wire.messages import describe_configs as api

        names = ["num.partitions", "default.replication.factor"]

        async def attempt() -> Any:
            node_id = await self.cluster.controller()
            resource = api.DescribeConfigsResource(
                resource_type=4, resource_name=str(node_id), configuration_keys=names
            )
            request = api.DescribeConfigsRequest(resources=[resource])
            response = await self.cluster.request(node_id, request, what="the defaults of topics")
            result = response.results[0]
            if result.error_code != ErrorCode.NONE:
                raise broker_error(result.error_code, result.error_message)
            return result

        result = await self.cluster.retry("the defaults of topics", attempt)
        found = {entry.name: int(entry.value) for entry in result.configs}
        return found[names[0]], found[names[1]]

    async def delete_topics(self, names: Sequence[str]) -> list[TopicOutcome]:
        from barnabas.wire.messages import delete_topics as api

        request = api.DeleteTopicsRequest(
            topics=[api.DeleteTopicState(name=name) for name in names],
            topic_names=list(names),
            timeout_ms=self.timeout_ms,
        )
        if (await self.cluster.offered()).choose_for(request) < 6:
            request.topics = []
        response = await self._call_controller(request, "the deletion of topics", "responses")
        return [
            TopicOutcome(
                answer.name or "",
                _error(answer.error_code, answer.error_message, f"topic {answer.name}"),
                answer.topic_id,
            )
            for answer in response.responses
        ]

    async def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> list[TopicOutcome]:
        """Raise topics to so many partitions; `assignments` are the replicas of the new ones."""
        from barnabas.wire.messages import create_partitions as api

        request = api.CreatePartitionsRequest(
            topics=[
                api.CreatePartitionsTopic(
                    name=name,
                    count=count,
                    assignments=None
                    if not assignments or name not in assignments
                    else [
                        api.CreatePartitionsAssignment(broker_ids=list(ids))
                        for ids in assignments[name]
                    ],
                )
                for name, count in counts.items()
            ],
            timeout_ms=self.timeout_ms,
            validate_only=validate_only,
        )
        response = await self._call_controller(request, "the new partitions", "results")
        return [
            TopicOutcome(
                answer.name,
                _error(answer.error_code, answer.error_message, f"topic {answer.name}"),
                partitions=counts.get(answer.name, -1),
            )
            for answer in response.results
        ]

    async def _call_controller(self, request: Any, what: str, answers: str) -> Any:
        """Like Cluster.call_controller, for responses that carry the error in each answer."""

        async def attempt() -> Any:
            response = await self.cluster.request(
                await self.cluster.controller(),
                request,
                what=what,
                timeout_ms=self.timeout_ms + 1_000,
            )
            if any(a.error_code == ErrorCode.NOT_CONTROLLER for a in getattr(response, answers)):
                raise broker_error(int(ErrorCode.NOT_CONTROLLER))
            return response

        return await self.cluster.retry(what, attempt, timeout_ms=self.timeout_ms)

    # -- partitions

    def _forget_leader(self, item: TopicPartition) -> None:
        self.cluster.metadata.forget(item[0])

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: int = 0
    ) -> dict[TopicPartition, OffsetAnswer | ClientError]:
        """The offset for a timestamp in ms, or for LATEST, EARLIEST, … of each partition."""
        from barnabas.wire.messages import list_offsets as api

        needs = max((_LIST_OFFSETS_NEEDS.get(t, 1) for t in timestamps.values()), default=1)

        async def ask(node_id: int, partitions: list[TopicPartition]) -> dict[TopicPartition, Any]:
            request = api.ListOffsetsRequest(
                replica_id=-1,
                isolation_level=isolation_level,
                timeout_ms=self.timeout_ms,
                topics=[
                    api.ListOffsetsTopic(
                        name=topic,
                        partitions=[
                            api.ListOffsetsPartition(
                                partition_index=index, timestamp=timestamps[(topic, index)]
                            )
                            for index in indexes
                        ],
                    )
                    for topic, indexes in by_topic(partitions).items()
                ],
            )
            versions = await self.cluster.connected(node_id)
            version = versions.choose(2, needs, type(request).VERSIONS[1])
            response = await self.cluster.request(node_id, request, version=version, what="offsets")
            answers: dict[TopicPartition, Any] = {}
            for topic in response.topics:
                for p in topic.partitions:
                    place = (topic.name, p.partition_index)
                    error = _error(p.error_code, None, f"{topic.name}-{p.partition_index}")
                    answers[place] = error or OffsetAnswer(p.offset, p.timestamp, p.leader_epoch)
            return answers

        return await self._about_partitions(timestamps, ask, "offsets")

    async def _about_partitions(
        self, partitions: Iterable[TopicPartition], ask: Any, what: str
    ) -> dict[TopicPartition, Any]:
        asked = list(partitions)
        unknown = {t for t, _ in asked if t not in self.cluster.metadata.topics}
        if unknown:
            await self.cluster.retry("metadata", lambda: self.cluster.refresh(unknown))
        return await self.spread(asked, self.cluster.leader, ask, self._forget_leader, what)

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | ClientError]:
        """Drop records before these offsets (-1: all); the new low watermarks."""
        from barnabas.wire.messages import delete_records as api

        async def ask(node_id: int, partitions: list[TopicPartition]) -> dict[TopicPartition, Any]:
            request = api.DeleteRecordsRequest(
                topics=[
                    api.DeleteRecordsTopic(
                        name=topic,
                        partitions=[
                            api.DeleteRecordsPartition(
                                partition_index=index, offset=offsets[(topic, index)]
                            )
                            for index in indexes
                        ],
                    )
                    for topic, indexes in by_topic(partitions).items()
                ],
                timeout_ms=self.timeout_ms,
            )
            response = await self.cluster.request(
                node_id, request, what="the deletion of records", timeout_ms=self.timeout_ms + 1_000
            )
            return {
                (topic.name, p.partition_index): _error(
                    p.error_code, None, f"{topic.name}-{p.partition_index}"
                )
                or p.low_watermark
                for topic in response.topics
                for p in topic.partitions
            }

        return await self._about_partitions(offsets, ask, "the deletion of records")

    async def end_offsets_of_epochs(
        self, epochs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[int, int] | ClientError]:
        """For each partition and leader epoch: the (epoch, end offset) its leader knows."""
        from barnabas.wire.messages import offset_for_leader_epoch as api

        async def ask(node_id: int, partitions: list[TopicPartition]) -> dict[TopicPartition, Any]:
            request = api.OffsetForLeaderEpochRequest(
                replica_id=-1,
                topics=[
                    api.OffsetForLeaderTopic(
                        topic=topic,
                        partitions=[
                            api.OffsetForLeaderPartition(
                                partition=index, leader_epoch=epochs[(topic, index)]
                            )
                            for index in indexes
                        ],
                    )
                    for topic, indexes in by_topic(partitions).items()
                ],
            )
            response = await self.cluster.request(node_id, request, what="epoch end offsets")
            return {
                (t.topic, p.partition): _error(p.error_code, None, f"{t.topic}-{p.partition}")
                or (p.leader_epoch, p.end_offset)
                for t in response.topics
                for p in t.partitions
            }

        return await self._about_partitions(epochs, ask, "epoch end offsets")

    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerState] | ClientError]:
        """The producers each partition's leader remembers."""
        from barnabas.wire.messages import describe_producers as api

        async def ask(node_id: int, asked: list[TopicPartition]) -> dict[TopicPartition, Any]:
            request = api.DescribeProducersRequest(
                topics=[
                    api.TopicRequest(name=topic, partition_indexes=indexes)
                    for topic, indexes in by_topic(asked).items()
                ]
            )
            response = await self.cluster.request(node_id, request, what="producer states")
            answers: dict[TopicPartition, Any] = {}
            for topic in response.topics:
                for p in topic.partitions:
                    place = (topic.name, p.partition_index)
                    answers[place] = _error(p.error_code, p.error_message, f"{place[0]}-{place[1]}")
                    if answers[place] is None:
                        answers[place] = [
                            ProducerState(
                                s.producer_id,
                                s.producer_epoch,
                                s.last_sequence,
                                s.last_timestamp,
                                s.coordinator_epoch,
                                s.current_txn_start_offset,
                            )
                            for s in p.active_producers
                        ]
            return answers

        return await self._about_partitions(partitions, ask, "producer states")


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """{topic: [index, …]}, both sorted."""
    grouped: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        grouped.setdefault(topic, []).append(index)
    return grouped


def _described_error(topic: TopicInfo) -> BrokerError:
    unknown = topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    detail = NO_SUCH_TOPIC if unknown else None
    return broker_error(topic.error_code, detail, subject=f"topic {topic.name}")


def _optional(ids: list[int] | None) -> tuple[int, ...] | None:
    return None if ids is None else tuple(ids)


def _error(code: int, detail: str | None, subject: str) -> BrokerError | None:
    return None if code == ErrorCode.NONE else broker_error(code, detail, subject=subject)
