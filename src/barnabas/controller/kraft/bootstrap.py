"""The first records of a new cluster.

Formatting a directory leaves a file, `bootstrap.checkpoint`, with the levels of the features that
the cluster is to start with. The first leader writes them into the empty log, as a transaction
where the level allows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from barnabas.controller.kraft.features import elr_records
from barnabas.metadata.features import (
    DEFAULT_LEVELS,
    ELR_VERSION,
    METADATA_TRANSACTION_LEVEL,
    METADATA_VERSION,
    METADATA_VERSIONS,
    SUPPORTED_FEATURES,
)
from barnabas.raft.errors import StorageError
from barnabas.raft.snapshot import read_snapshot, write_snapshot
from barnabas.wire.primitives import DecodeError
from barnabas.wire.records.metadata import (
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    decode_metadata_record,
    encode_metadata_record,
)

if TYPE_CHECKING:
    from barnabas.controller.kraft.decision import View
    from barnabas.metadata.image import MetadataImage
    from barnabas.seams import Disk
    from barnabas.wire.message import Message

FILE_NAME: Final = "bootstrap.checkpoint"


def feature_records(levels: Mapping[str, int]) -> list[Message]:
    """`metadata.version` first, since it says how to read what follows."""
    names = [METADATA_VERSION, *sorted(name for name in levels if name != METADATA_VERSION)]
    return [
        FeatureLevelRecord(name=name, feature_level=levels[name]) for name in names if levels[name]
    ]


def write_bootstrap(disk: Disk, directory: str, levels: Mapping[str, int], now_ms: int) -> None:
    values = [encode_metadata_record(record, 0) for record in feature_records(levels)]
    data = write_snapshot(values, epoch=0, now_ms=now_ms, last_contained_timestamp_ms=0)
    disk.write_atomically(f"{directory}/{FILE_NAME}", data)


def read_bootstrap(disk: Disk, directory: str) -> list[Message]:
    """The records of the file, or our own defaults where there is none."""
    path = f"{directory}/{FILE_NAME}"
    if not disk.exists(path):
        return feature_records(DEFAULT_LEVELS)
    try:
        return [
            decode_metadata_record(v)[0] for v in read_snapshot(disk.read_file(path), path).records
        ]
    except DecodeError as error:
        raise StorageError(f"{path} cannot be read: {error}") from error


def bootstrap_records(view: View, records: list[Message]) -> list[Message]:
    """Everything that a new log begins with."""
    levels = {
        record.name: record.feature_level
        for record in records
        if isinstance(record, FeatureLevelRecord)
    }
    made = list(records)
    if levels.get(ELR_VERSION):
        made += elr_records(view)
    if levels.get(METADATA_VERSION, 0) >= METADATA_TRANSACTION_LEVEL:
        begin = BeginTransactionRecord(name="Bootstrap records")
        made = [begin, *made, EndTransactionRecord()]
    return made


def check_levels(image: MetadataImage) -> list[str]:
    """Refuse a log that this node cannot understand; gives warnings about the rest."""
    level = image.features.metadata_version
    if level not in METADATA_VERSIONS:
        lowest, latest = SUPPORTED_FEATURES[METADATA_VERSION]
        raise StorageError(
            f"the metadata log has metadata.version {level}; this node knows {lowest} "
            f"({METADATA_VERSIONS[lowest].name}) to {latest} ({METADATA_VERSIONS[latest].name})"
        )
    return [
        f"{name} is finalized at {found}, but this node does not support it"
        for name, found in image.features.finalized_levels.items()
        if name not in SUPPORTED_FEATURES
    ]
