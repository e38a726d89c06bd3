"""The cluster itself: brokers, features, the controller quorum, log directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from barnabas.client.administration.base import AdminBase
from barnabas.client.administration.topics import by_topic
from barnabas.client.core.metadata import Broker, TopicPartition
from barnabas.client.core.versions import BrokerVersions
from barnabas.client.errors import BrokerError, ClientError, broker_error
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode

METADATA_TOPIC = "__cluster_metadata"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str | None
    controller_id: int
    brokers: tuple[Broker, ...]
    fenced: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    node_id: int
    directory_id: bytes
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


@dataclass(frozen=True, slots=True)
class LogDirReplica:
    topic: str
    partition: int
    size_in_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    path: str
    error: BrokerError | None
    replicas: tuple[LogDirReplica, ...]
    total_bytes: int = -1
    usable_bytes: int = -1
    is_cordoned: bool = False


class NodeAdmin(AdminBase):
    def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """Brokers, cluster id and controller; by Metadata where DescribeCluster is not offered."""
        from barnabas.wire.messages import describe_cluster as api

        opened = self.cluster.retry("a broker", self.cluster.any_connection)
        if not opened.versions.offers(ApiKey.DESCRIBE_CLUSTER):
            self.cluster.retry("the cluster's metadata", self.cluster.refresh)
            metadata = self.cluster.metadata
            return ClusterDescription(
                metadata.cluster_id, metadata.controller_id, tuple(metadata.brokers.values())
            )
        request = api.DescribeClusterRequest()
        if include_fenced and opened.choose_version(request) >= 2:
            request.include_fenced_brokers = True
        response = self.cluster.call_any(request, "the description of the cluster")
        if response.error_code != ErrorCode.NONE:
            raise broker_error(response.error_code, response.error_message)
        return ClusterDescription(
            response.cluster_id,
            response.controller_id,
            tuple(Broker(b.broker_id, b.host, b.port, b.rack) for b in response.brokers),
            frozenset(b.broker_id for b in response.brokers if b.is_fenced),
        )

    def broker_versions(self) -> dict[int, tuple[Broker, BrokerVersions | ClientError]]:
        """What every broker offers; the error for one that cannot be asked."""
        self.cluster.retry("the cluster's metadata", self.cluster.refresh)
        answers: dict[int, tuple[Broker, BrokerVersions | ClientError]] = {}
        for node_id, broker in sorted(self.cluster.metadata.brokers.items()):
            try:
                answers[node_id] = (broker, self.cluster.connection(node_id).versions)
            except ClientError as error:
                answers[node_id] = (broker, error)
        return answers

    def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: int = UPGRADE,
        validate_only: bool = False,
    ) -> None:
        """Set finalized feature levels; 0 removes one."""
        from barnabas.wire.messages import update_features as api

        request = api.UpdateFeaturesRequest(
            timeout_ms=self.timeout_ms,
            validate_only=validate_only,
            feature_updates=[
                api.FeatureUpdateKey(
                    feature=name, max_version_level=level, upgrade_type=upgrade_type
                )
                for name, level in levels.items()
            ],
        )
        response = self.cluster.call_controller(request, "the change of features")
        if response.error_code != ErrorCode.NONE:
            raise broker_error(response.error_code, response.error_message)
        for result in response.results:
            if result.error_code != ErrorCode.NONE:
                subject = f"feature {result.feature}"
                raise broker_error(result.error_code, result.error_message, subject=subject)

    def describe_quorum(self) -> QuorumDescription:
        """Leader, epoch and replicas of the controllers' metadata log."""
        from barnabas.wire.messages import describe_quorum as api

        request_topic, request_partition = _request_structs(api.DescribeQuorumRequest)
        request = api.DescribeQuorumRequest(
            topics=[
                request_topic(
                    topic_name=METADATA_TOPIC, partitions=[request_partition(partition_index=0)]
                )
            ]
        )
        response = self.cluster.call_any(request, "the description of the quorum")
        if response.error_code != ErrorCode.NONE:
            raise broker_error(response.error_code, response.error_message)
        partition = response.topics[0].partitions[0]
        if partition.error_code != ErrorCode.NONE:
            raise broker_error(partition.error_code, partition.error_message)
        return QuorumDescription(
            partition.leader_id,
            partition.leader_epoch,
            partition.high_watermark,
            tuple(_replica(r) for r in partition.current_voters),
            tuple(_replica(r) for r in partition.observers),
        )

    def describe_log_dirs(
        self,
        brokers: Sequence[int] | None = None,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> dict[int, list[LogDir]]:
        """Every log directory of these brokers (all by default) with the replicas in it."""
        from barnabas.wire.messages import describe_log_dirs as api

        self.cluster.retry("the cluster's metadata", self.cluster.refresh)
        wanted = None if partitions is None else by_topic(partitions)
        answers: dict[int, list[LogDir]] = {}
        for node_id in sorted(self.cluster.metadata.brokers) if brokers is None else brokers:
            request = api.DescribeLogDirsRequest(
                topics=None
                if wanted is None
                else [
                    api.DescribableLogDirTopic(topic=topic, partitions=indexes)
                    for topic, indexes in wanted.items()
                ]
            )
            response = self.cluster.call_node(node_id, request, "its log directories")
            if response.error_code != ErrorCode.NONE:
                raise broker_error(response.error_code, subject=f"broker {node_id}")
            answers[node_id] = [_log_dir(result) for result in response.results]
        return answers


def _request_structs(request: Any) -> tuple[Any, Any]:
    """The nested classes of a request whose response has structs of the same names."""
    topic = next(f.struct for f in request.FIELDS if f.name == "topics")
    return topic, next(f.struct for f in topic.FIELDS if f.name == "partitions")


def _replica(state: Any) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.replica_directory_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )


def _log_dir(result: Any) -> LogDir:
    return LogDir(
        result.log_dir,
        None if result.error_code == ErrorCode.NONE else broker_error(result.error_code),
        tuple(
            LogDirReplica(
                topic.name, p.partition_index, p.partition_size, p.offset_lag, p.is_future_key
            )
            for topic in result.topics
            for p in topic.partitions
        ),
        result.total_bytes,
        result.usable_bytes,
        result.is_cordoned,
    )
