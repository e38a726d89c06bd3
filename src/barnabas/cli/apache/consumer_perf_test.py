"""kafka-consumer-perf-test.sh: consume and report throughput."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from barnabas.cli.apache import arguments

HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
DETAILED = (
    "time, threadId, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
_JAVA_DATE = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


def parser() -> arguments.Arguments:
    found = arguments.Arguments("kafka-consumer-perf-test.sh", "Measure consumer performance.")
    found.value("--bootstrap-server", "--broker-list", required=True)
    found.value("--topic")
    found.value("--include")
    found.value("--num-records", type=int)
    found.value("--messages", type=int, help="Deprecated: use --num-records.")
    found.value("--group", default=f"perf-consumer-{random.randrange(100_000)}")
    found.value("--fetch-size", type=int, default=1_048_576)
    found.value("--socket-buffer-size", type=int, default=2_097_152)
    found.value("--timeout", type=int, default=10_000)
    found.value("--reporting-interval", type=int, default=5_000)
    found.value("--date-format", default="yyyy-MM-dd HH:mm:ss:SSS")
    found.value("--consumer.config", "--command-config", dest="config")
    found.values("--command-property")
    for name in ("from-latest", "hide-header", "print-metrics", "show-detailed-stats"):
        found.flag(f"--{name}")
    return found


def command(args: Sequence[str]) -> int:
    from barnabas.cli import measure

    rules = parser()
    given = rules.parse_args(args)
    if (given.topic is None) == (given.include is None):
        rules.error("Exactly one of topic or include is required.")
    if (given.num_records is None) == (given.messages is None):
        rules.error("Exactly one of --num-records and --messages is required.")
    if given.messages is not None:
        arguments.note_deprecated("--messages", "--num-records")
    arguments.no_metrics(given.print_metrics)
    count = given.messages if given.num_records is None else given.num_records
    options: dict[str, Any] = {
        "client.id": "perf-consumer-client",
        "auto.offset.reset": "latest" if given.from_latest else "earliest",
        "check.crcs": "false",
        **arguments.client_options(given.bootstrap_server, given.config, given.command_property),
        "group.id": given.group,
        "max.partition.fetch.bytes": given.fetch_size,
        "receive.buffer.bytes": given.socket_buffer_size,
    }
    if not given.hide_header:
        print(DETAILED if given.show_detailed_stats else HEADER, flush=True)

    def report(progress: Any) -> None:
        if given.show_detailed_stats:
            front = f"{_moment(time.time(), given.date_format)}, 0"
            print(f"{front}, {_numbers(progress, 0)}", flush=True)

    started = time.time()
    progress, first_s, gave_up = measure.consume_load(
        options,
        [given.topic] if given.topic else [],
        count,
        given.timeout,
        report,
        pattern=given.include,
    )
    ended = time.time()
    if gave_up:
        print(
            f"WARNING: Exiting before consuming the expected number of records: timeout "
            f"({given.timeout} ms) exceeded. You can use the --timeout option to increase the "
            "timeout.",
            file=sys.stderr,
        )
    if not given.show_detailed_stats:
        times = f"{_moment(started, given.date_format)}, {_moment(ended, given.date_format)}"
        print(f"{times}, {_numbers(progress, first_s * 1000)}")
    return 0


def _moment(seconds: float, java_format: str) -> str:
    text = java_format
    for java, ours in _JAVA_DATE.items():
        text = text.replace(java, ours)
    millis = f"{int(seconds * 1000) % 1000:03d}"
    return datetime.fromtimestamp(seconds).strftime(text).replace("SSS", millis)


def _numbers(progress: Any, join_ms: float) -> str:
    elapsed = max(progress.elapsed_s, 1e-9)
    mib = progress.size / 1048576
    fetch_ms = max(elapsed * 1000 - join_ms, 1)
    return (
        f"{mib:.4f}, {mib / elapsed:.4f}, {progress.records}, {progress.records / elapsed:.4f}, "
        f"{join_ms:.0f}, {fetch_ms:.0f}, {mib / fetch_ms * 1000:.4f}, "
        f"{progress.records / fetch_ms * 1000:.4f}"
    )


def main() -> None:
    arguments.run(command)


if __name__ == "__main__":
    main()
