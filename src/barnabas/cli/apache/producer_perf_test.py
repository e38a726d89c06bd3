"""kafka-producer-perf-test.sh: produce load and report throughput and latency."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.cli.apache import arguments
from barnabas.cli.exits import CommandError

if TYPE_CHECKING:
    from barnabas.cli.measure import Latencies


def parser() -> arguments.Arguments:
    found = arguments.Arguments("kafka-producer-perf-test.sh", "Verify the producer performance.")
    found.value("--bootstrap-server")
    found.value("--topic", required=True)
    found.value("--num-records", type=int, required=True)
    found.value("--throughput", type=float, required=True)
    found.value("--record-size", type=int)
    found.value("--payload-file")
    found.value("--payload-delimiter", default="\\n")
    found.flag("--payload-monotonic")
    found.value("--producer-props", nargs="+", action="extend", default=[])
    found.value("--command-property", nargs="+", action="extend", default=[])
    found.value("--producer.config", "--command-config", dest="config")
    found.flag("--print-metrics")
    found.value("--warmup-records", type=int, default=0)
    found.value("--reporting-interval", type=int, default=5_000)
    found.value("--transactional-id")
    found.value("--transaction-duration-ms", type=int)
    return found


def command(args: Sequence[str]) -> int:
    from barnabas.cli import measure

    rules = parser()
    given = rules.parse_args(args)
    forms = (given.record_size is not None, given.payload_file is not None, given.payload_monotonic)
    if sum(forms) != 1:
        rules.error(
            "one of the arguments --record-size --payload-file --payload-monotonic is required"
        )
    if given.transactional_id or given.transaction_duration_ms:
        raise CommandError("Transactions are not supported by this version of Barnabas.")
    if given.producer_props:
        print(
            "Option --producer-props has been deprecated and will be removed in a future version. "
            "Use --command-property instead."
        )
    arguments.no_metrics(given.print_metrics)
    if given.warmup_records > 0:
        print(
            f"Warmup first {given.warmup_records} records. Steady state results will print after "
            "the complete test summary."
        )
    pairs = [*given.producer_props, *given.command_property]
    options = arguments.client_options(given.bootstrap_server or "", given.config, pairs)
    if not options["bootstrap.servers"]:
        options["bootstrap.servers"] = arguments.properties(pairs).get("bootstrap.servers", "")
        if not options["bootstrap.servers"]:
            rules.error("--bootstrap-server is required")
    report_s = given.reporting_interval / 1000
    last_report = 0.0

    def report(progress: Any) -> None:
        nonlocal last_report
        if progress.elapsed_s - last_report >= report_s:
            last_report = progress.elapsed_s
            window = progress.window
            print(
                f"{progress.window_records} records sent, "
                f"{progress.window_records / progress.window_s:.1f} records/sec "
                f"({progress.window_bytes / progress.window_s / 1048576:.2f} MB/sec), "
                f"{window.mean_ms:.1f} ms avg latency, {window.max_ms:.1f} ms max latency.",
                flush=True,
            )

    progress = measure.produce_load(
        options,
        given.topic,
        given.num_records,
        _payloads(given),
        max(given.throughput, 0.0),
        report,
        warmup=given.warmup_records,
    )
    _summary("records", progress.records, progress.size, progress.elapsed_s, progress.total)
    if 0 < given.warmup_records < progress.records:
        steady = progress.steady
        size = progress.size * steady.count // max(progress.records, 1)
        elapsed_s = progress.elapsed_s - progress.warm_at_s
        _summary("steady state records", steady.count, size, elapsed_s, steady)
    if progress.last_error is not None:
        raise progress.last_error
    return 0


def _summary(what: str, records: int, size: int, elapsed_s: float, latencies: Latencies) -> None:
    elapsed = max(elapsed_s, 1e-9)
    print(
        f"{records} {what} sent, {records / elapsed:f} records/sec "
        f"({size / elapsed / 1048576:.2f} MB/sec), {latencies.mean_ms:.2f} ms avg latency, "
        f"{latencies.max_ms:.2f} ms max latency, {latencies.percentile_ms(0.5):.0f} ms 50th, "
        f"{latencies.percentile_ms(0.95):.0f} ms 95th, {latencies.percentile_ms(0.99):.0f} ms 99th, "
        f"{latencies.percentile_ms(0.999):.0f} ms 99.9th."
    )


def _payloads(given: Any) -> Iterator[bytes]:
    if given.payload_monotonic:
        return (str(number).encode() for number in itertools.count())
    if given.payload_file:
        delimiter = given.payload_delimiter.encode().decode("unicode_escape").encode()
        pieces = [p for p in Path(given.payload_file).read_bytes().split(delimiter) if p]
        if not pieces:
            raise CommandError("File is empty or file contains only delimiters.")
        chosen = random.Random(0)
        return iter(lambda: chosen.choice(pieces), None)
    if given.record_size < 0:
        raise CommandError("--record-size should not be negative")
    letters = random.Random(0)
    sample = [bytes(letters.choices(range(65, 91), k=given.record_size)) for _ in range(16)]
    return itertools.cycle(sample)


def main() -> None:
    arguments.run(command)


if __name__ == "__main__":
    main()
