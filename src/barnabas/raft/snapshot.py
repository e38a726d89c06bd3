"""Snapshots of the metadata log: everything up to an offset, as records of their own.

A snapshot is a file of batches next to the log's segments, named after the first offset that it
does not contain and the epoch of the last one that it does. It begins with a control batch (a
header, and where voters are in the log, their set) and ends with one (a footer): without the footer
it is not complete and does not count. Offsets in it count from 0 and mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from barnabas.raft.errors import LogCorrupt
from barnabas.raft.voters import VoterSet
from barnabas.record.batch import iterate_batches, verify_crc
from barnabas.record.build import build_batch
from barnabas.record.control import ControlType, build_control_batch, read_control_records
from barnabas.record.errors import BadRecords
from barnabas.record.read import batch_records
from barnabas.wire.primitives import DecodeError
from barnabas.wire.records.raft import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    decode_control_record,
    encode_control_record,
)

SUFFIX = ".checkpoint"
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint\Z")
_BATCH_RECORDS = 2048
_BATCH_BYTES = 1 << 20


_WHAT_HELPS = (
    "Put a sound copy of the file in its place, or give the node an empty directory: formatted anew, "
    "it fetches everything from the others (a voter is removed before and added again after)."
)


class SnapshotId(NamedTuple):
    """`offset` is the first that is not contained; `epoch` that of the last one contained."""

    offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.offset:020d}-{self.epoch:010d}{SUFFIX}"

    @classmethod
    def parse(cls, name: str) -> SnapshotId | None:
        match = _NAME.match(name)
        return None if match is None else cls(int(match[1]), int(match[2]))


class Snapshot(NamedTuple):
    """What a snapshot says. `kraft_version` is None where it has no voters."""

    last_contained_timestamp_ms: int
    kraft_version: int | None
    voters: VoterSet | None
    records: list[bytes]


def write_snapshot(
    records: Iterable[bytes],
    *,
    epoch: int,
    now_ms: int,
    last_contained_timestamp_ms: int,
    kraft_version: int = 0,
    voters: VoterSet | None = None,
) -> bytes:
    """The bytes of a snapshot file."""
    header = SnapshotHeaderRecord(
        version=0, last_contained_log_timestamp=last_contained_timestamp_ms
    )
    controls = [(ControlType.SNAPSHOT_HEADER, encode_control_record(header))]
    if kraft_version >= 1:
        level = KRaftVersionRecord(version=0, kraft_version=kraft_version)
        controls.append((ControlType.KRAFT_VERSION, encode_control_record(level)))
        if voters is not None:
            controls.append((ControlType.KRAFT_VOTERS, encode_control_record(voters.to_record())))
    data = bytearray(
        build_control_batch(controls, timestamp_ms=now_ms, partition_leader_epoch=epoch)
    )
    offset = len(controls)
    for chunk in _chunks(records):
        data += build_batch(
            [(now_ms, None, value, ()) for value in chunk],
            base_offset=offset,
            partition_leader_epoch=epoch,
        )
        offset += len(chunk)
    footer = encode_control_record(SnapshotFooterRecord(version=0))
    data += build_control_batch(
        [(ControlType.SNAPSHOT_FOOTER, footer)],
        timestamp_ms=now_ms,
        base_offset=offset,
        partition_leader_epoch=epoch,
    )
    return bytes(data)


def _chunks(records: Iterable[bytes]) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    size = 0
    for value in records:
        chunk.append(value)
        size += len(value)
        if len(chunk) >= _BATCH_RECORDS or size >= _BATCH_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def read_snapshot(data: bytes, name: str) -> Snapshot:
    """The content of a snapshot file; `LogCorrupt` if it is damaged or not complete."""
    timestamp_ms = -1
    kraft_version: int | None = None
    voters: VoterSet | None = None
    records: list[bytes] = []
    has_header = has_footer = False
    try:
        for header, start, _end in iterate_batches(data):
            verify_crc(data, header, start)
            if not header.is_control:
                for _offset, _timestamp, _key, value, _headers in batch_records(
                    data, header, start
                ):
                    if value is None:
                        raise LogCorrupt(f"{name} has a record without a value")
                    records.append(value)
                continue
            for control in read_control_records(data, header, start):
                if control.type is ControlType.SNAPSHOT_HEADER:
                    has_header = True
                    first = decode_control_record(SnapshotHeaderRecord, control.value)
                    timestamp_ms = first.last_contained_log_timestamp
                elif control.type is ControlType.SNAPSHOT_FOOTER:
                    has_footer = True
                elif control.type is ControlType.KRAFT_VERSION:
                    level = decode_control_record(KRaftVersionRecord, control.value)
                    kraft_version = level.kraft_version
                elif control.type is ControlType.KRAFT_VOTERS:
                    voters = VoterSet.from_record(
                        decode_control_record(VotersRecord, control.value)
                    )
    except (BadRecords, DecodeError) as error:
        raise LogCorrupt(f"{name} is damaged: {error}. {_WHAT_HELPS}") from error
    if not has_header or not has_footer:
        missing = "footer" if has_header else "header"
        raise LogCorrupt(f"{name} is not complete: it has no {missing}. {_WHAT_HELPS}")
    return Snapshot(timestamp_ms, kraft_version, voters, records)


def check_snapshot(data: bytes, name: str) -> None:
    """`LogCorrupt` where `read_snapshot` would find damage in the bytes, and far quicker."""
    kinds: list[ControlType] = []
    try:
        for header, start, _end in iterate_batches(data):
            verify_crc(data, header, start)
            if header.is_control:
                kinds += [control.type for control in read_control_records(data, header, start)]
    except BadRecords as error:
        raise LogCorrupt(f"{name} is damaged: {error}. {_WHAT_HELPS}") from error
    for kind, what in (
        (ControlType.SNAPSHOT_HEADER, "header"),
        (ControlType.SNAPSHOT_FOOTER, "footer"),
    ):
        if kind not in kinds:
            raise LogCorrupt(f"{name} is not complete: it has no {what}. {_WHAT_HELPS}")
