"""A node: everything put together, started in order and stopped in the reverse order.

Start: bind the listeners, load the logs (recovering those that were not closed in order), replay the
metadata log and join its quorum; a node with the controller role answers its peers from then on. A node
with the broker role registers, catches up with the metadata (which tells it what to lead and to follow),
settles what the metadata does not know, asks to be unfenced and opens its listeners.

Stop: move leaderships to other brokers, stop accepting, let requests in flight finish, answer those that
wait, close the coordinators, leave the quorum, flush and close the logs, write the clean-shutdown marks.

A node takes everything from the world through what is handed to it (`World`), so that the same node can
run on a simulated one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from barnabas.api.describe_cluster import BROKERS
from barnabas.api.registry import advertised_versions, load_handlers
from barnabas.config.listeners import SECURITY_PROTOCOLS
from barnabas.config.support import check_supported
from barnabas.config.topic import LogConfig
from barnabas.coordinator.group.config import GroupCoordinatorConfig
from barnabas.coordinator.group.coordinator import OFFSETS_TOPIC, GroupCoordinator
from barnabas.log.disk import RealDisk, ThreadBackground, open_segments_limit
from barnabas.log.manager import LogManager
from barnabas.metadata.image import Listener, ResourceType
from barnabas.raft.errors import StorageError
from barnabas.replica.fetch_session import FetchSessionCache
from barnabas.replica.manager import ReplicaManager
from barnabas.replica.settings import ReplicaSettings
from barnabas.server.auto_create import TopicCreation
from barnabas.server.broker_lifecycle import BrokerLifecycle
from barnabas.server.broker_state import BrokerState, Lifecycle
from barnabas.server.connection import ConnectionSettings
from barnabas.server.connection_limits import ConnectionLimits
from barnabas.server.controller_channel import ControllerChannel
from barnabas.server.controller_server import ControllerServer
from barnabas.server.coordinator_log import ReplicaPartitionLog
from barnabas.server.directory_assignment import DirectoryAssignment
from barnabas.server.endpoint import Advertised, Endpoint
from barnabas.server.live_config import (
    apply_dynamic_config,
    limits_of,
    request_log_of,
    tell_ignored,
)
from barnabas.server.maintenance import Maintenance
from barnabas.server.metadata_cache import MetadataCache
from barnabas.server.network import Network
from barnabas.server.node_metrics import serve_metrics
from barnabas.server.pipeline import Pipeline
from barnabas.server.producer_ids import ProducerIds
from barnabas.server.real import SYSTEM_RANDOMNESS, SocketTransport, SystemClock
from barnabas.server.replication import Replication
from barnabas.server.strays import settle_strays
from barnabas.wire import uuids
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.api.types import Context
    from barnabas.config.broker import BrokerConfig
    from barnabas.metadata.delta import MetadataDelta
    from barnabas.metadata.image import MetadataImage, TopicImage
    from barnabas.seams import Address, Background, Clock, Disk, Randomness, Transport
    from barnabas.server.http import HttpServer
    from barnabas.server.listener import Listener as OpenListener
    from barnabas.server.node_quorum import NodeQuorum
    from barnabas.wire.message import Message
    from barnabas.wire.messages.describe_quorum import (
        DescribeQuorumRequest,
        DescribeQuorumResponse,
    )

logger = logging.getLogger(__name__)

DRAIN_TIMEOUT_S = 5.0
BACKGROUND_THREADS = 4
FALLBACK_HOST = "localhost"


@dataclass(frozen=True, slots=True)
class World:
    """What a node takes from the world."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    transport: Transport
    disk: Disk
    background: Background
    randomness: Randomness


def real_world() -> World:
    """The machine this process runs on; must be called on the event loop."""
    loop = asyncio.get_running_loop()
    executor = ThreadPoolExecutor(BACKGROUND_THREADS, thread_name_prefix="barnabas-background")

    def post(callback):  # type: ignore[no-untyped-def]
        if not loop.is_closed():
            loop.call_soon_threadsafe(callback)

    return World(
        loop=loop,
        clock=SystemClock(),
        transport=SocketTransport(loop),
        disk=RealDisk(),
        background=ThreadBackground(executor, post),
        randomness=SYSTEM_RANDOMNESS,
    )


