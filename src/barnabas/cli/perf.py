"""`barnabas perf`: throughput of producing and consuming, and end-to-end latency.

While it runs, a terminal shows one line that is rewritten every second; the result comes once, at the
end, in the form asked for.
"""

from __future__ import annotations

import itertools
import os
import sys
from typing import Any

import click

from barnabas.cli import exits
from barnabas.cli.connect import Connect, connection_options
from barnabas.cli.output import Output, format_option


@click.group()
def perf() -> None:
    """Measure throughput and latency."""


class LiveLine:
    """One line on standard error that is rewritten; nothing when that is no terminal."""

    def __init__(self, goal: int) -> None:
        self.goal = goal
        self.live = sys.stderr.isatty()

    def __call__(self, progress: Any) -> None:
        if not self.live:
            return
        rate = progress.window_records / progress.window_s
        mib = progress.window_bytes / progress.window_s / 1048576
        latency = ""
        if progress.window.count:
            p99 = progress.window.percentile_ms(0.99)
            latency = f"  p50 {progress.window.percentile_ms(0.5):.2f} ms  p99 {p99:.2f} ms"
        share = 100 * progress.records / self.goal if self.goal else 100
        text = f"{share:5.1f} %  {progress.records:,} records  {rate:,.0f}/s  {mib:,.1f} MiB/s{latency}"
        sys.stderr.write(f"\r\x1b[2K{text}")
        sys.stderr.flush()

    def clear(self) -> None:
        if self.live:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


def _result(progress: Any, **more: Any) -> dict[str, Any]:
    elapsed = max(progress.elapsed_s, 1e-9)
    found: dict[str, Any] = {
        "records": progress.records,
        "bytes": progress.size,
        "seconds": round(elapsed, 3),
        "records_per_second": round(progress.records / elapsed, 1),
        "mib_per_second": round(progress.size / elapsed / 1048576, 3),
        **more,
    }
    if progress.total.count:
        found.update(progress.total.summary())
    return found


@perf.command(
    epilog="\b\nExamples:\n  barnabas perf produce bench -n 1000000 -s 100\n"
    "  barnabas perf produce bench -n 60000 --rate 1000 --acks 1 -X linger.ms=0"
)
@click.argument("topic")
@click.option("-n", "--count", default=100_000, show_default=True, type=click.IntRange(min=1))
@click.option(
    "-s",
    "--size",
    default=100,
    show_default=True,
    type=click.IntRange(min=0),
    help="Bytes of a record.",
)
@click.option("--rate", default=0.0, metavar="N", help="At most so many records a second.")
@click.option("--acks", type=click.Choice(["all", "-1", "0", "1"]), help="Default: all.")
@click.option("-z", "--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]))
@connection_options
@format_option
def produce(
    topic: str,
    count: int,
    size: int,
    rate: float,
    acks: str | None,
    compression: str | None,
    connect: Connect,
    out: Output,
) -> int:
    """Write records to TOPIC as fast as it goes; percentiles are until acknowledgement."""
    from barnabas.cli.measure import produce_load

    options: dict[str, Any] = dict(connect.options)
    if acks is not None:
        options["acks"] = acks
    if compression is not None:
        options["compression.type"] = compression
    payloads = itertools.cycle([os.urandom(size) for _ in range(16)])
    line = LiveLine(count)
    try:
        progress = produce_load(options, topic, count, payloads, rate, line)
    finally:
        line.clear()
    out.properties(_result(progress, failed=progress.failed))
    if progress.last_error is not None:
        raise progress.last_error
    return exits.OK


@perf.command(
    epilog="\b\nExamples:\n  barnabas perf consume bench -n 1000000\n"
    "  barnabas perf consume bench -g perf"
)
@click.argument("topics", nargs=-1, required=True)
@click.option("-n", "--count", default=100_000, show_default=True, type=click.IntRange(min=1))
@click.option("-g", "--group", help="Read as a member of this group.")
@click.option(
    "--timeout",
    default="10s",
    show_default=True,
    metavar="DURATION",
    help="Give up when nothing came for so long.",
)
@click.option("--arrow", is_flag=True, help="Read columns instead of records (needs pyarrow).")
@connection_options
@format_option
def consume(
    topics: tuple[str, ...],
    count: int,
    group: str | None,
    timeout: str,
    arrow: bool,
    connect: Connect,
    out: Output,
) -> int:
    """Read TOPICS from the start as fast as it goes."""
    from barnabas.cli.measure import consume_load
    from barnabas.cli.moments import parse_duration_ms

    try:
        timeout_ms = parse_duration_ms(timeout)
    except ValueError as error:
        raise click.UsageError(f"--timeout: {error}.") from None
    options: dict[str, Any] = {"auto.offset.reset": "earliest", **connect.options}
    if group is not None:
        options["group.id"] = group
    line = LiveLine(count)
    try:
        progress, first_s, gave_up = consume_load(
            options, list(topics), count, timeout_ms, line, columns=arrow
        )
    finally:
        line.clear()
    out.properties(_result(progress, first_record_seconds=round(first_s, 3)))
    if gave_up:
        raise exits.CommandError(
            f"Only {progress.records:,} of {count:,} records came before {timeout} passed without any.",
            exits.UNREACHABLE,
        )
    return exits.OK


@perf.command(epilog="\b\nExamples:\n  barnabas perf latency bench -n 5000")
@click.argument("topic")
@click.option("-n", "--count", default=1_000, show_default=True, type=click.IntRange(min=1))
@click.option(
    "-s",
    "--size",
    default=100,
    show_default=True,
    type=click.IntRange(min=0),
    help="Bytes of a record.",
)
@click.option("--acks", default="1", show_default=True, type=click.Choice(["all", "-1", "0", "1"]))
@connection_options
@format_option
def latency(topic: str, count: int, size: int, acks: str, connect: Connect, out: Output) -> int:
    """Time from sending a record to TOPIC until it has been read back."""
    from barnabas.cli.measure import round_trips

    options: dict[str, Any] = {**connect.options, "acks": acks, "fetch.max.wait.ms": 500}
    line = LiveLine(count)
    try:
        progress = round_trips(options, topic, count, os.urandom(size), line)
    finally:
        line.clear()
    out.properties(_result(progress))
    return exits.OK
