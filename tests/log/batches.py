"""Making and reading batches for the tests of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from barnabas.config.topic import LogConfig
from barnabas.log.log import AppendInfo, AppendOrigin, Log
from barnabas.record.batch import iterate_batches
from barnabas.record.build import build_batch
from barnabas.record.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
)
from barnabas.record.read import Record, read_records
from tests.log.simulated_disk import SimulatedDisk

NOW_MS = 1_700_000_000_000


def batch(
    *values: bytes | None,
    key: bytes | None = b"k",
    keys: Sequence[bytes | None] | None = None,
    timestamp_ms: int = NOW_MS,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
    codec: int = 0,
) -> memoryview:
    """One batch; `producer` is its id, epoch and first sequence number."""
    keys = [key] * len(values) if keys is None else keys
    return memoryview(
        build_batch(
            [(timestamp_ms, each, value, ()) for each, value in zip(keys, values, strict=True)],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
            is_transactional=transactional,
            codec=codec,
        )
    )


def marker(producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int = 0) -> memoryview:
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    return memoryview(
        build_end_transaction_marker(
            EndTransactionMarker(kind, coordinator_epoch),
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp_ms=NOW_MS,
        )
    )


def read_all(
    log: Log, start: int | None = None, *, max_bytes: int = 1 << 20, control: bool = False
) -> list[Record]:
    """Every record up to the log's end, by as many reads as it takes."""
    offset = log.log_start_offset if start is None else start
    found: list[Record] = []
    while offset < log.log_end_offset:
        result = log.read(offset, max_bytes, log.log_end_offset, True)
        data = result.records if isinstance(result.records, bytes) else result.records.read()
        headers = [header for header, _, _ in iterate_batches(data, partial_tail=True)]
        if not headers:
            break
        records = read_records(data, control=True, partial_tail=True)
        found += [record for record in records if record.offset >= offset]
        offset = headers[-1].next_offset
    if control:
        return found
    return [record for record in found if record.key != b"\0\0\0\0" and record.key != b"\0\0\0\1"]


DIRECTORY = "/data/t-0"


def open_log(disk: SimulatedDisk, config: LogConfig | None = None, **options: Any) -> Log:
    """The log of `t-0` on a simulated disk."""
    if not disk.exists("/data"):
        disk.make_directory("/data")
    options.setdefault("now_ms", NOW_MS)
    return Log.open(disk, DIRECTORY, config or LogConfig(), **options)


def write(log: Log, data: memoryview, origin: AppendOrigin = AppendOrigin.CLIENT) -> AppendInfo:
    """Append as the only replica: what is written is committed."""
    info = log.append_as_leader(data, 0, NOW_MS, origin)
    log.update_high_watermark(log.log_end_offset)
    return info
