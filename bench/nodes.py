"""The two brokers that are compared, and what the operating system says about their processes.

Both run with their defaults on a fresh directory of a memory file system, so that disks do not
blur the comparison; Apache Kafka gets the heap and collector that its own start script gives it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.peers import apache, systems

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
SERVER_OPTIONS = (
    "-Xms1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    f"-Dlog4j2.configurationFile={apache.LOG4J}",
)
TOOL_OPTIONS = SERVER_OPTIONS[1:]
POLL_S = 0.005


@dataclass(slots=True)
class Node:
    """A started broker. `start_s` is from the process's birth to its first useful Metadata answer,
    `format_s` what had to be done on the empty directory before."""

    system: str
    directory: Path
    bootstrap: str
    process: subprocess.Popen[bytes]
    start_s: float
    format_s: float

    def cpu_s(self) -> float:
        """User and system time that the process used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def rss_mb(self) -> float:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("the broker is gone")

    def list_topics_s(self) -> float:
        """How long the command that lists the topics takes, from start to end of its process."""
        started = time.perf_counter()
        if self.system == "kafka":
            arguments = ["--bootstrap-server", self.bootstrap, "--list"]
            command = apache.java_command(
                "TopicCommand", arguments, version=kafka_version(), options=TOOL_OPTIONS
            )
        else:
            command = [*barnabas_command(), "topic", "list", "--bootstrap-server", self.bootstrap]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return time.perf_counter() - started

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def kafka_version() -> str:
    """The version to compare with: the older of the fetched ones unless KAFKA_VERSION says."""
    wanted = os.environ.get("KAFKA_VERSION")
    versions = [wanted] if wanted else ["4.2.1", "4.3.0"]
    for version in versions:
        if apache.missing(version) is None:
            return version
    raise SystemExit(apache.missing(versions[0]))


def barnabas_command() -> list[str]:
    """The installed command, as a user would call it."""
    script = Path(sys.executable).with_name("barnabas")
    return [str(script)] if script.exists() else [sys.executable, "-m", "barnabas.cli.main"]


def memory_directory() -> Path:
    """A place on a memory file system, or the usual temporary one where there is none."""
    shared = Path("/dev/shm")
    return shared if shared.is_dir() and os.access(shared, os.W_OK) else Path("/tmp")


def start(system: str, directory: Path) -> Node:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return start_kafka(directory) if system == "kafka" else start_barnabas(directory)


def start_kafka(directory: Path) -> Node:
    version = kafka_version()
    port = apache.free_port()
    properties = apache.write_properties(
        directory,
        port,
        {"offsets.topic.num.partitions": "50", "group.initial.rebalance.delay.ms": "3000"},
    )
    began = time.perf_counter()
    apache.format_storage(properties, version=version)
    format_s = time.perf_counter() - began
    command = apache.java_command(
        "kafka.Kafka",
        [str(properties)],
        version=version,
        heap="1g",
        log_level="INFO",
        options=SERVER_OPTIONS,
    )
    return await_answer("kafka", directory, command, f"127.0.0.1:{port}", format_s)


def start_barnabas(directory: Path) -> Node:
    port = apache.free_port()
    command = [*barnabas_command(), "up", "--port", str(port), "--data", str(directory / "data")]
    return await_answer("barnabas", directory, command, f"127.0.0.1:{port}", 0.0)


def await_answer(
    system: str, directory: Path, command: list[str], bootstrap: str, format_s: float
) -> Node:
    log_file = directory / "broker.log"
    began = time.perf_counter()
    with log_file.open("ab") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment()
        )
    while not apache.has_broker_in_metadata(bootstrap):
        if process.poll() is not None or time.perf_counter() - began > systems.START_TIMEOUT_S:
            process.kill()
            raise RuntimeError(f"{system} did not start\n{log_file.read_text()[-4000:]}")
        time.sleep(POLL_S)
    return Node(system, directory, bootstrap, process, time.perf_counter() - began, format_s)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(apache.ROOT / "src")}
