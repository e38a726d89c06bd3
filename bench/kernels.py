"""How fast the record kernels are on one core, compiled and interpreted, beside two peers.

    python bench/kernels.py [--seconds 0.5] [--value-bytes 100] [--records 1000]

Prints rates, and how many times faster than the slowest way each is. Absolute figures depend on the
machine; the ratios are what to compare.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from barnabas.record import kernels
from barnabas.record.batch import BATCH_OVERHEAD, read_header
from barnabas.record.build import build_batch
from barnabas.record.read import batch_records
from barnabas.record.validate import AppendRules, assign_offsets, validate

NOW_MS = 1_700_000_000_000
ROUNDS = 5


def seconds_each(work: Callable[[], object], budget_seconds: float) -> float:
    """The best of a few rounds, each a share of the budget."""
    times = 1
    while True:
        started = time.perf_counter()
        for _ in range(times):
            work()
        elapsed = time.perf_counter() - started
        if elapsed > budget_seconds / ROUNDS / 2:
            break
        times *= 2
    best = elapsed / times
    for _ in range(ROUNDS - 1):
        started = time.perf_counter()
        for _ in range(times):
            work()
        best = min(best, (time.perf_counter() - started) / times)
    return best


def interpreted_kernels() -> Any:
    source = Path(kernels.__file__).with_name("kernels.py")
    spec = importlib.util.spec_from_file_location("interpreted_kernels", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def append_work(version: Any, records: list[Any]) -> Callable[[], object]:
    def work() -> None:
        append = version.RecordsBuilder().append
        for timestamp_ms, key, value, headers in records:
            append(timestamp_ms, key, value, headers)

    return work


def extend_work(version: Any, records: list[Any]) -> Callable[[], object]:
    return lambda: version.RecordsBuilder().extend(records)


def columns_work(version: Any, batch: bytearray, count: int, times: int) -> Callable[[], object]:
    size = len(batch)

    def work() -> None:
        builder = version.ColumnsBuilder()
        for _ in range(times):
            builder.append(batch, BATCH_OVERHEAD, size, count, 0, NOW_MS)
        builder.finish()

    return work


def peer_reading(batch: bytes) -> list[tuple[str, Callable[[], object]]]:
    peers: list[tuple[str, Callable[[], object]]] = []
    try:
        from kafka.record.memory_records import MemoryRecords  # type: ignore[import-untyped]

        peers.append(("kafka-python", lambda: [list(b) for b in MemoryRecords(batch)]))
    except ImportError:
        pass
    try:
        from aiokafka.record.memory_records import (  # type: ignore[import-untyped]
            MemoryRecords as AioRecords,
        )

        peers.append(("aiokafka", lambda: list(AioRecords(batch).next_batch())))
    except ImportError:
        pass
    return peers


def show(title: str, records: int, rows: list[tuple[str, float]]) -> None:
    print(title)
    slowest = max(seconds for _name, seconds in rows)
    for name, seconds in rows:
        rate = records / seconds
        print(
            f"  {name:<22}{seconds / records * 1e9:>10.1f} ns a record"
            f"{rate / 1e6:>10.2f} M/s{slowest / seconds:>8.1f} x"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each measurement")
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--records", type=int, default=1000, help="in a batch")
    options = parser.parse_args()
    logging.disable(logging.WARNING)

    records: list[Any] = [(NOW_MS, None, bytes(options.value_bytes), ())] * options.records
    batch = build_batch(records)
    header = read_header(batch)
    size = len(batch)
    count = options.records
    versions: list[tuple[str, Any]] = [("interpreted", interpreted_kernels())]
    if kernels.COMPILED:
        versions.insert(0, ("compiled", kernels))

    def measured(
        work: Callable[[Any], Callable[[], object]],
    ) -> list[tuple[str, float]]:
        return [(name, seconds_each(work(version), options.seconds)) for name, version in versions]

    print(f"{count} records of {options.value_bytes} bytes in a batch of {size} bytes")
    show("append, one call a record", count, measured(lambda v: append_work(v, records)))
    show("append, one call a batch", count, measured(lambda v: extend_work(v, records)))
    show(
        "check every record",
        count,
        measured(
            lambda v: lambda: v.scan_records(batch, 61, size, count, NOW_MS, 0, 1 << 62, False)
        ),
    )
    tuples = measured(lambda v: lambda: v.decode_records(batch, 61, size, count, 0, NOW_MS))
    tuples += [
        (name, seconds_each(work, options.seconds)) for name, work in peer_reading(bytes(batch))
    ]
    show("decode into tuples", count, tuples)
    show(
        "decode into Arrow columns, ten batches at a time",
        10 * count,
        measured(lambda v: columns_work(v, batch, count, 10)),
    )

    one = memoryview(build_batch(records[:1]))
    rules = AppendRules()
    no_offset = bytes(8)

    def append_as_leader() -> None:
        one[:8] = no_offset
        assign_offsets(validate(one, rules, NOW_MS), 1000, 5)

    leader = seconds_each(append_as_leader, options.seconds)
    whole = seconds_each(lambda: batch_records(batch, header), options.seconds)
    print(f"validate and assign offsets, a batch of one record: {leader * 1e6:.2f} µs")
    print(f"read a batch of {count} records with its header: {whole * 1e6:.1f} µs")


if __name__ == "__main__":
    main()
