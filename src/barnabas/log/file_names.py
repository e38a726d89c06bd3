"""Names of files and directories in a log directory, exactly as Apache Kafka has them.

A partition lives in `<topic>-<partition>`. Its segments are named after the offset of their first
record, twenty digits wide, so that a sorted listing is in log order. A suffix on top of a name says
what is being done to the file; recovery reads these suffixes to finish or undo it.
"""

from __future__ import annotations

import re

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"

DELETE_DIRECTORY = "-delete"
FUTURE_DIRECTORY = "-future"
STRAY_DIRECTORY = "-stray"

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
REPLICATION_CHECKPOINT = "replication-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
META_PROPERTIES = "meta.properties"
LOCK = ".lock"

CLUSTER_METADATA_DIRECTORY = "__cluster_metadata-0"

_SEGMENT_FILE = re.compile(
    r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)(\.[a-z]+)?\Z"
)
_MARKED_DIRECTORY = re.compile(r"(?P<name>\S+)\.(?P<id>[^.]+)-(?P<mark>delete|future|stray)\Z")
_PARTITION_DIRECTORY = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)\Z")


def segment_file(base_offset: int, kind: str, suffix: str = "") -> str:
    return f"{base_offset:020d}{kind}{suffix}"


def parse_segment_file(name: str) -> tuple[int, str, str] | None:
    """`(base offset, kind, suffix)`, or None for any other file."""
    match = _SEGMENT_FILE.match(name)
    if match is None:
        return None
    return int(match[1]), match[2], match[3] or ""


def partition_directory(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def delete_directory(topic: str, partition: int, unique: str) -> str:
    """The name a partition has while its files wait to be removed. 255 bytes at most."""
    return _marked_directory(topic, partition, unique, DELETE_DIRECTORY)


def stray_directory(topic: str, partition: int, unique: str) -> str:
    return _marked_directory(topic, partition, unique, STRAY_DIRECTORY)


def future_directory(topic: str, partition: int, unique: str) -> str:
    """The name of a copy that will take the partition's place. A long topic name is cut."""
    return _marked_directory(topic, partition, unique, FUTURE_DIRECTORY)


def _marked_directory(topic: str, partition: int, unique: str, mark: str) -> str:
    suffix = f"-{partition}.{unique}{mark}"
    return topic[: 255 - len(suffix)] + suffix


def parse_partition_directory(name: str) -> tuple[str, int, str] | None:
    """`(topic, partition, mark)`; the mark is "" or one of `-delete`, `-future`, `-stray`."""
    mark = ""
    if name.endswith((DELETE_DIRECTORY, FUTURE_DIRECTORY, STRAY_DIRECTORY)):
        marked = _MARKED_DIRECTORY.match(name)
        if marked is not None:
            name = marked["name"]
            mark = "-" + marked["mark"]
    match = _PARTITION_DIRECTORY.match(name)
    if match is None:
        return None
    return match["topic"], int(match["partition"]), mark
