"""A Spark session with the settings that the pipeline needs, or one clear reason why there is none.

On one machine Spark runs inside this process's JVM (`local[*]` by default). The settings below were
tried on two cores: two shuffle partitions instead of 200 (each is a task and a state store in every
micro-batch), one gigabyte for the driver, RocksDB for state so that it lives on disk instead of the
heap, no web page. UTC, since windows and the lake's hours are UTC. A session takes three to nine
seconds to start, nearly all of it the JVM.

On a cluster, `spark-submit` (docs/pipeline.md has the command) or an existing session brings its own
master and memory; only what the jobs rely on (the state store, the time zone, ANSI casts) is then set
on it.

`PYSPARK_PYTHON` is set to this interpreter, so that Python workers find the same packages.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIN_JAVA = 17
JAVA_TIMEOUT_S = 30
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit, whose master, memory and jars are then in force."""
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

# For runs of a minute or two: compiling plans to Java, and Java once more by the second compiler,
# takes more time than it gives.
SHORT_RUN = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}

# What the jobs rely on; set on any session, also on one that was there before.
NEEDED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "256",
    # A stateful query plans one more batch when there is no new data, so that a watermark that
    # moved is acted upon at the end of the data.
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
    # The lake names its files one by one; asking for many with one task each is slower than the
    # driver asking for all of them.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    # A micro-batch's plan and commit files are kept for this many batches only.
    "spark.sql.streaming.minBatchesToRetain": "10",
}

LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
    # Batches are small: planning costs more than what it could save.
    "spark.sql.adaptive.enabled": "false",
}


class SparkMissing(Exception):
    """Spark cannot run here; the message says what is missing and what to do."""


def check_available() -> None:
    """Raises SparkMissing unless PySpark, pyarrow and a Java that Spark can use are there."""
    for module, package in (("pyspark", "pyspark"), ("pyarrow", "pyarrow")):
        try:
            __import__(module)
        except ImportError:
            raise SparkMissing(
                f"the pipeline needs {package}: pip install 'barnabas[spark]'"
            ) from None
    java = java_executable()
    if java is None:
        raise SparkMissing(
            f"Spark needs Java {MIN_JAVA} or later and there is no `java` in JAVA_HOME or PATH; "
            "install one, or set JAVA_HOME"
        )
    version = java_version(java)
    if version is not None and version < MIN_JAVA:
        raise SparkMissing(
            f"Spark needs Java {MIN_JAVA} or later, {java} is Java {version}; set JAVA_HOME to "
            "a newer one"
        )


def java_executable() -> str | None:
    """The `java` that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    if home:
        found = Path(home) / "bin" / "java"
        return str(found) if found.exists() else None
    return shutil.which("java")


def java_version(java: str) -> int | None:
    """The major version of a `java`; None if it does not tell."""
    try:
        ran = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', ran.stderr + ran.stdout)
    return int(found.group(1)) if found else None


def start(
    name: str = "barnabas",
    *,
    master: str | None = None,
    shuffle_partitions: int | None = None,
    driver_memory: str = "1g",
    jars: tuple[str, ...] = (),
    config: dict[str, str] | None = None,
) -> SparkSession:
    """The running session, or a new one: what spark-submit was told, else on `master`, else on this
    machine."""
    check_available()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None:
        cores = os.cpu_count() or 2
        builder = SparkSession.builder.appName(name)
        settings = dict(NEEDED)
        if SUBMITTED not in os.environ:
            if master is None or master.startswith("local"):
                settings.update(LOCAL)
                settings["spark.sql.shuffle.partitions"] = str(shuffle_partitions or max(2, cores))
            builder = builder.master(master or f"local[{cores}]")
            settings["spark.driver.memory"] = driver_memory
        if jars:
            settings["spark.jars"] = ",".join(jars)
        settings.update(config or {})
        for key, value in settings.items():
            builder = builder.config(key, value)
        active = builder.getOrCreate()
    for key, value in NEEDED.items():
        active.conf.set(key, value)
    return active
