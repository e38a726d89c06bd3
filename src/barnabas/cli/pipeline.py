"""`barnabas pipeline`: the data pipeline on Spark."""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from barnabas.cli.connect import Connect, connection_options
from barnabas.cli.exits import FAILED, NOT_FOUND, OK, CommandError
from barnabas.cli.output import Output, format_option

if TYPE_CHECKING:
    from barnabas.spark.generator import Record
    from barnabas.spark.jobs.job import Job
    from barnabas.spark.pipeline import Pipeline
    from barnabas.spark.progress import Progress

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_HOME = "barnabas-pipeline"
STALE_S = 60


@click.group()
def pipeline() -> None:
    """The data pipeline on Spark: traffic, jobs, progress."""


def home_option(command: F) -> F:
    return click.option(
        "--home",
        type=click.Path(file_okay=False),
        default=DEFAULT_HOME,
        show_default=True,
        help="Where checkpoints, the lake, the database and the status are.",
    )(command)


def generator_options(command: F) -> F:
    """What the traffic is like; the same for `generate` and `demo`."""
    for option in reversed(
        (
            click.option("--seed", type=int, default=0, show_default=True, help="Same seed, same."),
            click.option("--count", type=click.IntRange(1), default=10_000, show_default=True),
            click.option(
                "--rate",
                type=click.FloatRange(0, min_open=True),
                default=2.0,
                show_default=True,
                help="Events in a second of the traffic's own time.",
            ),
            click.option(
                "--skew",
                type=click.FloatRange(0),
                default=0.7,
                show_default=True,
                help="0: all people alike; 1 and more: few do most.",
            ),
            click.option(
                "--cheaters",
                type=click.IntRange(0),
                default=3,
                show_default=True,
                help="How many phone farms, and as many invitation rings.",
            ),
        )
    ):
        command = option(command)
    return command


@pipeline.command(
    epilog="""\
\b
Examples:
  barnabas pipeline generate --count 100000
  barnabas pipeline generate --rate 500 --pace
  barnabas pipeline generate --to traffic/ --truth truth.json
  barnabas pipeline generate --stdout | head
"""
)
@generator_options
@click.option("--start", metavar="MOMENT", help="When it starts.  [default: so that it ends now]")
@click.option("--pace", is_flag=True, help="Start now and send each record at its time.")
@click.option(
    "--to", type=click.Path(file_okay=False), help="Into files DIRECTORY/TOPIC, not to a broker."
)
@click.option("--stdout", is_flag=True, help="As JSON lines on standard output.")
@click.option(
    "--truth", type=click.Path(dir_okay=False), help="File for who cheats and who has what."
)
@click.option(
    "--partitions", type=click.IntRange(1), default=4, show_default=True, help="Of new topics."
)
@connection_options
@format_option
def generate(
    seed: int,
    count: int,
    rate: float,
    skew: float,
    cheaters: int,
    start: str | None,
    pace: bool,
    to: str | None,
    stdout: bool,
    truth: str | None,
    partitions: int,
    connect: Connect,
    out: Output,
) -> None:
    """Make reproducible traffic with known cheaters in it."""
    from barnabas.cli.moments import parse_moment_ms
    from barnabas.spark import feed
    from barnabas.spark.generator import Settings, Traffic

    if to is not None and stdout:
        raise click.UsageError("--to and --stdout are two places; give one.")
    now_ms = _now_ms()
    settings = Settings(seed, count, rate, skew, cheaters)
    try:
        start_ms = parse_moment_ms(start, now_ms) if start else now_ms - settings.span_ms
    except ValueError as error:
        raise click.UsageError(f"--start: {error}.") from None
    traffic = Traffic(Settings(seed, count, rate, skew, cheaters, now_ms if pace else start_ms))
    records: Iterable[Record] = traffic.records()
    if pace:
        records = feed.paced(records, _now_ms)
    began = time.monotonic()
    if stdout:
        _print(records)
    elif to is not None:
        feed.write(records, Path(to))
    else:
        feed.ensure_topics(connect.options, partitions)
        feed.send(records, connect.options)
    if truth is not None:
        Path(truth).write_text(json.dumps(traffic.truth.as_json(), indent=1) + "\n", "utf-8")
    if stdout:
        return
    seconds = time.monotonic() - began
    told = traffic.truth
    summary = {
        "records": sum(told.records.values()),
        "seconds": round(seconds, 3),
        "copies": told.copies,
        "malformed": told.malformed,
        "too_late": told.late,
        "switching_devices": len(told.switching_devices),
        "rings": len(told.rings),
    }
    out.properties(summary)


