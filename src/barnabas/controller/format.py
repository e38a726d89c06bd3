"""Making data directories ready for a node, and telling what is in them.

Formatting writes into every log directory whose data it will hold (`meta.properties`) and what the
cluster starts with (`bootstrap.checkpoint`). Where the voters stand in the log, which is so unless
the configuration names them, the metadata directory gets a first snapshot with the first voters: this
node alone unless others are named. The files are those of `kafka-storage format`, so that either kind
of node can start on what the other one has formatted.

What would be formatted is decided before anything is written; a directory is marked as formatted
last, so an interrupted run can be repeated.
"""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.controller.initial_controllers import parse_initial_controllers
from barnabas.controller.kraft.bootstrap import write_bootstrap
from barnabas.log.file_names import CLUSTER_METADATA_DIRECTORY
from barnabas.metadata.features import (
    DEFAULT_LEVELS,
    ELR_LEVEL,
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    level_name,
    metadata_version,
)
from barnabas.raft.errors import StorageError
from barnabas.raft.meta_properties import (
    MetaProperties,
    meta_properties_path,
    read_meta_properties,
    write_meta_properties,
)
from barnabas.raft.snapshot import SnapshotId, write_snapshot
from barnabas.raft.voters import VoterEndpoint, VoterNode, VoterSet
from barnabas.wire import uuids

if TYPE_CHECKING:
    from barnabas.config.broker import BrokerConfig
    from barnabas.seams import Disk, Randomness

_DEFAULT_LISTENER = VoterEndpoint("CONTROLLER", "localhost", 9093)
_THIS_NODE_ALONE = VoterSet(())
_FIRST_RELEASE_WITH_ELR_BY_DEFAULT = metadata_version("4.1").level


@dataclass(frozen=True, slots=True)
class Formatted:
    """What was done: the directories that were formatted now, and the levels of all features."""

    cluster_id: str
    directories: tuple[str, ...]
    already_formatted: tuple[str, ...]
    levels: Mapping[str, int]
    dynamic_voters: bool

    @property
    def metadata_version(self) -> str:
        return level_name(METADATA_VERSION, self.levels[METADATA_VERSION])


@dataclass(frozen=True, slots=True)
class DirectoryInfo:
    """One log directory: what it says of itself, or what is wrong with it."""

    path: str
    meta: MetaProperties | None
    problem: str | None


def random_cluster_id(randomness: Randomness) -> str:
    return uuids.to_text(uuids.random_uuid(randomness.randbytes))


def check_cluster_id(cluster_id: str) -> None:
    try:
        uuid = uuids.from_text(cluster_id)
    except ValueError as error:
        raise StorageError(
            f"Cluster ID string {cluster_id} does not appear to be a valid UUID: {error}"
        ) from error
    if uuids.is_reserved(uuid):
        raise StorageError(f"Cluster ID string {cluster_id} is reserved and cannot be used")


