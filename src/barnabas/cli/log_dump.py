"""Reading log files for people: segments, indexes, snapshots, the metadata log.

`dump_file` gives one `Item` after another; each knows the line that Apache's dump-log prints for it
and the same facts as data. Decoders turn the records of internal topics into JSON. Reading is
streamed: a segment of any size needs one batch of memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

from barnabas.cli.message_json import message_json, record_name
from barnabas.cli.record_format import text_or_base64
from barnabas.record.batch import NO_SEQUENCE, BatchHeader, TimestampType, compute_crc
from barnabas.record.compression import Codec
from barnabas.record.control import ControlType, read_control_key
from barnabas.record.errors import BadRecords
from barnabas.record.read import batch_records
from barnabas.wire.primitives import DecodeError

OFFSETS, METADATA, TRANSACTIONS, SHARE_STATE = "offsets", "metadata", "transactions", "share"
_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_ABORTED = Struct(">hqqqq")
_INDEX_READ = 1 << 20


class Item(NamedTuple):
    """`kind` is start, batch, record, entry, producer, aborted or problem."""

    kind: str
    line: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DumpOptions:
    deep: bool = False
    print_data: bool = False
    decoder: str | None = None
    max_bytes: int | None = None
    skip_metadata: bool = False


def dump_file(path: Path, options: DumpOptions) -> Iterator[Item]:
    """Everything in one file; ValueError for a file of no known kind."""
    kind = path.suffix
    if kind in (".deleted", ".swap", ".cleaned"):
        kind = path.with_suffix("").suffix
    if kind in (".log", ".checkpoint"):
        return _dump_batches(path, options)
    if kind == ".index":
        return _dump_offset_index(path)
    if kind == ".timeindex":
        return _dump_time_index(path)
    if kind == ".snapshot":
        return _dump_producers(path)
    if kind == ".txnindex":
        return _dump_aborted(path)
    raise ValueError(
        f"{path} is no log file: the name must end in .log, .index, .timeindex, .txnindex, "
        ".snapshot or .checkpoint"
    )


def _base_offset(path: Path) -> int:
    digits = path.name.split(".")[0]
    if not digits.isdigit():
        raise ValueError(f"{path} is not named after an offset, as log files are")
    return int(digits)


# -- segments


def _dump_batches(path: Path, options: DumpOptions) -> Iterator[Item]:
    from barnabas.log.disk import RealDisk
    from barnabas.log.scan import scan_batches

    if path.suffix == ".checkpoint":
        end_offset, _, epoch = path.name.split(".")[0].partition("-")
        if not (end_offset.isdigit() and epoch.isdigit()):
            end_offset = epoch = "0"
        data = {"end_offset": int(end_offset), "epoch": int(epoch)}
        yield Item("start", f"Snapshot end offset: {int(end_offset)}, epoch: {int(epoch)}", data)
    else:
        first = _base_offset(path)
        yield Item("start", f"Log starting offset: {first}", {"base_offset": first})
    file = RealDisk().open(str(path))
    try:
        read = 0
        for batch in scan_batches(file):
            header = batch.header
            if options.max_bytes is not None and read + header.size_in_bytes > options.max_bytes:
                return
            read += header.size_in_bytes
            body = bytes(batch.data)
            yield _batch_item(header, body, batch.position)
            if options.deep or options.print_data:
                yield from _record_items(header, body, options)
    except BadRecords as error:
        yield Item("problem", f"Found invalid bytes: {error}", {"error": str(error)})
    finally:
        file.close()


def _batch_item(header: BatchHeader, data: bytes, position: int) -> Item:
    valid = compute_crc(data, 0, len(data)) == header.crc
    time_name = time_type(header)
    horizon = header.delete_horizon_ms
    facts: dict[str, Any] = {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": horizon,
        "position": position,
        time_name: header.max_timestamp,
        "size": header.size_in_bytes,
        "magic": header.magic,
        "compresscodec": Codec(header.compression).name.lower(),
        "crc": header.crc,
        "isvalid": valid,
    }
    shown = {**facts, "deleteHorizonMs": optional_long(horizon)}
    return Item("batch", " ".join(f"{k}: {_java(v)}" for k, v in shown.items()), facts)


def time_type(header: BatchHeader) -> str:
    is_append = header.timestamp_type == TimestampType.LOG_APPEND_TIME
    return "LogAppendTime" if is_append else "CreateTime"


def optional_long(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _java(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _record_items(header: BatchHeader, data: bytes, options: DumpOptions) -> Iterator[Item]:
    try:
        records = batch_records(data, header)
    except BadRecords as error:
        yield Item("problem", f"| Found invalid records: {error}", {"error": str(error)})
        return
    for index, (offset, timestamp, key, value, headers) in enumerate(records):
        sequence = NO_SEQUENCE
        if header.base_sequence != NO_SEQUENCE:
            sequence = (header.base_sequence + index) & 0x7FFFFFFF
        facts: dict[str, Any] = {
            "offset": offset,
            time_type(header): timestamp,
            "keySize": -1 if key is None else len(key),
            "valueSize": -1 if value is None else len(value),
            "sequence": sequence,
            "headerKeys": [name for name, _ in headers],
        }
        line = "| " + " ".join(
            f"{k}: {'[' + ','.join(v) + ']' if isinstance(v, list) else v}"
            for k, v in facts.items()
        )
        if header.is_control:
            if options.skip_metadata:
                continue
            extra, text = _control(key, value)
            facts.update(extra)
            line += text
        elif options.print_data:
            extra, text = _data(key, value, options.decoder)
            facts.update(extra)
            line = f"|{text}" if options.skip_metadata else line + text
        yield Item("record", line, facts)


def _control(key: bytes | None, value: bytes | None) -> tuple[dict[str, Any], str]:
    from barnabas.wire.records import raft

    kind = read_control_key(key)
    if kind in (ControlType.ABORT, ControlType.COMMIT) and value is not None:
        epoch = int.from_bytes(value[2:6], "big", signed=True)
        return (
            {"endTxnMarker": kind.name, "coordinatorEpoch": epoch},
            f" endTxnMarker: {kind.name} coordinatorEpoch: {epoch}",
        )
    classes: dict[ControlType, tuple[str, Any]] = {
        ControlType.LEADER_CHANGE: ("LeaderChange", raft.LeaderChangeMessage),
        ControlType.SNAPSHOT_HEADER: ("SnapshotHeader", raft.SnapshotHeaderRecord),
        ControlType.SNAPSHOT_FOOTER: ("SnapshotFooter", raft.SnapshotFooterRecord),
        ControlType.KRAFT_VERSION: ("KRaftVersion", raft.KRaftVersionRecord),
        ControlType.KRAFT_VOTERS: ("KRaftVoters", raft.VotersRecord),
    }
    known = classes.get(kind)
    if known is None:
        return {"controlType": kind.name}, f" controlType: {kind.name}({int(kind)})"
    name, cls = known
    try:
        message = raft.decode_control_record(cls, value or b"")
    except DecodeError as error:
        return {name: None, "error": str(error)}, f" {name}: unreadable ({error})"
    shown = message_json(message, message.version)
    colon = ":" if name == "LeaderChange" else ""
    return {name: shown}, f" {name}{colon} {_compact(shown)}"


def _data(
    key: bytes | None, value: bytes | None, decoder: str | None
) -> tuple[dict[str, Any], str]:
    if decoder == METADATA:
        shown = _metadata_record(value)
        return {"payload": shown}, f" payload: {_compact(shown)}"
    if decoder in (OFFSETS, TRANSACTIONS, SHARE_STATE) and key is not None:
        found = _coordinator_record(key, value, decoder)
        if found is not None:
            shown_key, payload = found
            return (
                {"key": shown_key, "payload": payload},
                f" key: {_compact(shown_key)} payload: {_compact(payload)}",
            )
        text = " Decoding of this record type is not supported."
        return {"key": text_or_base64(key), "payload": text_or_base64(value)}, text
    text = ""
    if key is not None:
        text += f" key: {key.decode('utf-8', 'replace')}"
    if value is not None:
        text += f" payload: {value.decode('utf-8', 'replace')}"
    return {"key": text_or_base64(key), "payload": text_or_base64(value)}, text


def _metadata_record(value: bytes | None) -> dict[str, Any]:
    from barnabas.wire.records.metadata import decode_metadata_record

    try:
        message, version = decode_metadata_record(value or b"")
    except (DecodeError, IndexError) as error:
        return {"error": f"unreadable: {error}"}
    name = record_name(type(message).__name__)
    return {"type": name, "version": version, "data": message_json(message, version)}


def _coordinator_record(key: bytes, value: bytes | None, decoder: str) -> tuple[Any, Any] | None:
    from barnabas.wire.records import coordinator, group, share, transaction

    registry = {
        OFFSETS: group.RECORDS,
        TRANSACTIONS: transaction.RECORDS,
        SHARE_STATE: share.RECORDS,
    }[decoder]
    try:
        found = coordinator.decode_record(registry, key, value)
    except DecodeError as error:
        return {"error": f"unreadable: {error}"}, None
    if found is None:
        return None
    key_message, value_message = found
    kind = int.from_bytes(key[:2], "big")
    shown_key = {"type": str(kind), "data": message_json(key_message, 0)}
    if value_message is None or value is None:
        return shown_key, None
    version = int.from_bytes(value[:2], "big")
    shown = message_json(value_message, version)
    for member in shown.get("members", ()):
        _expand_member(member)
    return shown_key, {"version": str(version), "data": shown}


def _expand_member(member: dict[str, Any]) -> None:
    """A classic group's members carry consumer protocol messages inside bytes."""
    import base64

    from barnabas.client.core import consumer_protocol

    try:
        subscription = base64.b64decode(member["subscription"])
        message = consumer_protocol.decode_subscription(subscription)
        version = int.from_bytes(subscription[:2], "big")
        member["subscription"] = message_json(message, version)
        assignment = consumer_protocol.decode_assignment(base64.b64decode(member["assignment"]))
        member["assignment"] = {
            "assignedPartitions": [
                {"topic": topic, "partitions": indexes} for topic, indexes in assignment.items()
            ],
            "userData": None,
        }
    except (DecodeError, KeyError, TypeError, ValueError):
        return


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