def _print(records: Iterable[Record]) -> None:
    from barnabas.spark import feed

    for offset, record in enumerate(records):
        print(json.dumps({"topic": record.topic, **json.loads(feed.line(record, offset))}))


@pipeline.command(epilog="\b\nExamples:\n  barnabas pipeline topics --partitions 8")
@click.option("--partitions", type=click.IntRange(1), default=4, show_default=True)
@connection_options
@format_option
def topics(partitions: int, connect: Connect, out: Output) -> None:
    """Make the pipeline's topics that are not there."""
    from barnabas.spark import feed

    made = feed.ensure_topics(connect.options, partitions)
    out.data(made)
    for name in made:
        out.line(f"created topic {name}")
    if not made:
        out.line("all topics are there")


@pipeline.command(name="list", epilog="\b\nExamples:\n  barnabas pipeline list")
@format_option
def list_jobs(out: Output) -> None:
    """The jobs, what they read and where their answers go."""
    from barnabas.spark.jobs.registry import JOBS

    rows = [
        {
            "job": job.name,
            "what": job.documentation,
            "topics": list(job.topics),
            "answers": list(job.outputs),
        }
        for job in JOBS.values()
    ]
    out.table(rows, ["job", "what", "answers"])


def spark_options(command: F) -> F:
    """Where the records, the answers and Spark are; the command gets `open_pipeline`."""

    @click.option(
        "--database", metavar="URL", help="postgresql://…, or a file.  [default: in --home]"
    )
    @click.option(
        "--lake",
        type=click.Choice(["parquet", "delta"]),
        default="parquet",
        show_default=True,
        help="The lake's commit log: this package's or Delta Lake's.",
    )
    @click.option(
        "--storage",
        metavar="URL",
        help="Checkpoints and the lake, if not in --home: a place that all executors reach.",
    )
    @click.option(
        "--cassandra", metavar="URL", help="cassandra://HOST[:PORT]/KEYSPACE, for events."
    )
    @click.option(
        "--connector",
        type=click.Choice(["kafka"]),
        default="kafka",
        show_default=True,
        help="How Spark reads topics: its own Kafka source, whose jars are given with --jar.",
    )
    @click.option("--jar", "jars", multiple=True, metavar="FILE", help="A jar for the session.")
    @click.option("--from", "directory", metavar="DIRECTORY", help="Topics in files, no broker.")
    @click.option("--master", metavar="URL", help="Spark's master.  [default: this machine]")
    @click.option("--driver-memory", default="1g", show_default=True)
    @click.option("--max-records", type=click.IntRange(1), help="In one micro-batch of a job.")
    @click.option("--trigger", default="2 seconds", show_default=True, help="Time between batches.")
    @home_option
    @connection_options
    @functools.wraps(command)
    def with_pipeline(
        *args: Any,
        home: str,
        connect: Connect,
        directory: str | None,
        connector: str,
        jars: tuple[str, ...],
        master: str | None,
        driver_memory: str,
        database: str | None,
        lake: str,
        cassandra: str | None,
        storage: str | None,
        max_records: int | None,
        trigger: str,
        **kwargs: Any,
    ) -> Any:
        def open_pipeline() -> Pipeline:
            from barnabas.spark import session
            from barnabas.spark.pipeline import Pipeline, Settings
            from barnabas.spark.streams import Files, Log, Records

            records: Records
            if directory is not None:
                records = Files(directory)
            else:
                client = {k: v for k, v in connect.options.items() if k != "bootstrap.servers"}
                records = Log(connect.bootstrap, connector, client)
            with plain_errors():
                spark = session.start(
                    "barnabas pipeline", master=master, driver_memory=driver_memory, jars=jars
                )
                settings = Settings(
                    home, records, database, lake, cassandra, max_records, trigger, storage
                )
                return Pipeline(spark, settings)

        return command(*args, open_pipeline=open_pipeline, **kwargs)

    return with_pipeline  # type: ignore[return-value]


@contextmanager
def plain_errors() -> Iterator[None]:
    """What the pipeline knows to go wrong, as a message and an exit code."""
    from barnabas.spark.outputs.cassandra import CassandraError
    from barnabas.spark.outputs.database import DatabaseError
    from barnabas.spark.outputs.lake import LakeError
    from barnabas.spark.runner import PipelineError
    from barnabas.spark.session import SparkMissing
    from barnabas.spark.streams import TopicsMissing

    try:
        yield
    except TopicsMissing as error:
        raise CommandError(f"{error}.", NOT_FOUND) from None
    except (SparkMissing, PipelineError, DatabaseError, LakeError, CassandraError) as error:
        raise CommandError(f"{str(error).removesuffix('.')}.") from None