def starting_levels(
    release_version: str | None, features: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The levels that a release has by default, changed by those that are named."""
    levels = dict(DEFAULT_LEVELS)
    if release_version is not None:
        try:
            level = metadata_version(release_version).level
        except ValueError as error:
            raise StorageError(str(error)) from error
        levels = {METADATA_VERSION: level}
        if level >= _FIRST_RELEASE_WITH_ELR_BY_DEFAULT:
            levels[ELR_VERSION] = 1
    for name, level in (features or {}).items():
        if name not in SUPPORTED_FEATURES:
            known = ", ".join(SUPPORTED_FEATURES)
            raise StorageError(f"Unsupported feature: {name}. Supported features are: {known}")
        lowest, highest = SUPPORTED_FEATURES[name]
        if not lowest <= level <= highest:
            raise StorageError(
                f"No feature:{name} with feature level {level}; {lowest} to {highest} are known"
            )
        levels[name] = level
    if levels.get(ELR_VERSION) and levels[METADATA_VERSION] < ELR_LEVEL:
        raise StorageError(
            f"{ELR_VERSION} could not be set to 1 because it depends on metadata.version level "
            f"{ELR_LEVEL}"
        )
    return levels


def format_storage(
    disk: Disk,
    config: BrokerConfig,
    *,
    cluster_id: str,
    randomness: Randomness,
    now_ms: int,
    release_version: str | None = None,
    features: Mapping[str, int] | None = None,
    ignore_formatted: bool = False,
    standalone: bool = False,
    initial_controllers: str | None = None,
    no_initial_controllers: bool = False,
) -> Formatted:
    """Format the directories of a configuration; a `StorageError` says why it cannot be done.

    The first voters of a dynamic quorum are this node alone (`standalone`), those that are named
    (`initial_controllers`), or unknown to this node, which is to be added later. A node that knows
    of no other node is alone without being told so.
    """
    check_cluster_id(cluster_id)
    levels = starting_levels(release_version, features)
    voters = _first_voters(config, standalone, initial_controllers, no_initial_controllers)
    dynamic = not config.controller_quorum_voters and config.is_controller
    if KRAFT_VERSION in levels:
        wanted = levels.pop(KRAFT_VERSION)
        if bool(wanted) != dynamic:
            raise StorageError(
                f"kraft.version {wanted} does not fit a configuration "
                f"{'without' if dynamic else 'with'} controller.quorum.voters"
            )
    paths = list(dict.fromkeys((*config.log_dirs, config.metadata_log_dir)))
    present = {path: read_meta_properties(disk, path) for path in paths}
    done = tuple(path for path, meta in present.items() if meta is not None)
    if done and not ignore_formatted:
        raise StorageError(
            f"Log directory {done[0]} is already formatted. Use --ignore-formatted to ignore this "
            "directory and format the others."
        )
    for path in done:
        meta = present[path]
        assert meta is not None
        for name, here, given in (
            ("cluster.id", meta.cluster_id, cluster_id),
            ("node.id", meta.node_id, config.node_id),
        ):
            if here != given:
                raise StorageError(
                    f"Invalid {name} in: {meta_properties_path(path)}. Expected {given}, but read "
                    f"{here}"
                )
    fresh = [path for path in paths if path not in done]
    for path in fresh:
        _format_directory(disk, config, path, cluster_id, levels, voters, randomness, now_ms)
    return Formatted(cluster_id, tuple(fresh), done, levels, dynamic)


def _format_directory(
    disk: Disk,
    config: BrokerConfig,
    path: str,
    cluster_id: str,
    levels: Mapping[str, int],
    voters: VoterSet | None,
    randomness: Randomness,
    now_ms: int,
) -> None:
    directory_id = uuids.random_uuid(randomness.randbytes)
    disk.make_directory(path)
    with contextlib.suppress(PermissionError):
        disk.sync_directory(posixpath.dirname(path.rstrip("/")) or ".")
    write_bootstrap(disk, path, levels, now_ms)
    if voters is not None and path == config.metadata_log_dir:
        directory = f"{path}/{CLUSTER_METADATA_DIRECTORY}"
        disk.make_directory(directory)
        if voters == _THIS_NODE_ALONE:
            voters = VoterSet(
                (VoterNode(config.node_id, directory_id, controller_endpoints(config)),)
            )
        own = next((each for each in voters.voters if each.voter_id == config.node_id), None)
        if own is not None:
            directory_id = own.directory_id
        data = write_snapshot(
            (),
            epoch=0,
            now_ms=now_ms,
            last_contained_timestamp_ms=now_ms,
            kraft_version=1,
            voters=voters,
        )
        disk.write_atomically(f"{directory}/{SnapshotId(0, 0).file_name}", data)
        disk.sync_directory(path)
    meta = MetaProperties(cluster_id, config.node_id, directory_id)
    write_meta_properties(disk, path, meta, now_ms)


def _first_voters(
    config: BrokerConfig,
    standalone: bool,
    initial_controllers: str | None,
    no_initial_controllers: bool,
) -> VoterSet | None:
    """The voters to write down; none where the configuration names them or nobody knows yet."""
    given = [
        name
        for name, is_given in (
            ("--standalone", standalone),
            ("--initial-controllers", initial_controllers is not None),
            ("--no-initial-controllers", no_initial_controllers),
        )
        if is_given
    ]
    if len(given) > 1:
        raise StorageError(f"{given[0]} and {given[1]} cannot be used together")
    if config.controller_quorum_voters:
        if given:
            raise StorageError(
                f"You cannot specify {given[0]} and also set controller.quorum.voters: the "
                "configuration names the voters already"
            )
        return None
    if not config.is_controller:
        if standalone or initial_controllers is not None:
            raise StorageError(
                f"You cannot use {given[0]} on a node that is not a controller (process.roles)"
            )
        return None
    if no_initial_controllers:
        return None
    if initial_controllers is not None:
        names = config.controller_listener_names
        voters = parse_initial_controllers(initial_controllers, names[0] if names else "CONTROLLER")
        if config.node_id not in voters.ids:
            raise StorageError(
                f"The initial controllers {list(voters.ids)} do not include this node "
                f"(node.id {config.node_id})"
            )
        return voters
    if not standalone and len(config.controller_quorum_bootstrap_servers) > 1:
        raise StorageError(
            "Because controller.quorum.voters is not set on this controller and "
            "controller.quorum.bootstrap.servers names several, you must specify one of the "
            "following: --standalone, --initial-controllers, or --no-initial-controllers."
        )
    return _THIS_NODE_ALONE


def controller_endpoints(config: BrokerConfig) -> tuple[VoterEndpoint, ...]:
    """Where other controllers would reach this one."""
    names = config.controller_listener_names
    found = tuple(
        VoterEndpoint(each.name, "localhost" if each.is_any_address else each.host, each.port)
        for each in config.listeners
        if each.name in names
    )
    return found or (_DEFAULT_LISTENER,)


def storage_info(disk: Disk, config: BrokerConfig) -> list[DirectoryInfo]:
    """What every directory of a configuration says of itself."""
    found = []
    for path in dict.fromkeys((*config.log_dirs, config.metadata_log_dir)):
        meta, problem = None, None
        try:
            if not disk.exists(path):
                problem = f"{path} is not a directory"
            else:
                meta = read_meta_properties(disk, path)
                if meta is None:
                    problem = f"{path} is not formatted."
        except (OSError, StorageError) as error:
            problem = str(error)
        found.append(DirectoryInfo(path, meta, problem))
    clusters = {each.meta.cluster_id for each in found if each.meta is not None}
    if len(clusters) > 1:
        listed = ", ".join(sorted(clusters))
        problem = f"The directories belong to different clusters: {listed}"
        found = [DirectoryInfo(each.path, each.meta, each.problem or problem) for each in found]
    return found
