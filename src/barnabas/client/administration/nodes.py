"""The cluster itself: brokers, features, log directories."""

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

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
BROKERS, CONTROLLERS = 1, 2


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str | None
    controller_id: int
    brokers: tuple[Broker, ...]
    fenced: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Feature:
    """What a node supports and what the cluster has finalized; 0: not in use."""

    name: str
    lowest: int
    highest: int
    finalized: int


@dataclass(frozen=True, slots=True)
class Features:
    """`epoch` is the metadata offset at which the node last saw the finalized levels."""

    epoch: int
    features: tuple[Feature, ...]


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
    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """Brokers (or controllers, if those are asked), cluster id and controller.

        By Metadata where DescribeCluster is not offered.
        """
        from barnabas.wire.messages import describe_cluster as api

        versions = await self.cluster.offered()
        if not versions.offers(ApiKey.DESCRIBE_CLUSTER):
            await self.cluster.retry("the cluster's metadata", self.cluster.refresh)
            metadata = self.cluster.metadata
            return ClusterDescription(
                metadata.cluster_id, metadata.controller_id, tuple(metadata.brokers.values())
            )
        request = api.DescribeClusterRequest()
        if self.cluster.asks_controllers:
            request.endpoint_type = CONTROLLERS
        if include_fenced and versions.choose_for(request) >= 2:
            request.include_fenced_brokers = True
        response = await self.cluster.request_any(request, what="the description of the cluster")
        if response.error_code != ErrorCode.NONE:
            raise broker_error(response.error_code, response.error_message)
        return ClusterDescription(
            response.cluster_id,
            response.controller_id,
            tuple(Broker(b.broker_id, b.host, b.port, b.rack) for b in response.brokers),
            frozenset(b.broker_id for b in response.brokers if b.is_fenced),
        )

    async def unregister_broker(self, broker_id: int) -> None:
        """Forget a broker that is not coming back."""
        from barnabas.wire.messages import unregister_broker as api

        request = api.UnregisterBrokerRequest(broker_id=broker_id)
        response = await self.cluster.request_controller(
            request, what=f"broker {broker_id} to be forgotten"
        )
        if response.error_code != ErrorCode.NONE:
            raise broker_error(response.error_code, response.error_message)

    async def describe_features(self, node_id: int | None = None) -> Features:
        """Supported ranges and finalized levels, as one node (any by default) tells them."""
        told = await self.cluster.offered(node_id)
        names = sorted({*told.supported_features, *told.finalized_features})
        return Features(
            told.finalized_features_epoch,
            tuple(
                Feature(
                    name,
                    *told.supported_features.get(name, (0, 0)),
                    told.finalized_features.get(name, (0, 0))[1],
                )
                for name in names
            ),
        )

    async def broker_versions(self) -> dict[int, tuple[Broker, BrokerVersions | ClientError]]:
        """What every broker offers; the error for one that cannot be asked."""
        await self.cluster.retry("the cluster's metadata", self.cluster.refresh)
        answers: dict[int, tuple[Broker, BrokerVersions | ClientError]] = {}
        for node_id, broker in sorted(self.cluster.metadata.brokers.items()):
            try:
                answers[node_id] = (broker, await self.cluster.connected(node_id))
            except ClientError as error:
                answers[node_id] = (broker, error)
        return answers

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: int = UPGRADE,
        validate_only: bool = False,
    ) -> None:
        """Set finalized feature levels; 0 removes one. All of them or none."""
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
        response = await self.cluster.request_controller(request, what="the change of features")
        if response.error_code != ErrorCode.NONE:
            raise broker_error(response.error_code, response.error_message)
        for result in response.results:
            if result.error_code != ErrorCode.NONE:
                subject = f"feature {result.feature}"
                raise broker_error(result.error_code, result.error_message, subject=subject)

    async def describe_log_dirs(
        self,
        brokers: Sequence[int] | None = None,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[int, list[LogDir]]:
        """Every log directory of these brokers (all by default) with the replicas in it."""
        from barnabas.wire.messages import describe_log_dirs as api

        await self.cluster.retry("the cluster's metadata", self.cluster.refresh)
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
            response = await self.cluster.request_node(
                node_id, request, what="its log directories", timeout_ms=timeout_ms
            )
            if response.error_code != ErrorCode.NONE:
                raise broker_error(response.error_code, subject=f"broker {node_id}")
            answers[node_id] = [_log_dir(result) for result in response.results]
        return answers


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
