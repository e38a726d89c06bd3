"""A node's part in the quorum: its replica of the metadata log, and the controller over it.

Every node has a replica. One with the controller role votes, and its controller decides while the
replica leads; one with the broker role alone observes. Here they are put together on the node's
directories, driven, and taken down again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from barnabas.controller.format import format_storage, random_cluster_id, storage_info
from barnabas.controller.kraft.controller import KraftController
from barnabas.controller.kraft.replica import MetadataReplica
from barnabas.controller.kraft.snapshots import SnapshotSettings
from barnabas.log.file_names import CLUSTER_METADATA_DIRECTORY
from barnabas.metadata.features import KRAFT_VERSION
from barnabas.raft.errors import StorageError
from barnabas.raft.log import LogSettings, MetadataLog, find_snapshots
from barnabas.raft.meta_properties import MetaProperties, load_ensemble
from barnabas.raft.quorum_state import QuorumStateFile
from barnabas.raft.raft import Raft
from barnabas.raft.settings import RaftSettings
from barnabas.raft.snapshot import check_snapshot
from barnabas.raft.voters import VoterEndpoint, VoterNode, VoterSet
from barnabas.server.raft_driver import RaftDriver
from barnabas.wire import uuids
from barnabas.wire.api_keys import ApiKey, request_class

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.config.broker import BrokerConfig
    from barnabas.delayed.timer import Timeout
    from barnabas.seams import Address, Disk
    from barnabas.server.endpoint import Endpoint
    from barnabas.server.node import Node
    from barnabas.wire.message import Message

logger = logging.getLogger(__name__)

TICK_MS: Final = 100
STALL_MS: Final = 1_000
"""Later than that, and the loop was held up, or the whole process."""


class NodeQuorum:
    """Made when the node's listeners are bound, so that their ports are known."""

    def __init__(self, node: Node, endpoints: list[Endpoint]) -> None:
        world, config = node.world, node.config
        self._node = node
        self._lock: object | None = None
        self._tick: Timeout | None = None
        self._tick_due_ms = 0
        self._stopped = False
        self.directories: Mapping[str, MetaProperties] = {}
        meta = self._identify()
        self.cluster_id = meta.cluster_id
        self.log = MetadataLog.open(
            world.disk,
            config.metadata_log_dir,
            LogSettings(
                segment_bytes=config.metadata_log_segment_bytes,
                segment_ms=config.metadata_log_segment_ms,
                retention_bytes=config.metadata_max_retention_bytes,
                retention_ms=config.metadata_max_retention_ms,
            ),
            world.clock.now_ms(),
        )
        state_file = QuorumStateFile(world.disk, self.log.directory)
        self.replica = MetadataReplica(
            publish=node.publish,
            background=world.background,
            clock=world.clock,
            settings=SnapshotSettings(
                max_bytes_between=config.metadata_log_max_record_bytes_between_snapshots,
                max_interval_ms=config.metadata_log_max_snapshot_interval_ms,
            ),
            failed=node.metadata_failed,
        )
        self.raft = Raft(
            log=self.log,
            state_file=state_file,
            node_id=config.node_id,
            directory_id=meta.directory_id or uuids.ZERO,
            cluster_id=meta.cluster_id,
            can_vote=config.is_controller,
            static_voters=_static_voters(config),
            bootstrap_servers=_addresses(config.controller_quorum_bootstrap_servers),
            own_endpoints=tuple(
                VoterEndpoint(each.name, each.host, each.port) for each in endpoints
            ),
            settings=_settings(config),
            randomness=world.randomness,
            listener=self.replica,
        )
        self.replica.attach(self.raft)
        self.controller: KraftController | None = None
        if config.is_controller:
            self.controller = KraftController(
                config,
                self.raft,
                self.replica,
                disk=world.disk,
                cluster_id=meta.cluster_id,
                clock=world.clock,
                randomness=world.randomness,
                new_promise=world.loop.create_future,
            )
        self.driver = RaftDriver(
            self.raft,
            node_id=config.node_id,
            environment=node.network.environment,
            clock=world.clock,
            transport=world.transport,
            randomness=world.randomness,
            background=world.background,
            failed=node.metadata_failed,
        )

    def _identify(self) -> MetaProperties:
        config, disk = self._node.config, self._node.world.disk
        directory = config.metadata_log_dir
        names = dict.fromkeys((*config.log_dirs, directory))
        self.directories = load_ensemble(disk, list(names), config.node_id)
        meta = self.directories.get(directory)
        if meta is None:
            raise StorageError(f"the metadata log directory {directory} cannot be read")
        if directory not in config.log_dirs or not config.is_broker:
            self._lock = disk.lock(f"{directory}/.lock")
            if self._lock is None:
                raise StorageError(f"{directory} is in use by another process")
        return meta

    # Life

    def start(self) -> None:
        self.driver.start()
        self._set_tick()

    async def stop(self, *, clean: bool = True) -> None:
        """Leave the quorum in order: what is under way is finished, then the others are told."""
        if self._stopped:
            return
        if not clean:
            self.kill()
            return
        self._stopped = True
        if self._tick is not None:
            self._tick.cancel()
        if self.controller is not None:
            await self.controller.stop()
        self.driver.shutdown()
        await self.driver.said_goodbye()
        self.driver.close()
        self.log.close()
        self._lock = None

    def kill(self) -> None:
        """As if the process had died."""
        if not self._stopped:
            self._stopped = True
            if self._tick is not None:
                self._tick.cancel()
            self.driver.close()
            self.log.abandon()
            self._lock = None

    def _set_tick(self) -> None:
        self._tick_due_ms = self._node.clock.monotonic_ms() + TICK_MS
        self._tick = self._node.network.wheel.add(TICK_MS, self._on_tick)

    def _on_tick(self) -> None:
        now_ms = self._node.clock.now_ms()
        late_ms = self._node.clock.monotonic_ms() - self._tick_due_ms
        try:
            self.replica.maintain(now_ms)
            if self.controller is not None:
                if late_ms >= STALL_MS:
                    self.controller.stalled(late_ms)
                self.controller.tick(now_ms)
        finally:
            if not self._stopped:
                self._set_tick()

    # What others ask

    @property
    def active_controller(self) -> KraftController | None:
        """This node's controller if the node leads the quorum."""
        return self.controller if self.raft.is_leader else None

    def leader_address(self) -> Address | None:
        if self.raft.leader_id < 0 or self.raft.is_leader:
            return None
        names = self._node.config.controller_listener_names
        return self.raft.leader_endpoint(names[0] if names else "")

    def finalized_levels(self) -> Mapping[str, int]:
        """The levels in use: those of the image, and the quorum's own, which only its log tells."""
        levels = dict(self.replica.image.features.finalized_levels)
        if self.raft.kraft_version:
            levels[KRAFT_VERSION] = self.raft.kraft_version
        return levels

    async def ask(self, request: Message) -> Any:
        """Ask this node's replica as another node would."""
        answer: asyncio.Future[Any] = self._node.world.loop.create_future()

        def reply(response: Message) -> None:
            if not answer.done():
                answer.set_result(response)

        key = ApiKey(request.API_KEY)
        version = request_class(key).VERSIONS[1]
        self.driver.handle(key, version, request, reply, "")
        return await answer