# -- files beside a segment


def _entries(path: Path, entry: Struct) -> Iterator[tuple[int, ...]]:
    whole = _INDEX_READ - _INDEX_READ % entry.size
    with path.open("rb") as file:
        while chunk := file.read(whole):
            usable = len(chunk) - len(chunk) % entry.size
            yield from entry.iter_unpack(chunk[:usable])


def _dump_offset_index(path: Path) -> Iterator[Item]:
    base = _base_offset(path)
    for index, (relative, position) in enumerate(_entries(path, _OFFSET_ENTRY)):
        if relative == 0 and index:
            return
        data = {"offset": base + relative, "position": position}
        yield Item("entry", f"offset: {base + relative} position: {position}", data)


def _dump_time_index(path: Path) -> Iterator[Item]:
    base = _base_offset(path)
    for index, (timestamp, relative) in enumerate(_entries(path, _TIME_ENTRY)):
        if timestamp == 0 and relative == 0 and index:
            return
        data = {"timestamp": timestamp, "offset": base + relative}
        yield Item("entry", f"timestamp: {timestamp} offset: {base + relative}", data)


def _dump_aborted(path: Path) -> Iterator[Item]:
    for version, producer_id, first, last, stable in _entries(path, _ABORTED):
        facts = {
            "version": version,
            "producerId": producer_id,
            "firstOffset": first,
            "lastOffset": last,
            "lastStableOffset": stable,
        }
        yield Item("aborted", " ".join(f"{k}: {v}" for k, v in facts.items()), facts)


def _dump_producers(path: Path) -> Iterator[Item]:
    from barnabas.log.producer_snapshot import CorruptSnapshot, decode

    try:
        states = decode(path.read_bytes())
    except CorruptSnapshot as error:
        yield Item("problem", f"{path}: {error}", {"error": str(error)})
        return
    for state in states:
        facts: dict[str, Any] = {
            "producerId": state.producer_id,
            "producerEpoch": state.epoch,
            "coordinatorEpoch": state.coordinator_epoch,
            "currentTxnFirstOffset": state.current_txn_first_offset,
            "lastTimestamp": state.last_timestamp,
        }
        if state.last_data_offset >= 0:
            delta = state.last_offset_delta
            facts.update(
                firstSequence=(state.last_sequence - delta) & 0x7FFFFFFF,
                lastSequence=state.last_sequence,
                lastOffset=state.last_data_offset,
                offsetDelta=delta,
                timestamp=state.last_timestamp,
            )
        shown = {**facts, "currentTxnFirstOffset": optional_long(state.current_txn_first_offset)}
        yield Item("producer", " ".join(f"{k}: {v}" for k, v in shown.items()), facts)
