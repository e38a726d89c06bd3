"""The controller: decides what the metadata becomes, while its replica of the log leads.

There is one on every node with the controller role, and the active one is that whose replica leads.
The others follow along through `MetadataReplica` and answer NOT_CONTROLLER. When one becomes
active, everything that was decided before is committed and in its image; it finishes a transaction
that its predecessor left open by aborting it, and writes the first records if the log is new.

A request is decided on the newest image, appended, and answered when it is committed. Everything
here runs on the event loop; only flushing and writing snapshots happen elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.controller.kraft import (
    adoption,
    brokers,
    configs,
    directories,
    elections,
    features,
    isr,
    partitions,
    producer_ids,
    reassignment,
    topics,
)
from barnabas.controller.kraft.bootstrap import bootstrap_records, check_levels, read_bootstrap
from barnabas.controller.kraft.committing import Change, Committing, Promise
from barnabas.controller.kraft.decision import Decision, View
from barnabas.controller.kraft.heartbeats import Heartbeats
from barnabas.metadata.features import SUPPORTED_FEATURES
from barnabas.metadata.image import MetadataImage, ResourceType
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.records.metadata import AbortTransactionRecord

if TYPE_CHECKING:
    from barnabas.config.broker import BrokerConfig
    from barnabas.controller.kraft.replica import MetadataReplica
    from barnabas.raft.raft import Raft
    from barnabas.seams import Clock, Disk, Randomness
    from barnabas.wire.message import Message
    from barnabas.wire.messages.allocate_producer_ids import (
        AllocateProducerIdsRequest,
        AllocateProducerIdsResponse,
    )
    from barnabas.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
    from barnabas.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from barnabas.wire.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    )
    from barnabas.wire.messages.assign_replicas_to_dirs import (
        AssignReplicasToDirsRequest,
        AssignReplicasToDirsResponse,
    )
    from barnabas.wire.messages.broker_heartbeat import (
        BrokerHeartbeatRequest,
        BrokerHeartbeatResponse,
    )
    from barnabas.wire.messages.broker_registration import (
        BrokerRegistrationRequest,
        BrokerRegistrationResponse,
    )
    from barnabas.wire.messages.controller_registration import (
        ControllerRegistrationRequest,
        ControllerRegistrationResponse,
    )
    from barnabas.wire.messages.create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
    )
    from barnabas.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
    from barnabas.wire.messages.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from barnabas.wire.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )
    from barnabas.wire.messages.unregister_broker import (
        UnregisterBrokerRequest,
        UnregisterBrokerResponse,
    )
    from barnabas.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

logger = logging.getLogger(__name__)

R = TypeVar("R")


class KraftController:
    """`new_promise` makes futures of the loop."""

    def __init__(
        self,
        config: BrokerConfig,
        raft: Raft,
        replica: MetadataReplica,
        *,
        disk: Disk,
        cluster_id: str,
        clock: Clock,
        randomness: Randomness,
        new_promise: Callable[[], Any],
    ) -> None:
        self.node_id = config.node_id
        self.cluster_id = cluster_id
        self.raft = raft
        self.replica = replica
        self.heartbeats = Heartbeats(config.broker_session_timeout_ms)
        self._config = config
        self._effective = config
        self._effective_of: tuple[object, object] = (None, None)
        self._disk = disk
        self._clock = clock
        self._randomness = randomness
        self._new_promise: Callable[[], Promise] = new_promise
        self._committing: Committing | None = None
        self._balanced_ms = self._unclean_ms = 0
        replica.controller = self

    # ---- leading

    @property
    def is_active(self) -> bool:
        return self._committing is not None

    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""
        return self.replica.image

    def began_leading(self, epoch: int) -> None:
        now_ms = self._clock.now_ms()
        image = self.replica.image
        is_new = image.features.metadata_version == 0
        if not is_new:
            self._warn(image)
        self._committing = Committing(self.raft, image, epoch, self._new_promise)
        monotonic_ms = self._clock.monotonic_ms()
        self.heartbeats.begin(image.brokers.values(), monotonic_ms)
        self._balanced_ms = self._unclean_ms = monotonic_ms
        logger.info("the controller of node %d is active in epoch %d", self.node_id, epoch)
        if self.replica.in_transaction:
            reason = "the transaction was not finished by its controller"
            self._committing.append([AbortTransactionRecord(reason=reason)], now_ms)
        if is_new:
            first = read_bootstrap(self._disk, self._config.metadata_log_dir)
            self._committing.append(bootstrap_records(self._view(), first), now_ms)
            self._warn(self._committing.latest)

    def _warn(self, image: MetadataImage) -> None:
        for warning in check_levels(image):
            logger.warning("%s", warning)

    def stopped_leading(self) -> None:
        committing, self._committing = self._committing, None
        if committing is not None:
            logger.info("the controller of node %d is not active any more", self.node_id)
            committing.give_up(self._refusal())

    def committed(self, last_offset: int) -> Change | None:
        """The change that this controller wrote as the batch that ends there."""
        return None if self._committing is None else self._committing.committed(last_offset)

    async def stop(self) -> None:
        """Wait until everything that was decided is committed."""
        if self._committing is not None and self.raft.failure is None:
            try:
                await self._committing.settled()
            except ApiError as error:
                logger.info("the controller stops while changes wait: %s", error.code.name)

    # ---- looking

    def supported_features(self) -> Mapping[str, tuple[int, int]]:
        return SUPPORTED_FEATURES

    # ---- deciding

    def _refusal(self) -> ApiError:
        failure = self.raft.failure
        if failure is not None:
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata log failed: {failure}")
        return ApiError(ErrorCode.NOT_CONTROLLER)

    def _active(self) -> Committing:
        if self._committing is None or self.raft.failure is not None:
            raise self._refusal()
        return self._committing

    def _view(self) -> View:
        committing = self._active()
        image = committing.latest
        return View(
            image=image,
            config=self._effective_config(image),
            static_config=self._config,
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            next_offset=self.raft.log.end_offset,
            randomness=self._randomness,
            now_ms=self._clock.now_ms(),
            monotonic_ms=self._clock.monotonic_ms(),
            replicas=committing.replicas,
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

    def _do(
        self, decide: Callable[[View], Decision[R]], *, of_broker: bool = False
    ) -> Awaitable[R]:
        """What keeps a broker in service never waits behind what its clients ask for."""
        committing = self._active()
        if not of_broker:
            committing.check()
        view = self._view()
        decision = decide(view)
        return committing.commit(decision.records, decision.response, view.now_ms)

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

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        return await self._do(lambda view: isr.alter_partition(view, request))

    async def elect_leaders(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        return await self._do(lambda view: elections.elect_leaders(view, request))

    async def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        return await self._do(
            lambda view: reassignment.alter_partition_reassignments(view, request)
        )

    async def assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest
    ) -> AssignReplicasToDirsResponse:
        return await self._do(lambda view: directories.assign_replicas_to_dirs(view, request))

    async def register_controller(
        self, request: ControllerRegistrationRequest
    ) -> ControllerRegistrationResponse:
        return await self._do(lambda view: brokers.register_controller(view, request))

    async def update_features(self, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        level = features.quorum_level(request)

        def decide(view: View) -> Decision[UpdateFeaturesResponse]:
            decision = features.update_features(view, request, self.raft)
            accepted = decision.response.error_code == ErrorCode.NONE
            if accepted and level is not None and not request.validate_only:
                self.raft.upgrade_kraft_version(level, view.now_ms)
            return decision

        return await self._do(decide)

    async def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        return await self._do(
            lambda view: Decision(
                [], reassignment.list_partition_reassignments(view.image, request)
            )
        )

    async def allocate_producer_ids_for(
        self, request: AllocateProducerIdsRequest
    ) -> AllocateProducerIdsResponse:
        return await self._do(lambda view: producer_ids.allocate_producer_ids(view, request))

    async def adopt_topic(
        self, name: str, topic_id: bytes, latest_epochs: Mapping[int, int]
    ) -> bool:
        """Make a topic of logs that were found on the disk; False if there is one of that name."""
        return await self._do(
            lambda view: adoption.adopt_topic(view, name, topic_id, latest_epochs)
        )

    # ---- brokers

    async def register_broker(
        self, request: BrokerRegistrationRequest
    ) -> BrokerRegistrationResponse:
        def decide(view: View) -> Decision[BrokerRegistrationResponse]:
            decision = brokers.register_broker(view, request, self.heartbeats)
            offset = view.next_offset + len(decision.records) - 1
            epoch = decision.response.broker_epoch
            self.heartbeats.registered(request.broker_id, epoch, offset, view.monotonic_ms)
            return decision

        return await self._do(decide, of_broker=True)

    async def heartbeat_broker(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        def decide(view: View) -> Decision[BrokerHeartbeatResponse]:
            decision = brokers.heartbeat_broker(view, request, self.heartbeats)
            self.heartbeats.touch(
                request.broker_id,
                request.broker_epoch,
                request.current_metadata_offset,
                view.monotonic_ms,
            )
            if decision.records and request.want_shut_down:
                offset = view.next_offset + len(decision.records) - 1
                self.heartbeats.shutting_down(request.broker_id, offset)
            return decision

        return await self._do(decide, of_broker=True)

    async def unregister_broker(self, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
        response = await self._do(lambda view: brokers.unregister_broker(view, request))
        self.heartbeats.remove(request.broker_id)
        return response

    # ---- by itself

    def stalled(self, stalled_ms: int) -> None:
        """This process did nothing else for so long: heartbeats that came may still be unread."""
        if self._committing is not None:
            logger.warning(
                "node %d was busy or suspended for %d ms: brokers are not blamed for that silence",
                self.node_id,
                stalled_ms,
            )
            self.heartbeats.excuse(stalled_ms, self._clock.monotonic_ms())

    def tick(self, now_ms: int) -> None:
        """Called often: fence brokers that are silent, and now and then hold elections."""
        if self._committing is None or self.raft.failure is not None:
            return
        monotonic_ms = self._clock.monotonic_ms()
        try:
            for broker_id in self.heartbeats.expired(self._committing.latest, monotonic_ms):
                logger.info("broker %d is fenced: its session has ended", broker_id)
                view = self._view()
                self._write(brokers.fence_records(view, view.image.brokers[broker_id]), now_ms)
            config = self._effective_config(self._committing.latest)
            if monotonic_ms - self._unclean_ms >= config.unclean_leader_election_interval_ms:
                self._unclean_ms = monotonic_ms
                self._write(elections.elect_unclean(self._view()), now_ms)
            interval_ms = config.leader_imbalance_check_interval_seconds * 1000
            due = monotonic_ms - self._balanced_ms >= interval_ms
            if config.auto_leader_rebalance_enable and due:
                self._balanced_ms = monotonic_ms
                self._write(elections.balance_leaders(self._view()), now_ms)
        except ApiError as error:
            logger.warning("upkeep of the metadata waits: %s", error.message or error.code.name)

    def _write(self, records: list[Message], now_ms: int) -> None:
        if records:
            self._active().append(records, now_ms)
