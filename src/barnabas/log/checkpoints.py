"""The small files of a log directory: checkpoints, `partition.metadata`, `meta.properties`, the
clean-shutdown marker.

All of them are replaced whole and atomically. A checkpoint is text: a version line, a line with the
number of entries, one entry a line. Whatever does not parse is `CorruptCheckpoint`; the caller
decides between going on without (a recovery point only costs time) and failing the directory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.seams import Disk

CHECKPOINT_VERSION = "0"
PARTITION_METADATA_VERSION = 0

TopicPartition = tuple[str, int]


class CorruptCheckpoint(Exception):
    """A file exists but is not what it should be."""


def _read_entries(disk: Disk, path: str, columns: int) -> list[list[str]]:
    try:
        text = disk.read_file(path).decode("utf-8")
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint(f"{path} is not text: {error}") from error
    lines = text.splitlines()
    if not lines:
        return []
    if lines[0] != CHECKPOINT_VERSION:
        raise CorruptCheckpoint(f"{path} has unknown version {lines[0]!r}")
    try:
        expected = int(lines[1])
    except (IndexError, ValueError):
        raise CorruptCheckpoint(f"{path} does not say how many entries it has") from None
    entries = [line.split() for line in lines[2:]]
    if len(entries) != expected or any(len(entry) != columns for entry in entries):
        raise CorruptCheckpoint(f"{path} promises {expected} entries of {columns} columns each")
    return entries


def _write_entries(disk: Disk, path: str, entries: list[str], *, sync: bool = True) -> None:
    lines = [CHECKPOINT_VERSION, str(len(entries)), *entries, ""]
    disk.write_atomically(path, "\n".join(lines).encode("utf-8"), sync=sync)


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    try:
        return {
            (topic, int(partition)): int(offset)
            for topic, partition, offset in _read_entries(disk, path, 3)
        }
    except ValueError as error:
        raise CorruptCheckpoint(f"{path}: {error}") from error


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    _write_entries(
        disk,
        path,
        [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()],
    )


def read_epochs(disk: Disk, path: str) -> list[tuple[int, int]]:
    """`(epoch, start offset)` in order."""
    try:
        return [(int(epoch), int(offset)) for epoch, offset in _read_entries(disk, path, 2)]
    except ValueError as error:
        raise CorruptCheckpoint(f"{path}: {error}") from error


def write_epochs(disk: Disk, path: str, entries: list[tuple[int, int]]) -> None:
    """Not synced: a flush of the log does it."""
    lines = [f"{epoch} {offset}" for epoch, offset in entries]
    _write_entries(disk, path, lines, sync=False)


def read_partition_metadata(disk: Disk, path: str) -> str | None:
    """The topic id as Kafka prints it, or None if there is no file."""
    try:
        text = disk.read_file(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if fields.get("version") != str(PARTITION_METADATA_VERSION) or not fields.get("topic_id"):
        raise CorruptCheckpoint(f"{path} does not hold a version and a topic id: {text!r}")
    return fields["topic_id"]


def write_partition_metadata(disk: Disk, path: str, topic_id: str) -> None:
    text = f"version: {PARTITION_METADATA_VERSION}\ntopic_id: {topic_id}"
    disk.write_atomically(path, text.encode("utf-8"))


@dataclass(frozen=True, slots=True)
class CleanShutdown:
    """Left by an orderly stop. `broker_epoch` is -1 if the broker was never registered."""

    broker_epoch: int = -1


def read_clean_shutdown(disk: Disk, path: str) -> CleanShutdown | None:
    """None if there is no marker. A marker without contents is valid (older versions wrote so)."""
    try:
        data = disk.read_file(path)
    except FileNotFoundError:
        return None
    try:
        fields = json.loads(data or b"{}")
        return CleanShutdown(int(fields.get("brokerEpoch", -1)))
    except (ValueError, TypeError, AttributeError):
        return CleanShutdown()


def write_clean_shutdown(disk: Disk, path: str, marker: CleanShutdown) -> None:
    text = json.dumps({"version": 0, "brokerEpoch": marker.broker_epoch}, separators=(",", ":"))
    disk.write_atomically(path, text.encode("utf-8"))


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """`meta.properties`: which node and cluster a log directory belongs to."""

    node_id: int
    cluster_id: str
    directory_id: str | None = None


def read_meta_properties(disk: Disk, path: str) -> MetaProperties | None:
    try:
        text = disk.read_file(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    fields: dict[str, str] = {}
    for line in text.splitlines():
        line = line.strip()
        if line and line[0] not in "#!":
            key, _, value = line.partition("=")
            fields[key.strip()] = value.strip().replace("\\", "")
    version = fields.get("version")
    node_id = fields.get("node.id" if version == "1" else "broker.id")
    if version not in ("0", "1") or node_id is None or "cluster.id" not in fields:
        raise CorruptCheckpoint(f"{path} lacks a version, a node id or a cluster id")
    try:
        return MetaProperties(int(node_id), fields["cluster.id"], fields.get("directory.id"))
    except ValueError as error:
        raise CorruptCheckpoint(f"{path}: {error}") from error


def write_meta_properties(disk: Disk, path: str, meta: MetaProperties) -> None:
    lines = ["version=1", f"node.id={meta.node_id}", f"cluster.id={meta.cluster_id}"]
    if meta.directory_id is not None:
        lines.append(f"directory.id={meta.directory_id}")
    disk.write_atomically(path, ("\n".join(lines) + "\n").encode("utf-8"))