def _settings(config: BrokerConfig) -> RaftSettings:
    names = config.controller_listener_names
    return RaftSettings(
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
        fetch_snapshot_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
        auto_join=config.controller_quorum_auto_join_enable,
        listener_name=names[0] if names else "",
    )


def _static_voters(config: BrokerConfig) -> VoterSet | None:
    """Where the log names no voters: those of the configuration; a node that knows of no other
    is a quorum by itself."""
    names = config.controller_listener_names
    if config.controller_quorum_voters:
        return VoterSet.from_config(
            config.controller_quorum_voters, names[0] if names else "CONTROLLER"
        )
    if config.is_controller and not config.controller_quorum_bootstrap_servers:
        return VoterSet((VoterNode(config.node_id),))
    return None


def check_storage(disk: Disk, config: BrokerConfig) -> None:
    """Refuse directories that are not this node's or that cannot be used, as long as nothing in them
    has been touched: to load a log is to repair it."""
    names = dict.fromkeys((*config.log_dirs, config.metadata_log_dir))
    if config.metadata_log_dir not in load_ensemble(disk, list(names), config.node_id):
        return  # a disk that is dead: whoever opens it says so
    directory = f"{config.metadata_log_dir}/{CLUSTER_METADATA_DIRECTORY}"
    _check_voters(config, QuorumStateFile(disk, directory))
    for newest in find_snapshots(disk, directory)[-1:]:
        path = f"{directory}/{newest.file_name}"
        check_snapshot(disk.read_file(path), path)


def _check_voters(config: BrokerConfig, state_file: QuorumStateFile) -> None:
    """Static voters are the same on every node and at every start: two majorities of different
    sets need not know of one another."""
    configured = _static_voters(config)
    stored = state_file.voters()
    if not config.controller_quorum_voters or configured is None or not stored:
        return
    expected = tuple(sorted(configured.ids))
    if stored != expected:
        raise StorageError(
            f"controller.quorum.voters names the voters {list(expected)}, but {state_file.path} was "
            f"written under {list(stored)}. Set controller.quorum.voters as it was, on every node; "
            "voters can be changed only in a quorum with kraft.version 1"
        )


def _addresses(servers: tuple[str, ...]) -> list[Address]:
    found = []
    for server in servers:
        host, _, port = server.rpartition(":")
        found.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return found


def format_if_empty(node: Node) -> None:
    """Give unformatted directories an identity: the cluster's, or that of a new cluster."""
    world, config = node.world, node.config
    known = [each.meta.cluster_id for each in storage_info(world.disk, config) if each.meta]
    done = format_storage(
        world.disk,
        config,
        cluster_id=known[0] if known else random_cluster_id(world.randomness),
        randomness=world.randomness,
        now_ms=world.clock.now_ms(),
        ignore_formatted=True,
    )
    for directory in done.directories:
        logger.info("formatted %s: cluster id %s", directory, done.cluster_id)
