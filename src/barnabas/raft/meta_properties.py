"""`meta.properties`: whose data a directory holds.

Every log directory has one, written when it is formatted: the cluster's id, the node's id, and an
id of the directory itself. A node refuses directories of another cluster or another node, because
mixing them up loses data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from barnabas.config.properties import PropertiesError, read_properties, write_properties
from barnabas.log.file_names import META_PROPERTIES
from barnabas.raft.errors import StorageError
from barnabas.seams import Disk
from barnabas.wire import uuids

_VERSION = "1"
_WHAT_HELPS = (
    "It names the cluster and the node that the directory belongs to. Restore it from a copy: "
    "version=1, node.id, the cluster.id that the other nodes have, and the directory.id by which "
    "`quorum describe` and the metadata know the directory."
)


@dataclass(frozen=True, slots=True)
class MetaProperties:
    cluster_id: str
    node_id: int
    directory_id: bytes | None

    def settings(self) -> dict[str, str]:
        settings = {
            "cluster.id": self.cluster_id,
            "node.id": str(self.node_id),
            "version": _VERSION,
        }
        if self.directory_id is not None:
            settings["directory.id"] = uuids.to_text(self.directory_id)
        return settings


def meta_properties_path(directory: str) -> str:
    return f"{directory}/{META_PROPERTIES}"


def read_meta_properties(disk: Disk, directory: str) -> MetaProperties | None:
    """None if the directory is not formatted; a `StorageError` if its file makes no sense."""
    path = meta_properties_path(directory)
    if not disk.exists(path):
        return None
    try:
        given = read_properties(disk.read_file(path).decode("utf-8"))
    except (UnicodeDecodeError, PropertiesError) as error:
        raise StorageError(f"{path} is not a properties file: {error}. {_WHAT_HELPS}") from error
    version = given.get("version")
    if version not in ("0", "1"):
        raise StorageError(
            f"{path} has version {version or 'none'}; only versions 0 and 1 are known. {_WHAT_HELPS}"
        )
    number = given.get("node.id", given.get("broker.id", ""))
    if not number.isdecimal():
        raise StorageError(
            f"{path} has no node.id, or one that is no number: {number!r}. {_WHAT_HELPS}"
        )
    cluster_id = given.get("cluster.id", "")
    if not cluster_id:
        raise StorageError(f"{path} has no cluster.id. {_WHAT_HELPS}")
    text = given.get("directory.id")
    try:
        directory_id = None if text is None else uuids.from_text(text)
    except ValueError as error:
        raise StorageError(
            f"{path} has a directory.id that is none: {error}. {_WHAT_HELPS}"
        ) from error
    return MetaProperties(cluster_id, int(number), directory_id)


def write_meta_properties(disk: Disk, directory: str, meta: MetaProperties, now_ms: int) -> None:
    moment = datetime.fromtimestamp(now_ms // 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    text = write_properties(meta.settings(), comment=f"\n{moment}")
    disk.write_atomically(meta_properties_path(directory), text.encode("ascii"))


def load_ensemble(
    disk: Disk, directories: Sequence[str], node_id: int
) -> Mapping[str, MetaProperties]:
    """The files of all directories that can be read, checked against one another and `node_id`.

    A directory that fails to be read (a dead disk) is left out; one that is not formatted is an
    error, as one with another cluster's or node's id is.
    """
    found: dict[str, MetaProperties] = {}
    unformatted = []
    for directory in directories:
        try:
            meta = read_meta_properties(disk, directory)
        except OSError:
            continue
        if meta is None:
            if disk.exists(directory) and not _can_be_listed(disk, directory):
                continue
            unformatted.append(directory)
        else:
            found[directory] = meta
    if unformatted and not found:
        raise StorageError(
            f"No `{META_PROPERTIES}` found in {', '.join(unformatted)}: "
            "format the directory first (storage format), or correct log.dirs"
        )
    if unformatted:
        raise StorageError(
            f"No `{META_PROPERTIES}` found in {', '.join(unformatted)} although other log "
            "directories are formatted: format the missing ones (storage format "
            "--ignore-formatted)"
        )
    _check_ids(found, node_id)
    return found


def _can_be_listed(disk: Disk, directory: str) -> bool:
    try:
        disk.list(directory)
    except OSError:
        return False
    return True


def _check_ids(found: Mapping[str, MetaProperties], node_id: int) -> None:
    clusters = {meta.cluster_id: directory for directory, meta in found.items()}
    if len(clusters) > 1:
        listed = ", ".join(f"{cluster} in {where}" for cluster, where in clusters.items())
        raise StorageError(
            f"The log directories belong to different clusters: {listed}. Let log.dirs name "
            "directories of one cluster"
        )
    directory_ids: dict[bytes, str] = {}
    for directory, meta in found.items():
        if meta.node_id != node_id:
            raise StorageError(
                f"{directory} belongs to node {meta.node_id}, as its {META_PROPERTIES} says, and this "
                f"node is {node_id}. Nothing was changed. Let log.dirs name the directories of node "
                f"{node_id}, or set node.id={meta.node_id} if the data was moved; for a new node "
                "format an empty directory."
            )
        if meta.directory_id is None:
            continue
        other = directory_ids.setdefault(meta.directory_id, directory)
        if other != directory:
            raise StorageError(
                f"{other} and {directory} have the same directory.id "
                f"{uuids.to_text(meta.directory_id)}: one is a copy of the other"
            )