class Node:
    endpoint_type = BROKERS

    def __init__(self, config: BrokerConfig, world: World) -> None:
        check_supported(config)
        self.static_config = config
        self.config = config
        self.world = world
        self.clock = world.clock
        self.lifecycle = Lifecycle()
        self.node_id = config.node_id
        self.cluster_id = ""
        self.incarnation_id = uuids.random_uuid(world.randomness.randbytes)
        self.failure: str | None = None
        self.network = Network(
            loop=world.loop,
            clock=world.clock,
            transport=world.transport,
            limits=ConnectionLimits(**limits_of(config)),
        )
        self.logs = LogManager(
            world.disk,
            world.background,
            config.log_dirs,
            config_of=self.log_config,
            clock=world.clock,
            randomness=world.randomness,
            broker=config,
            open_files_limit=open_segments_limit(),
        )
        self.replicas = ReplicaManager(
            config.node_id,
            self.logs,
            self.network.wheel,
            defer=self._defer,
            background=world.background,
            flush_before_ack=config.barnabas_flush_before_ack,
            settings=ReplicaSettings.of(config),
        )
        self.logs.failed = self.replicas.directory_failed
        self.replicas.all_directories_failed = self._all_directories_failed
        self.replicas.log_directory_failed = self._directory_failed
        self.advertised = Advertised(
            [
                Endpoint(each.name, each.host, each.port)
                for each in config.advertised_listeners
                if each.host
            ]
            if config.values["advertised.listeners"]
            else []
        )
        self.metadata = MetadataCache(config.node_id, self.advertised, self.replicas.offline)
        self.fetch_sessions = FetchSessionCache(
            config.max_incremental_fetch_session_cache_slots,
            world.randomness,
            config.min_incremental_fetch_session_eviction_ms,
            partitions_here=lambda: len(self.replicas.partitions),
        )
        self.groups = GroupCoordinator(
            log=ReplicaPartitionLog(OFFSETS_TOPIC, self.replicas),
            clock=world.clock,
            schedule=self.network.wheel.add,
            randomness=world.randomness,
            config=_group_config(config),
        )
        self.producer_ids = ProducerIds(self._allocate_producer_ids)
        self.handlers: dict[ApiKey, ModuleType] = {}
        self.maintenance = Maintenance(self)
        self.broker_listeners: list[OpenListener] = []
        self.controller_server = ControllerServer(self) if config.is_controller else None
        self.controller_channel = ControllerChannel(
            node_id=config.node_id,
            environment=self.network.environment,
            clock=world.clock,
            transport=world.transport,
            randomness=world.randomness,
            local=lambda: self.quorum.active_controller,
            leader=self._leader_address,
            quorum=self._ask_quorum,
            image=lambda: self.metadata.image,
            request_timeout_ms=config.request_timeout_ms,
        )
        self.broker_lifecycle = BrokerLifecycle(
            config=config,
            clock=world.clock,
            controller=self.controller_channel,
            incarnation_id=self.incarnation_id,
            offset=lambda: self.metadata.image.offset,
            offline_dirs=self._offline_dirs,
        )
        self.replication = Replication(self)
        self.directory_assignment = DirectoryAssignment(self)
        self.replicas.directory_to_tell = self.directory_assignment.check_partition
        self._quorum: NodeQuorum | None = None
        self._is_catching_up = True
        self._are_logs_loaded = False
        self._starting: asyncio.Task[object] | None = None
        self._waiting_for_image: list[tuple[Callable[[MetadataImage], bool], Any]] = []
        self._advertised_versions: dict[ApiKey, tuple[int, int]] = {}
        self._log_configs: dict[str, LogConfig] = {}
        self._creation = TopicCreation(self)
        self._stopped = asyncio.Event()
        self._stopping: asyncio.Task[None] | None = None
        self.pipeline: Pipeline | None = None
        self.metrics_server: HttpServer | None = None

    # ---- what handlers ask

    @property
    def controller(self) -> ControllerChannel:
        return self.controller_channel

    @property
    def quorum(self) -> NodeQuorum:
        assert self._quorum is not None, "the node has not started"
        return self._quorum

    def _leader_address(self) -> Address | None:
        return self.quorum.leader_address()

    async def _ask_quorum(self, request: Message) -> Any:
        return await self.quorum.ask(request)

    def handle_quorum_request(self, key: ApiKey, context: Context, request: Message) -> object:
        """A broker passes on to the quorum's leader what is asked of the quorum."""
        return self.controller_channel.ask_quorum(request)

    def advertised_versions(self) -> dict[ApiKey, tuple[int, int]]:
        return self._advertised_versions

    async def describe_quorum(self, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        response: DescribeQuorumResponse = await self.controller.describe_quorum(request)
        return response

    def supported_features(self) -> Mapping[str, tuple[int, int]]:
        return self.controller.supported_features()

    def finalized_levels(self) -> Mapping[str, int]:
        return self.quorum.finalized_levels()

    @property
    def port(self) -> int:
        return self.network.listeners[0].addresses[0][1]

    @property
    def bootstrap_servers(self) -> str:
        """Where a client on this machine connects to."""
        listener = self.network.listeners[0]
        host, port = listener.addresses[0]
        told = self.advertised.to_client(listener.name, (host, port))
        if told.host in ("0.0.0.0", "::", "127.0.0.1", "::1", ""):
            return f"localhost:{told.port}"
        return f"{told.host}:{told.port}"

    def log_config(self, topic: str) -> LogConfig:
        """A topic's settings: its own, then the broker's."""
        found = self._log_configs.get(topic)
        if found is None:
            own = self.metadata.image.config(ResourceType.TOPIC, topic)
            found = self._log_configs[topic] = LogConfig.of(own, self.config)
        return found

    def forget_log_configs(self) -> None:
        """The broker's settings, which stand behind those of topics, have changed."""
        self._log_configs.clear()

    async def auto_create_topics(self, names: list[str]) -> dict[str, ErrorCode]:
        """Create what is missing with the broker's defaults; gives the failures."""
        results = await self._creation.create(names)
        return {name: code for name, code in results.items() if code != ErrorCode.NONE}

    async def create_offsets_topic(self) -> ErrorCode:
        return (await self._creation.create([OFFSETS_TOPIC]))[OFFSETS_TOPIC]

    async def _allocate_producer_ids(self) -> tuple[int, int]:
        return await self.controller.allocate_producer_ids()

    async def until_known(
        self, condition: Callable[[MetadataImage], bool], timeout_ms: int | None = None
    ) -> bool:
        """Wait until this node's image is so; False if that takes longer than `timeout_ms`."""
        if condition(self.metadata.image):
            return True
        known = self.world.loop.create_future()
        self._waiting_for_image.append((condition, known))
        timer = None
        if timeout_ms is not None:

            def give_up() -> None:
                if not known.done():
                    known.set_result(False)

            timer = self.network.wheel.add(timeout_ms, give_up)
        try:
            found: bool = await known
        finally:
            if timer is not None:
                timer.cancel()
        return found

    def _tell_waiting(self, image: MetadataImage) -> None:
        still = []
        for condition, known in self._waiting_for_image:
            if known.done():
                continue
            if condition(image):
                known.set_result(True)
            else:
                still.append((condition, known))
        self._waiting_for_image = still

    def metadata_failed(self, error: Exception) -> None:
        """Without its metadata log a node can decide nothing: it stops, so that it is noticed."""
        told = isinstance(error, StorageError)
        self._give_up(str(error) if told else f"the metadata log cannot be written ({error})")

    def _directory_failed(self, path: str) -> None:
        """The controller gives the leaderships of what was there to others."""
        self.broker_lifecycle.beat_soon()

    def _all_directories_failed(self) -> None:
        if self.lifecycle.state is BrokerState.RUNNING or not self._is_catching_up:
            self._give_up("all log directories have failed")

    def _give_up(self, reason: str) -> None:
        logger.critical("%s: shutting down", reason)
        self.failure = reason
        if self._starting is not None:
            self._starting.cancel()  # whatever it waits for will never be
            return
        self._stopping = self._stopping or self.world.loop.create_task(self._tear_down(clean=False))

    # ---- following the metadata

    def publish(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """The committed metadata moved on: do what it says. Never fails half way for one topic."""
        before = self.metadata.image
        self.metadata.publish(image)
        if not self.config.is_broker:
            if self._waiting_for_image:
                self._tell_waiting(image)
            return
        if self.lifecycle.state is BrokerState.RECOVERY:
            self._keep_replaced_directories(image)
        if image.brokers is not before.brokers:
            self.replicas.apply_brokers(image.brokers)
        is_anew = delta.image is not before  # a snapshot replaced what was known
        changed_configs = {*before.configs, *image.configs} if is_anew else delta.changed_configs
        for resource_type, name in changed_configs:
            tell_ignored(resource_type, name, before, image)
            if resource_type == ResourceType.TOPIC:
                self._log_configs.pop(name, None)
                self.logs.update_config(name, self.log_config(name))
                self.replicas.throttle(name, self.log_config(name))
            elif resource_type == ResourceType.BROKER:
                apply_dynamic_config(self)
        if self._is_catching_up:
            if self._waiting_for_image:
                self._tell_waiting(image)
            return
        running = self.lifecycle.state is BrokerState.RUNNING
        deleted = list(delta.deleted_topics.values())
        if is_anew:
            deleted = [
                topic
                for topic_id, topic in before.topics_by_id.items()
                if topic_id not in image.topics_by_id
            ]
        for topic in deleted:
            self.replicas.remove_topic(topic)
            self._log_configs.pop(topic.name, None)
            if topic.name == OFFSETS_TOPIC:
                for index in topic.partitions:
                    self.groups.resign(index)
        for topic in delta.changed_topics.values():
            has_groups = topic.name == OFFSETS_TOPIC
            self.replicas.apply_topic(topic, is_new=running, at_once=has_groups)
            self.directory_assignment.check(topic)
            if has_groups:
                self._lead_groups(topic)
        if deleted:
            self.groups.topics_deleted([(topic.name, topic.topic_id) for topic in deleted])
        if self._waiting_for_image:
            self._tell_waiting(image)

    def _keep_replaced_directories(self, image: MetadataImage) -> None:
        """A directory somebody put in a topic's place names another topic: it is the topic's now."""
        if not self.config.barnabas_adopt_topic_directories:
            return
        for log in tuple(self.logs.logs.values()):
            topic = image.topics.get(log.topic)
            if topic is not None and log.topic_id not in (None, topic.topic_id):
                logger.warning("%s had another topic id and is taken over", log.directory)
                self.logs.give_topic_id(log, topic.topic_id)

    def _lead_groups(self, topic: TopicImage) -> None:
        self.groups.set_partition_count(len(topic.partitions))
        for index, partition in topic.partitions.items():
            if partition.leader == self.node_id:
                self.groups.become_leader(index, partition.leader_epoch)
            else:
                self.groups.resign(index, partition.leader_epoch)

    # ---- lifecycle

    async def start(self) -> None:
        from barnabas.server.node_quorum import NodeQuorum, check_storage, format_if_empty

        self._starting = asyncio.current_task()
        self.lifecycle.become(BrokerState.STARTING)
        if self.config.is_broker:
            self.handlers = load_handlers()
            self._advertised_versions = advertised_versions(
                self.handlers, unstable=self.config.values["unstable.api.versions.enable"]
            )
        try:
            self.lifecycle.become(BrokerState.RECOVERY)
            if self.config.is_broker:
                self._listen()
            if self.controller_server is not None:
                self.controller_server.listen()
            self.metrics_server = serve_metrics(self)
            if self.config.barnabas_format_if_empty:
                format_if_empty(self)
            check_storage(self.world.disk, self.config)
            if self.config.is_broker:
                self.logs.load()
                self._are_logs_loaded = True
            endpoints = self.controller_server.endpoints() if self.controller_server else []
            self._quorum = NodeQuorum(self, endpoints)
            self.cluster_id = self.quorum.cluster_id
            self.replicas.directory_ids = {
                path: meta.directory_id
                for path, meta in self.quorum.directories.items()
                if meta.directory_id is not None
            }
            self.quorum.start()
            if self.controller_server is not None:
                self.controller_server.resume()
                await self.controller_server.start()
            if self.config.is_broker:
                await self._join()
            self.maintenance.start()
        except BaseException as error:
            starting, self._starting = self._starting, None
            if self.failure is not None and starting is not None and starting.cancelling():
                starting.uncancel()
            # A start that is given up, or refused by others, leaves logs that are whole.
            given_up = isinstance(error, asyncio.CancelledError | StorageError)
            whole = given_up and self.failure is None and self._are_logs_loaded
            await self._tear_down(clean=False, are_logs_whole=whole)
            if self.failure is not None:
                raise StorageError(self.failure) from None
            raise
        self._starting = None
        if self.config.is_broker:
            self.groups.start()
        self.lifecycle.become(BrokerState.RUNNING)
        for listener in self.broker_listeners:
            listener.resume()

    async def _join(self) -> None:
        """Become a broker of the cluster: registered, caught up, unfenced."""
        lifecycle = self.broker_lifecycle
        found = [self.quorum.directories.get(name) for name in self.config.log_dirs]
        epoch = await lifecycle.register(
            self.cluster_id,
            self._registered_listeners(),
            [each.directory_id for each in found if each and each.directory_id],
            self.logs.previous_broker_epoch(),
        )
        lifecycle.start_heartbeats()
        self.replication.start()
        await self.until_known(lambda image: image.offset >= epoch)
        self._take_partitions()
        await settle_strays(self)
        await lifecycle.unfence()

    def _take_partitions(self) -> None:
        """From here on partitions follow the metadata. Before, it told of epochs long ago, and to
        lead in one of those would spoil what the logs know of later ones."""
        self._is_catching_up = False
        for topic in self.metadata.image.topics.values():
            self.replicas.apply_topic(topic, is_new=False, at_once=True)
            self.directory_assignment.check(topic)
            if topic.name == OFFSETS_TOPIC:
                self._lead_groups(topic)

    def _registered_listeners(self) -> list[Listener]:
        protocols = self.config.listener_security_protocol_map
        told = []
        for listener in self.broker_listeners:
            endpoint = self.advertised.to_cluster(listener.bound, FALLBACK_HOST)
            protocol = SECURITY_PROTOCOLS[protocols.get(listener.name, "PLAINTEXT")]
            told.append(Listener(listener.name, endpoint.host, endpoint.port, protocol))
        return told

    def _offline_dirs(self) -> list[bytes]:
        """The ids of log directories that failed while the broker ran."""
        live = {each.path for each in self.logs.live_directories()}
        directories = self.quorum.directories
        return [
            meta.directory_id
            for name in self.config.log_dirs
            if name not in live
            and (meta := directories.get(name)) is not None
            and meta.directory_id is not None
        ]

    def _listen(self) -> None:
        """Bind first: a port that is taken is found before anything is written, and a port that
        was left to choose is known. Peers wait in the backlog until the node is ready."""
        self.pipeline = Pipeline(
            self,
            self.handlers,
            clock=self.clock,
            loop=self.world.loop,
            request_log=request_log_of(self.config),
        )
        endpoints = [
            Endpoint(each.name, each.host, each.port) for each in self.config.broker_listeners
        ]
        settings = ConnectionSettings(
            max_request_bytes=self.config.socket_request_max_bytes,
            max_requests_in_flight=self.config.queued_max_requests,
            max_idle_ms=self.config.connections_max_idle_ms,
        )
        self.broker_listeners = self.network.listen(
            endpoints,
            self.pipeline,
            settings,
            backlog=self.config.socket_listen_backlog_size,
            send_buffer_bytes=self.config.socket_send_buffer_bytes,
            receive_buffer_bytes=self.config.socket_receive_buffer_bytes,
        )
        for listener in self.broker_listeners:
            listener.pause()

    async def stop(self, *, controlled: bool = True) -> None:
        """`controlled`: other brokers take over first what this one leads."""
        if self._stopping is None:
            self._stopping = self.world.loop.create_task(self._stop(controlled))
        await asyncio.shield(self._stopping)

    async def _stop(self, controlled: bool) -> None:
        if self.lifecycle.state is BrokerState.RUNNING:
            self.lifecycle.become(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
            if controlled and self._has_others:
                # Leaderships move away while this broker still serves them and its followers.
                await self._controlled_shutdown()
        await self._tear_down(clean=True)

    @property
    def _has_others(self) -> bool:
        return len(self.metadata.image.brokers) > 1 or not self.config.is_controller

    async def _controlled_shutdown(self) -> None:
        if self.config.is_broker and self.config.controlled_shutdown_enable:
            await self.broker_lifecycle.shut_down()

    async def _tear_down(self, *, clean: bool, are_logs_whole: bool = False) -> None:
        self.lifecycle.become(BrokerState.SHUTTING_DOWN)
        self.maintenance.stop()
        self.network.stop_accepting()
        self.network.stop_reading()
        replicas = self.replicas
        replicas.fetch_purgatory.force_complete_all()
        self.groups.stop()
        await self.network.drain(DRAIN_TIMEOUT_S)
        for purgatory in (replicas.produce_purgatory, replicas.delete_records_purgatory):
            purgatory.force_complete_all()
        if clean and self._quorum is not None and not self._has_others:
            await self._controlled_shutdown()
        self.replication.close()
        self.replicas.close()
        self.directory_assignment.close()
        await self.broker_lifecycle.stop()
        if self.controller_server is not None:
            await self.controller_server.stop()
        if self._quorum is not None:
            await self._quorum.stop(clean=clean)
        self.controller_channel.close()
        if self.metrics_server is not None:
            self.metrics_server.close()
        self.network.close()
        epoch = self.broker_lifecycle.broker_epoch
        if are_logs_whole and epoch < 0:
            epoch = self.logs.previous_broker_epoch()
        self.logs.close(clean=clean or are_logs_whole, broker_epoch=epoch)
        self.lifecycle.become(BrokerState.NOT_RUNNING)
        self._stopped.set()

    async def kill(self) -> None:
        """End as if the process had died: nobody is told, nothing more is written."""
        if self._stopping is not None:
            await self.stop()
            return
        self._stopping = self.world.loop.create_task(self._die())
        await asyncio.shield(self._stopping)

    async def _die(self) -> None:
        self.lifecycle.become(BrokerState.SHUTTING_DOWN)
        self.maintenance.stop()
        self.replication.close()
        self.replicas.close()
        self.directory_assignment.close()
        self.network.close()
        self.controller_channel.close()
        if self._quorum is not None:
            self._quorum.kill()
        await self.broker_lifecycle.stop()
        if self.controller_server is not None:
            await self.controller_server.stop()
        self.groups.stop()
        for pipeline in self.network.pipelines:
            await pipeline.drain(0)
        if self.metrics_server is not None:
            self.metrics_server.close()
        self.logs.close(clean=False)
        self.lifecycle.become(BrokerState.NOT_RUNNING)
        self._stopped.set()

    async def stopped(self) -> None:
        await self._stopped.wait()

    def _defer(self, callback):  # type: ignore[no-untyped-def]
        """Run at the end of this turn of the loop, flushing what it sends together."""
        self.world.loop.call_soon(self.network.environment.turn.run, callback)


def _group_config(config: BrokerConfig) -> GroupCoordinatorConfig:
    return GroupCoordinatorConfig(
        group_min_session_timeout_ms=config.group_min_session_timeout_ms,
        group_max_session_timeout_ms=config.group_max_session_timeout_ms,
        group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        group_max_size=config.group_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        offsets_commit_timeout_ms=config.offsets_commit_timeout_ms,
        offsets_topic_num_partitions=config.offsets_topic_num_partitions,
        offsets_topic_compression_codec=config.values["offsets.topic.compression.codec"],
    )
