"""Where the metadata shell gets an image from: a file, a log directory, or a running cluster.

All three give batches of the metadata log, and `Replayer` makes the image. From a cluster the log is
fetched from the quorum's leader as an observer that is no replica would fetch it: a snapshot first if
the leader no longer has the beginning, then the log up to the high watermark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.cli.exits import NOT_FOUND, CommandError
from barnabas.metadata.delta import MetadataDelta, MetadataError
from barnabas.metadata.image import MetadataImage
from barnabas.record.batch import iterate_batches
from barnabas.record.errors import BadRecords
from barnabas.record.read import batch_records
from barnabas.wire.primitives import DecodeError

if TYPE_CHECKING:
    from barnabas.client.admin import Admin
    from barnabas.wire.message import Message

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = bytes(15) + b"\x01"
FETCH_BYTES = 8 << 20
SNAPSHOT_PART_BYTES = 4 << 20
MAX_ROUNDS = 100_000


@dataclass(frozen=True, slots=True)
class Loaded:
    image: MetadataImage
    timestamp_ms: int
    source: str


class Replayer:
    """Batches in, image out; what a metadata transaction did not commit is left out."""

    def __init__(self) -> None:
        self._delta = MetadataDelta(MetadataImage())
        self._held: list[Message] | None = None
        self.offset = -1
        self.epoch = 0
        self.timestamp_ms = 0

    def feed(self, data: bytes, up_to: int | None = None, begin: int = 0) -> None:
        """Whole batches, of which those from `begin` and below `up_to` count."""
        for header, start, _end in iterate_batches(data):
            if up_to is not None and header.base_offset >= up_to:
                return
            if header.base_offset + header.last_offset_delta < begin:
                continue
            self.offset = header.base_offset + header.last_offset_delta
            self.epoch = max(self.epoch, header.partition_leader_epoch)
            if header.is_control:
                continue
            self.timestamp_ms = max(self.timestamp_ms, header.max_timestamp)
            for _offset, _timestamp, _key, value, _headers in batch_records(data, header, start):
                self._record(value)

    def _record(self, value: bytes | None) -> None:
        from barnabas.wire.records import metadata as records

        message, _version = records.decode_metadata_record(value or b"")
        if isinstance(message, records.BeginTransactionRecord):
            self._held = []
        elif isinstance(message, records.AbortTransactionRecord):
            self._held = None
        elif isinstance(message, records.EndTransactionRecord):
            held, self._held = self._held or [], None
            self._delta.replay_all(held)
        elif self._held is not None:
            self._held.append(message)
        else:
            self._delta.replay(message)

    def finish(self, source: str) -> Loaded:
        return Loaded(self._delta.apply(self.offset, self.epoch), self.timestamp_ms, source)


def load_path(path: Path) -> Loaded:
    """A snapshot or log file, a metadata directory, or a log directory that has one."""
    replayer = Replayer()
    try:
        begin = 0
        for file in _files(path):
            replayer.feed(file.read_bytes(), begin=begin)
            if file.suffix == ".checkpoint":
                end, _, epoch = file.stem.partition("-")
                if end.isdigit() and epoch.isdigit() and int(end) > 0:
                    begin = int(end)
                    replayer.offset, replayer.epoch = begin - 1, int(epoch)
    except MetadataError as error:
        raise CommandError(
            f"{path} does not hold the whole metadata: {error}. Records before it are missing; give "
            "the directory, or the newest .checkpoint file."
        ) from None
    except (BadRecords, DecodeError) as error:
        raise CommandError(f"{path} is damaged or no metadata log: {error}") from None
    return replayer.finish(str(path))


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise CommandError(f"{path}: No such file or directory", NOT_FOUND)
    if path.is_file():
        return [path]
    if (path / f"{METADATA_TOPIC}-0").is_dir():
        path = path / f"{METADATA_TOPIC}-0"
    snapshots = sorted(f for f in path.glob("*.checkpoint") if f.stem.partition("-")[0].isdigit())
    chosen = [*snapshots[-1:], *sorted(path.glob("*.log"))]
    if not chosen:
        raise CommandError(f"{path} holds no metadata log.", NOT_FOUND)
    return chosen


def load_cluster(admin: Admin) -> Loaded:
    """The committed metadata of a running cluster, from the leader of its quorum."""
    from barnabas.client.errors import ClientError

    quorum = admin.describe_quorum()
    places = quorum.endpoints.get(quorum.leader_id, ())
    if not places:
        raise CommandError(
            "The cluster does not tell where its controllers listen; name one with "
            "--bootstrap-controller, or read a snapshot file."
        )
    failures = []
    for place in places:
        try:
            with admin.of_controller(place.host, place.port) as controller:
                replayer = Replayer()
                for data, up_to in _fetch(controller, quorum.leader_epoch):
                    replayer.feed(data, up_to)
                return replayer.finish(f"controller {quorum.leader_id} at {place}")
        except ClientError as error:
            failures.append(str(error))
    raise CommandError(f"The active controller could not be asked: {'; '.join(failures)}")


def _fetch(controller: Admin, epoch: int) -> Iterator[tuple[bytes, int | None]]:
    """Parts of the log, or of a snapshot first, in order, with the offset at which to stop."""
    from barnabas.client.errors import broker_error
    from barnabas.wire.messages import fetch as api

    offset, last_epoch = 0, 0
    for _round in range(MAX_ROUNDS):
        request = api.FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=FETCH_BYTES,
            topics=[
                api.FetchTopic(
                    topic=METADATA_TOPIC,
                    topic_id=METADATA_TOPIC_ID,
                    partitions=[
                        api.FetchPartition(
                            partition=0,
                            current_leader_epoch=epoch,
                            fetch_offset=offset,
                            last_fetched_epoch=last_epoch,
                            partition_max_bytes=FETCH_BYTES,
                        )
                    ],
                )
            ],
        )
        response = controller.ask_any(request, what="the metadata log")
        if response.error_code:
            raise broker_error(response.error_code)
        partition = response.responses[0].partitions[0]
        if partition.error_code:
            raise broker_error(partition.error_code, subject=METADATA_TOPIC)
        if partition.snapshot_id.end_offset >= 0:
            snapshot = partition.snapshot_id
            yield _fetch_snapshot(controller, epoch, snapshot), None
            offset, last_epoch = snapshot.end_offset, snapshot.epoch
            continue
        data = bytes(partition.records or b"")
        end = offset
        for header, _start, _end in iterate_batches(data):
            end = header.base_offset + header.last_offset_delta + 1
            last_epoch = header.partition_leader_epoch
        yield data, partition.high_watermark
        if end == offset or end >= partition.high_watermark:
            return
        offset = end


def _fetch_snapshot(controller: Admin, epoch: int, snapshot: Any) -> bytes:
    from barnabas.client.errors import broker_error
    from barnabas.wire.messages import fetch_snapshot as api

    data = bytearray()
    for _round in range(MAX_ROUNDS):
        request = api.FetchSnapshotRequest(
            max_bytes=SNAPSHOT_PART_BYTES,
            topics=[
                api.FetchSnapshotRequestTopicSnapshot(
                    name=METADATA_TOPIC,
                    partitions=[
                        api.FetchSnapshotRequestPartitionSnapshot(
                            partition=0,
                            current_leader_epoch=epoch,
                            snapshot_id=api.SnapshotId(
                                end_offset=snapshot.end_offset, epoch=snapshot.epoch
                            ),
                            position=len(data),
                        )
                    ],
                )
            ],
        )
        response = controller.ask_any(request, what="the metadata snapshot")
        if response.error_code:
            raise broker_error(response.error_code)
        part = response.topics[0].partitions[0]
        if part.error_code:
            raise broker_error(part.error_code, subject="snapshot")
        data += part.unaligned_records or b""
        if len(data) >= part.size or not part.unaligned_records:
            break
    return bytes(data)