def jobs_named(names: tuple[str, ...]) -> list[Job]:
    from barnabas.spark.jobs.registry import JOBS

    if not names or names == ("all",):
        return list(JOBS.values())
    unknown = [name for name in names if name not in JOBS]
    if unknown:
        raise click.UsageError(f"No job {unknown[0]!r}; there are {', '.join(JOBS)}, and all.")
    return [JOBS[name] for name in dict.fromkeys(names)]


@pipeline.command(
    epilog="""\
\b
Examples:
  barnabas pipeline run collect
  barnabas pipeline run all --once
  barnabas pipeline run earnings --database postgresql://localhost/app
"""
)
@click.argument("jobs", nargs=-1, required=True, metavar="JOB…|all")
@click.option("--once", is_flag=True, help="To the end of what is there, then stop.")
@spark_options
@format_option
def run(
    jobs: tuple[str, ...], once: bool, open_pipeline: Callable[[], Pipeline], out: Output
) -> None:
    """Run jobs as streams; after a crash the same command goes on."""
    chosen = jobs_named(jobs)

    def show(progress: Progress) -> None:
        if out.is_text:
            print(progress.line(), file=sys.stderr)

    with plain_errors():
        from barnabas.spark import runner

        found = runner.run(open_pipeline(), chosen, once=once, on_progress=show)
    out.data([_as_row(progress) for progress in found])


def _as_row(progress: Progress) -> dict[str, Any]:
    from dataclasses import asdict

    return {name: value for name, value in asdict(progress).items() if not name.startswith("_")}


@pipeline.command(
    epilog="\b\nExamples:\n  barnabas pipeline backfill earnings\n  barnabas pipeline backfill all"
)
@click.argument("jobs", nargs=-1, required=True, metavar="JOB…|all")
@spark_options
@format_option
def backfill(jobs: tuple[str, ...], open_pipeline: Callable[[], Pipeline], out: Output) -> None:
    """Compute jobs' answers from the whole log, in place of what is there."""
    chosen = jobs_named(jobs)
    rows = []
    with plain_errors():
        from barnabas.spark.runner import failure

        pipe = open_pipeline()
        for job in chosen:
            pipe.prepare(job)
            began = time.monotonic()
            try:
                pipe.backfill(job)
            except Exception as error:
                raise failure(job.name, pipe, error) from error
            rows.append({"job": job.name, "seconds": round(time.monotonic() - began, 3)})
            out.line(f"{job.name:<18}done in {rows[-1]['seconds']:.1f} s")
    out.data(rows)


@pipeline.command(epilog="\b\nExamples:\n  barnabas pipeline status --format json")
@home_option
@format_option
def status(home: str, out: Output) -> None:
    """What the jobs last reported: rows a second, lag, batch times."""
    from barnabas.spark import progress

    now_ms = _now_ms()
    rows = progress.load(Path(home) / "status")
    for row in rows:
        row["age_s"] = round((now_ms - row["updated_ms"]) / 1000, 1)
    columns = ["job", "state", "batches", "rows", "rows_per_second", "lag", "batch_ms"]
    columns += ["slowest_batch_ms", "state_rows", "age_s"]
    out.table(rows, columns, empty=f"No job has run with --home {home}.")
    for row in rows:
        if row["error"]:
            out.line(f"{row['job']}: {row['error']}")


@pipeline.command(epilog="\b\nExamples:\n  barnabas pipeline demo --count 50000 --seed 3")
@generator_options
@click.option(
    "--connector",
    type=click.Choice(["kafka"]),
    default="kafka",
    show_default=True,
    help="How Spark reads topics: its own Kafka source, whose jars are given with --jar.",
)
@click.option("--jar", "jars", multiple=True, metavar="FILE", help="A jar for the session.")
@click.option(
    "--home",
    type=click.Path(file_okay=False),
    help="Where everything is kept.  [default: a temporary directory]",
)
@format_option
def demo(
    seed: int,
    count: int,
    rate: float,
    skew: float,
    cheaters: int,
    connector: str,
    jars: tuple[str, ...],
    home: str | None,
    out: Output,
) -> int:
    """A broker, traffic, all five jobs, and their answers beside the truth."""
    from barnabas.cli import pipeline_demo
    from barnabas.spark.generator import Settings

    span_ms = Settings(count=count, rate=rate).span_ms
    settings = Settings(seed, count, rate, skew, cheaters, _now_ms() - span_ms)
    with plain_errors():
        judged = pipeline_demo.play(settings, connector, jars, home, out)
    return OK if all(row.right for row in judged) else FAILED


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
