"""When a snapshot of the metadata is due, and writing it.

It is due after so many bytes of records, or so much time with any record at all. The image is
immutable, so it is turned into bytes and written by a thread while the node goes on.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.metadata.snapshot import record_version
from barnabas.raft.snapshot import SnapshotId, write_snapshot
from barnabas.wire.records.metadata import encode_metadata_record

if TYPE_CHECKING:
    from barnabas.controller.kraft.replica import MetadataReplica
    from barnabas.metadata.image import MetadataImage
    from barnabas.seams import Background

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SnapshotSettings:
    max_bytes_between: int = 20 * 1024 * 1024
    max_interval_ms: int = 3_600_000


class Snapshots:
    def __init__(
        self,
        replica: MetadataReplica,
        background: Background,
        settings: SnapshotSettings,
        now_ms: int,
    ) -> None:
        self._replica = replica
        self._background = background
        self._settings = settings
        self._last_ms = now_ms
        self._writing = False

    def maintain(self, now_ms: int) -> None:
        """Write a snapshot if one is due; remove what the retention lets go."""
        if self._writing:
            return
        size = self._replica.bytes_since_snapshot
        interval_ms = self._settings.max_interval_ms
        too_old = size > 0 and 0 < interval_ms <= now_ms - self._last_ms
        if size >= self._settings.max_bytes_between or too_old:
            self.write(now_ms)
        else:
            self._clean(now_ms)

    def write(self, now_ms: int) -> SnapshotId | None:
        """Start writing a snapshot of what is committed."""
        image, raft = self._replica.image, self._replica.raft
        snapshot = SnapshotId(image.offset + 1, image.epoch)
        if self._writing or image.offset < 0 or snapshot in raft.log.snapshots:
            return None
        self._writing = True
        self._last_ms = now_ms
        self._replica.bytes_since_snapshot = 0
        timestamp_ms = self._replica.last_timestamp_ms
        kraft_version, voters = raft.voters_at(snapshot.offset)

        def work() -> None:
            data = write_snapshot(
                encoded_records(image),
                epoch=snapshot.epoch,
                now_ms=now_ms,
                last_contained_timestamp_ms=timestamp_ms,
                kraft_version=kraft_version,
                voters=voters,
            )
            raft.log.store_snapshot(snapshot, data)

        def done(_result: None, error: Exception | None) -> None:
            self._writing = False
            if error is not None:
                logger.error("the snapshot %s was not written: %s", snapshot.file_name, error)
                return
            logger.info("wrote the snapshot %s of the metadata", snapshot.file_name)
            raft.snapshot_stored(snapshot)
            self._clean(now_ms)

        self._background.submit(work, done)
        return snapshot

    def _clean(self, now_ms: int) -> None:
        try:
            self._replica.raft.log.clean(now_ms)
        except OSError as error:
            logger.error("old snapshots of the metadata log were not removed: %s", error)


def encoded_records(image: MetadataImage) -> list[bytes]:
    """The records of a snapshot as they are written."""
    level = image.features.metadata_version
    return [
        encode_metadata_record(record, record_version(record, level))
        for record in image.to_records()
    ]
