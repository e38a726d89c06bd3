"""The driver and the broker killed in the middle of each job: the answers are those of an undisturbed
run. It takes minutes, so it runs only if asked for: make spark."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas.spark import feed, progress
from barnabas.spark.jobs.registry import JOBS
from barnabas.spark.pipeline import Pipeline, Settings
from barnabas.spark.streams import Log
from tests.spark.conftest import Generated, answers

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("BARNABAS_SPARK_LONG"), reason="minutes long: make spark"
    ),
    pytest.mark.timeout(900),
]

SOURCE = str(Path(__file__).parents[2] / "src")
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE}
BARNABAS = [sys.executable, "-m", "barnabas.cli.main"]
DEADLINE_S = 600
KILLS = 2
BATCHES = 6


class Broker:
    """A broker process that can be killed and comes back with its data and port."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._process: subprocess.Popen[str] | None = None
        self.port = 0
        self.start()

    def start(self) -> None:
        command = [*BARNABAS, "up", "--port", str(self.port), "--data", str(self._data)]
        command += ["--override", "log.retention.ms=-1"]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
        assert self._process.stdout is not None
        first = self._process.stdout.readline()
        self.port = int(first.strip().rpartition(":")[2])

    @property
    def bootstrap(self) -> str:
        return f"localhost:{self.port}"

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()


@contextmanager
def driver(
    job: str, broker: Broker, home: Path, jars: tuple[str, ...], max_records: int
) -> Iterator[Any]:
    """`barnabas pipeline run JOB --once` with its JVM, in a process group of their own."""
    command = [*BARNABAS, "pipeline", "run", job, "--once", "--home", str(home)]
    command += ["-b", broker.bootstrap, "--connector", "kafka"]
    command += ["--max-records", str(max_records), "--master", "local[2]"]
    for jar in jars:
        command += ["--jar", jar]
    with (home / f"{job}.log").open("a") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env=ENVIRONMENT, start_new_session=True
        )
    try:
        yield process
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def batches(home: Path, job: str) -> int:
    found = {row["job"]: row["batches"] for row in progress.load(home / "status")}
    return int(found.get(job, 0))


def wait_for(condition: Any, process: Any) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition() and process.poll() is None:
        assert time.monotonic() < deadline, "the job makes no progress"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def broker(generated: Generated, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    found = Broker(tmp_path_factory.mktemp("broker"))
    options = {"bootstrap.servers": found.bootstrap}
    feed.ensure_topics(options, 2)
    feed.send(generated.records, options)
    yield found
    found.kill()


@pytest.mark.parametrize("name", JOBS)
def test_killed_in_the_middle_a_job_answers_as_if_nothing_had_happened(
    connector_jars: tuple[str, ...],
    spark: Any,
    backfilled: Pipeline,
    broker: Broker,
    generated: Generated,
    tmp_path: Path,
    name: str,
) -> None:
    size = sum(generated.truth.records[topic] for topic in JOBS[name].topics) // BATCHES
    chance = random.Random(name)
    status = tmp_path / "status" / f"{name}.json"
    for _ in range(KILLS):
        status.unlink(missing_ok=True)
        with driver(name, broker, tmp_path, connector_jars, size) as process:
            wait_for(lambda: batches(tmp_path, name) >= 1, process)
            time.sleep(chance.random() * 2)  # somewhere in a batch
    with driver(name, broker, tmp_path, connector_jars, size) as process:
        status.unlink(missing_ok=True)
        wait_for(status.exists, process)
        broker.kill()
        time.sleep(chance.random())
        broker.start()
        wait_for(lambda: False, process)
        code = process.returncode
    if code != 0:  # the broker was away for longer than the connector waits
        with driver(name, broker, tmp_path, connector_jars, size) as process:
            wait_for(lambda: False, process)
            assert process.returncode == 0, (tmp_path / f"{name}.log").read_text()[-2000:]

    settings = Settings(str(tmp_path), Log(broker.bootstrap, "kafka"))
    pipeline = Pipeline(spark, settings)
    assert json.loads(status.read_text())["state"] == "done"
    assert answers(pipeline, JOBS[name]) == answers(backfilled, JOBS[name])
