"""Where replicas are and who leads: elections, reassignments between brokers and log directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from barnabas.client.administration.base import AdminBase
from barnabas.client.administration.topics import by_topic
from barnabas.client.core.metadata import TopicPartition
from barnabas.client.errors import BrokerError, ClientError, broker_error
from barnabas.wire.errors import ErrorCode

PREFERRED, UNCLEAN = 0, 1


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A move that has not ended: `replicas` are all that there are now, the old ones included."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(replica for replica in self.replicas if replica not in self.removing)


class ReplicaAdmin(AdminBase):
    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, election_type: int = PREFERRED
    ) -> dict[TopicPartition, BrokerError | None]:
        """Elect leaders, by default of all partitions that need it; "not needed" is an answer."""
        from barnabas.wire.messages import elect_leaders as api

        request = api.ElectLeadersRequest(
            election_type=election_type,
            topic_partitions=None
            if partitions is None
            else [
                api.TopicPartitions(topic=topic, partitions=indexes)
                for topic, indexes in by_topic(partitions).items()
            ],
            timeout_ms=self.timeout_ms,
        )
        response = await self._ask_controller(request, "the election of leaders")
        return {
            (topic.topic, p.partition_id): _error(
                p.error_code, p.error_message, f"{topic.topic}-{p.partition_id}"
            )
            for topic in response.replica_election_results
            for p in topic.partition_result
        }

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> dict[TopicPartition, BrokerError | None]:
        """Begin to move partitions to these brokers; None ends the move that is under way."""
        from barnabas.wire.messages import alter_partition_reassignments as api

        request = api.AlterPartitionReassignmentsRequest(
            timeout_ms=self.timeout_ms,
            topics=[
                api.ReassignableTopic(
                    name=topic,
                    partitions=[
                        api.ReassignablePartition(
                            partition_index=index, replicas=_listed(targets[(topic, index)])
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(targets).items()
            ],
        )
        if not allow_replication_factor_change:
            request.allow_replication_factor_change = False
        response = await self._ask_controller(request, "the reassignment of partitions")
        return {
            (topic.name, p.partition_index): _error(
                p.error_code, p.error_message, f"{topic.name}-{p.partition_index}"
            )
            for topic in response.responses
            for p in topic.partitions
        }

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The moves under way, of these partitions or of all."""
        from barnabas.wire.messages import list_partition_reassignments as api

        request = api.ListPartitionReassignmentsRequest(
            timeout_ms=self.timeout_ms,
            topics=None
            if partitions is None
            else [
                api.ListPartitionReassignmentsTopics(name=topic, partition_indexes=indexes)
                for topic, indexes in by_topic(partitions).items()
            ],
        )
        response = await self._ask_controller(request, "the list of reassignments")
        return {
            (topic.name, p.partition_index): Reassignment(
                tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
            )
            for topic in response.topics
            for p in topic.partitions
        }

    async def alter_replica_log_dirs(
        self, moves: Mapping[tuple[str, int, int], str]
    ) -> dict[tuple[str, int, int], ClientError | None]:
        """Move replicas (topic, partition, broker) to other directories of their brokers."""
        from barnabas.wire.messages import alter_replica_log_dirs as api

        answers: dict[tuple[str, int, int], ClientError | None] = {}
        brokers: dict[int, dict[str, list[TopicPartition]]] = {}
        for (topic, index, broker), path in moves.items():
            brokers.setdefault(broker, {}).setdefault(path, []).append((topic, index))
        for broker, places in sorted(brokers.items()):
            request = api.AlterReplicaLogDirsRequest(
                dirs=[
                    api.AlterReplicaLogDir(
                        path=path,
                        topics=[
                            api.AlterReplicaLogDirTopic(name=topic, partitions=indexes)
                            for topic, indexes in by_topic(partitions).items()
                        ],
                    )
                    for path, partitions in places.items()
                ]
            )
            try:
                response = await self.cluster.request_node(
                    broker, request, what="the move between directories"
                )
            except ClientError as error:
                answers.update(
                    {(t, i, broker): error for found in places.values() for t, i in found}
                )
                continue
            for topic in response.results:
                for p in topic.partitions:
                    subject = f"replica {topic.topic_name}-{p.partition_index} on broker {broker}"
                    answers[(topic.topic_name, p.partition_index, broker)] = _error(
                        p.error_code, None, subject
                    )
        return answers

    async def _ask_controller(self, request: Any, what: str) -> Any:
        async def attempt() -> Any:
            response = await self.cluster.request(
                await self.cluster.controller(),
                request,
                what=what,
                timeout_ms=self.timeout_ms + 1_000,
            )
            if response.error_code != ErrorCode.NONE:
                message = getattr(response, "error_message", None)
                raise broker_error(response.error_code, message)
            return response

        return await self.cluster.retry(what, attempt)


def _listed(replicas: Sequence[int] | None) -> list[int] | None:
    return None if replicas is None else list(replicas)


def _error(code: int, detail: str | None, subject: str) -> BrokerError | None:
    return None if code == ErrorCode.NONE else broker_error(code, detail, subject=subject)
