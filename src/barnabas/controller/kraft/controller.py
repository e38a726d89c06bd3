"""The active controller of a quorum of one, in the process of the broker that asks it.

Starting it replays the metadata log, begins a new epoch, and writes the first records if the log is
new. `start` publishes the image once before it returns, so that a node has its topics before
anything else happens; from then on every committed change is published in order.

A request is decided on the newest image, appended, and answered when it is committed. Everything
here runs on the event loop; only flushing and writing snapshots happen elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.controller.kraft import (
    adoption,
    brokers,
    configs,
    features,
    partitions,
    producer_ids,
    quorum_report,
    topics,
)
from barnabas.controller.kraft.bootstrap import bootstrap_records, check_levels, read_bootstrap
from barnabas.controller.kraft.committing import Committing, Promise, Publisher
from barnabas.controller.kraft.decision import Decision, View
from barnabas.controller.kraft.loading import load
from barnabas.controller.kraft.snapshots import Snapshots, SnapshotSettings
from barnabas.metadata.features import SUPPORTED_FEATURES
from barnabas.metadata.image import Listener, MetadataImage, ResourceType
from barnabas.raft.errors import StorageError
from barnabas.raft.log import LogSettings, MetadataLog
from barnabas.raft.meta_properties import MetaProperties, load_ensemble
from barnabas.raft.quorum import Quorum
from barnabas.raft.quorum_state import QuorumStateFile
from barnabas.raft.voters import VoterNode, VoterSet
from barnabas.wire import uuids
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
)
from barnabas.wire.messages.broker_registration import Listener as RegisteredListener
from barnabas.wire.messages.unregister_broker import UnregisterBrokerResponse
from barnabas.wire.records.metadata import AbortTransactionRecord

if TYPE_CHECKING:
    from barnabas.config.broker import BrokerConfig
    from barnabas.seams import Background, Clock, Disk, Randomness
    from barnabas.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
    from barnabas.wire.messages.broker_heartbeat import (
        BrokerHeartbeatRequest,
        BrokerHeartbeatResponse,
    )
    from barnabas.wire.messages.create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
    )
    from barnabas.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from barnabas.wire.messages.describe_quorum import (
        DescribeQuorumRequest,
        DescribeQuorumResponse,
    )
    from barnabas.wire.messages.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from barnabas.wire.messages.unregister_broker import UnregisterBrokerRequest
    from barnabas.wire.messages.update_features import (
        UpdateFeaturesRequest,
        UpdateFeaturesResponse,
    )

logger = logging.getLogger(__name__)

R = TypeVar("R")


class KraftController:
    """`new_promise` makes futures of the loop; `publish(image, delta)` is told of every committed
    change; `failed(error)` is called once if the metadata log cannot be written any more."""

    def __init__(
        self,
        config: BrokerConfig,
        disk: Disk,
        *,
        background: Background,
        clock: Clock,
        randomness: Randomness,
        new_promise: Callable[[], Any],
        publish: Publisher,
        failed: Callable[[OSError], None] = lambda error: None,
    ) -> None:
        self.node_id = config.node_id
        self.cluster_id = ""
        self.directories: Mapping[str, MetaProperties] = {}
        self._config = config
        self._effective = config
        self._effective_of: tuple[object, object] = (None, None)
        self._disk = disk
        self._background = background
        self._clock = clock
        self._randomness = randomness
        self._new_promise: Callable[[], Promise] = new_promise
        self._publish = publish
        self._failed = failed
        self._lock: object | None = None
        self._broker_epoch = -1
        self.removed_topic_ids: frozenset[bytes] = frozenset()
        self._stopped = False
        self.quorum: Quorum
        self._committing: Committing
        self._snapshots: Snapshots

    # ---- starting and stopping

    async def start(self) -> None:
        """Become the leader; returns when the beginning of the epoch is committed."""
        config, now_ms = self._config, self._clock.now_ms()
        meta = self._identify()
        log = MetadataLog.open(
            self._disk,
            config.metadata_log_dir,
            LogSettings(
                segment_bytes=config.metadata_log_segment_bytes,
                segment_ms=config.metadata_log_segment_ms,
                retention_bytes=config.metadata_max_retention_bytes,
                retention_ms=config.metadata_max_retention_ms,
            ),
            now_ms,
        )
        directory_id = meta.directory_id or uuids.ZERO
        self.quorum = Quorum(
            log,
            QuorumStateFile(self._disk, log.directory),
            self.node_id,
            directory_id,
            self._static_voters(),
        )
        image, delta, loading = load(self.quorum)
        self._committing = Committing(
            log,
            image,
            background=self._background,
            new_promise=self._new_promise,
            publish=self._publish,
            failed=self._failed,
        )
        self.removed_topic_ids = frozenset(loading.removed_topic_ids)
        self._committing.bytes_since_snapshot = loading.bytes_since_snapshot
        self._snapshots = Snapshots(
            self.quorum,
            self._committing,
            self._background,
            SnapshotSettings(
                max_bytes_between=config.metadata_log_max_record_bytes_between_snapshots,
                max_interval_ms=config.metadata_log_max_snapshot_interval_ms,
            ),
            now_ms,
        )
        is_new = image.features.metadata_version == 0
        if not is_new:
            self._warn(image)
        self._publish(image, delta)
        self._committing.note_appended(self.quorum.lead(now_ms), self.quorum.epoch)
        if loading.unfinished:
            reason = "the transaction was not finished by its controller"
            await self._do(lambda view: Decision([AbortTransactionRecord(reason=reason)], None))
        if is_new:
            first = read_bootstrap(self._disk, config.metadata_log_dir)
            await self._do(lambda view: Decision(bootstrap_records(view, first), None))
            self._warn(self._committing.latest)
        await self._committing.settled()
        self._check_failure()

    def _identify(self) -> MetaProperties:
        config = self._config
        log_directory = config.metadata_log_dir
        names = dict.fromkeys((*config.log_dirs, log_directory))
        self.directories = load_ensemble(self._disk, list(names), self.node_id)
        meta = self.directories.get(log_directory)
        if meta is None:
            raise StorageError(f"the metadata log directory {log_directory} cannot be read")
        if log_directory not in config.log_dirs:
            self._lock = self._disk.lock(f"{log_directory}/.lock")
            if self._lock is None:
                raise StorageError(f"{log_directory} is in use by another process")
        self.cluster_id = meta.cluster_id
        return meta

    def _static_voters(self) -> VoterSet:
        """Where the log names no voters: those of the configuration, or this node alone."""
        voters = self._config.controller_quorum_voters
        if not voters:
            return VoterSet((VoterNode(self.node_id),))
        names = self._config.controller_listener_names
        return VoterSet.from_config(voters, names[0] if names else "CONTROLLER")

    def _warn(self, image: MetadataImage) -> None:
        for warning in check_levels(image):
            logger.warning("%s", warning)

    def _check_failure(self) -> None:
        failure = self._committing.failure
        if failure is not None:
            raise StorageError(f"the metadata log cannot be written: {failure}") from failure

    async def stop(self) -> None:
        if self._stopped or not hasattr(self, "_committing"):
            return
        await self._committing.settled()
        self._stopped = True
        self.quorum.resign()
        if self._committing.failure is not None:
            self.quorum.log.abandon()
        else:
            self.quorum.log.close()
        self._lock = None

    # ---- looking

    @property
    def image(self) -> MetadataImage:
        return self._committing.committed

    @property
    def broker_epoch(self) -> int:
        return self._broker_epoch

    @property
    def finalized_levels(self) -> Mapping[str, int]:
        """The levels in use, the quorum's own version among them."""
        levels = dict(self.image.features.finalized_levels)
        if self.quorum.kraft_version:
            levels["kraft.version"] = self.quorum.kraft_version
        return levels

    def supported_features(self) -> Mapping[str, tuple[int, int]]:
        return SUPPORTED_FEATURES

    # ---- deciding

    def _view(self) -> View:
        image = self._committing.latest
        return View(
            image=image,
            config=self._effective_config(image),
            static_config=self._config,
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            next_offset=self.quorum.log.end_offset,
            randomness=self._randomness,
            now_ms=self._clock.now_ms(),
        )

    def _effective_config(self, image: MetadataImage) -> BrokerConfig:
        for_all = image.config(ResourceType.BROKER, "")
        own = image.config(ResourceType.BROKER, str(self.node_id))
        if self._effective_of[0] is not for_all or self._effective_of[1] is not own:
            try:
                self._effective = self._config.with_dynamic(for_all, own)
            except ValueError as error:
                logger.error("settings that were changed at run time are not used: %s", error)
                self._effective = self._config
            self._effective_of = (for_all, own)
        return self._effective

    def _do(self, decide: Callable[[View], Decision[R]]) -> Awaitable[R]:
        if self._stopped:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        self._committing.check()
        view = self._view()
        decision = decide(view)
        return self._committing.commit(
            decision.records, decision.response, self.quorum.epoch, view.now_ms
        )

    # ---- requests

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        return await self._do(lambda view: topics.create_topics(view, request))

    async def delete_topics(self, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        return await self._do(lambda view: topics.delete_topics(view, request))

    async def create_partitions(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        return await self._do(lambda view: partitions.create_partitions(view, request))

    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        return await self._do(lambda view: configs.incremental_alter_configs(view, request))

    async def alter_configs(self, request: AlterConfigsRequest) -> AlterConfigsResponse:
        return await self._do(lambda view: configs.alter_configs(view, request))

    async def update_features(self, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        return await self._do(lambda view: features.update_features(view, request))

    async def describe_quorum(self, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        return quorum_report.describe_quorum(self.quorum, request, self._clock.now_ms())

    async def allocate_producer_ids(self) -> tuple[int, int]:
        epoch = self._broker_epoch
        return await self._do(
            lambda view: producer_ids.allocate_producer_ids(view, self.node_id, epoch)
        )

    # ---- brokers

    async def register_broker(
        self, request: BrokerRegistrationRequest
    ) -> BrokerRegistrationResponse:
        response = await self._do(lambda view: brokers.register_broker(view, request))
        if request.broker_id == self.node_id:
            self._broker_epoch = response.broker_epoch
        return response

    async def register_this_broker(self, listeners: Sequence[Listener]) -> int:
        """Register the broker of this node with these listeners; gives its epoch.

        The controller of this node is registered with it.
        """
        incarnation_id = uuids.random_uuid(self._randomness.randbytes)
        voter = next(each for each in self.quorum.voters.voters if each.voter_id == self.node_id)
        endpoints = [Listener(each.name, each.host, each.port, 0) for each in voter.endpoints]
        await self._do(lambda view: brokers.register_controller(view, incarnation_id, endpoints))
        config = self._config
        found = [self.directories.get(directory) for directory in config.log_dirs]
        request = BrokerRegistrationRequest(
            broker_id=self.node_id,
            cluster_id=self.cluster_id,
            incarnation_id=incarnation_id,
            listeners=[
                RegisteredListener(
                    name=each.name,
                    host=each.host,
                    port=each.port,
                    security_protocol=each.security_protocol,
                )
                for each in listeners
            ],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
            rack=config.broker_rack,
            log_dirs=[each.directory_id for each in found if each and each.directory_id],
        )
        return (await self.register_broker(request)).broker_epoch

    async def heartbeat_broker(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        return await self._do(lambda view: brokers.heartbeat_broker(view, request))

    async def unregister_broker(self, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
        return await self._do(lambda view: brokers.unregister_broker(view, request))

    async def unfence(self) -> None:
        def decide(view: View) -> Decision[None]:
            broker = view.image.brokers[self.node_id]
            return Decision(brokers.unfence_records(view, broker) if broker.fenced else [], None)

        await self._do(decide)

    async def controlled_shutdown(self) -> None:
        def decide(view: View) -> Decision[None]:
            broker = view.image.brokers.get(self.node_id)
            return Decision([] if broker is None else brokers.stop_records(view, broker)[0], None)

        await self._do(decide)

    async def adopt_topic(
        self, name: str, topic_id: bytes, latest_epochs: Mapping[int, int]
    ) -> bool:
        """Make a topic of logs that were found on the disk; False if there is one of that name."""
        return await self._do(
            lambda view: adoption.adopt_topic(view, name, topic_id, latest_epochs)
        )

    # ---- upkeep

    def maintain(self, now_ms: int) -> None:
        if not self._stopped:
            self._snapshots.maintain(now_ms)

    def write_snapshot(self) -> None:
        """Write one now, whether it is due or not."""
        self._snapshots.write(self._clock.now_ms())
