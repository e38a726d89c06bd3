"""Runs jobs as streams: one query a job, each with its own checkpoint, their progress as they go.

A stream runs until it is stopped, or (`once`) to the end of what the topics had when it started. After
a crash the same command goes on where the checkpoint says; the outputs skip what they have.

The query's id, which the outputs keep with a batch, is a local property of the thread in which Spark
runs the micro-batch, so it is known in the first batch already.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.spark import progress as progress_files
from barnabas.spark.jobs.job import Job
from barnabas.spark.outputs.batch import BatchId
from barnabas.spark.pipeline import Pipeline
from barnabas.spark.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S = 0.2
QUERY_ID = "sql.streaming.queryId"

OnProgress = Callable[[Progress], None]


class PipelineError(Exception):
    """A job has stopped; the message says which one and why."""


def start(pipeline: Pipeline, job: Job, *, once: bool) -> StreamingQuery:
    """The running query of a job, whose outputs are prepared."""
    settings = pipeline.settings

    def take(frame: DataFrame, number: int) -> None:
        query_id = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        assert query_id, "Spark tells the query of a micro-batch"
        pipeline.take(job, BatchId(query_id, number), frame)

    writer = (
        pipeline.stream(job)
        .writeStream.queryName(job.name)
        .outputMode(job.output_mode)
        .option("checkpointLocation", settings.checkpoint(job.name))
        .foreachBatch(take)
    )
    if once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=settings.trigger).start()


def run(
    pipeline: Pipeline,
    jobs: Sequence[Job],
    *,
    once: bool = False,
    on_progress: OnProgress = lambda _: None,
) -> list[Progress]:
    """Runs the jobs side by side until they end; the progress of each. The first that fails ends
    them all."""
    queries: dict[str, StreamingQuery] = {}
    found = {job.name: Progress(job.name) for job in jobs}
    status = Path(pipeline.settings.home) / "status"
    for job in jobs:
        pipeline.prepare(job)
    try:
        for job in jobs:
            try:
                queries[job.name] = start(pipeline, job, once=once)
            except Exception as error:
                failed = failure(job.name, pipeline, error)
                found[job.name].state, found[job.name].error = "failed", str(failed)
                progress_files.save(status, found[job.name], _now_ms())
                raise failed from error
        _follow(pipeline, queries, found, status, on_progress)
    finally:
        for name, query in queries.items():
            if query.isActive:
                query.stop()
                found[name].state = "stopped"
                progress_files.save(status, found[name], _now_ms())
    return list(found.values())


def _follow(
    pipeline: Pipeline,
    queries: dict[str, StreamingQuery],
    found: dict[str, Progress],
    status: Path,
    on_progress: OnProgress,
) -> None:
    waiting = dict(queries)
    while waiting:
        for name, query in list(waiting.items()):
            active = query.isActive
            progress = found[name]
            changed = progress.update(query.recentProgress)
            state = "running" if active else "done"
            error = None if active else query.exception()
            if error is not None:
                state = "failed"
                progress.error = str(failure(name, pipeline, error))
            if changed or state != progress.state:
                progress.state = state
                progress_files.save(status, progress, _now_ms())
                on_progress(progress)
            if error is not None:
                raise failure(name, pipeline, error)
            if not active:
                del waiting[name]
        if waiting:
            time.sleep(POLL_S)


def failure(job: str, pipeline: Pipeline, error: BaseException) -> PipelineError:
    """A sentence of what Spark said, and what to do where that is known."""
    text = str(error).strip()
    # Spark wraps what happened in a foreachBatch in the whole Python traceback; its end is the cause.
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("at ", "JVM stacktrace", "==="))]
    causes = [line for line in lines if _is_cause(line)]
    cause = causes[-1] if causes else (lines[0] if lines else type(error).__name__)
    checkpoint = pipeline.settings.checkpoint(job)
    hints = {
        "Failed to find data source: kafka": "Spark's Kafka connector is not on the session; "
        "give its jars with --jar",
        "checkpoint": f"the checkpoint is {checkpoint}; a job whose checkpoint is removed reads "
        "from the start, into outputs that are best replaced by a backfill",
    }
    hint = next((said for mark, said in hints.items() if mark in text), None)
    return PipelineError(f"{job}: {cause}" + (f" ({hint})" if hint else ""))


def _is_cause(line: str) -> bool:
    head = line.partition(":")[0]
    return bool(head) and " " not in head and head.endswith(("Error", "Exception"))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
