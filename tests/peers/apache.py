"""Apache Kafka as a peer: its jars, its broker and its command-line tools.

Everything comes from `.peers/`, which `scripts/fetch-peers` fills; `missing()` says what is not
there, and a test that needs it skips with that sentence.

- `jars()`: the jar files of one version.
- `start_broker(directory, overrides)`: formats and starts a combined node with a small heap on a
  free loopback port, waits until it answers, and returns an `ApacheBroker` (`bootstrap`,
  `data_dir`, `stop()`, `kill()`, `restart()`).
- `run_tool(name, args)`: one command-line tool by class name, in the JVM that all tests of a run
  share, because a JVM takes longer to start than a tool takes to work. `isolated=True` gives it a
  process of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".peers"
VERSION = "4.3.0"
CLUSTER_ID = "YmFybmFiYXMtcGVlcnMtMQ"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
LOG4J = Path(__file__).with_name("java") / "log4j2.properties"
JVM_OPTIONS = (
    "-Xms48m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
    f"-Dlog4j2.configurationFile={LOG4J}",
)

TOOLS = {
    name.rsplit(".", 1)[1]: name
    for name in (
        "kafka.admin.ConfigCommand",
        "kafka.tools.StorageTool",
        "org.apache.kafka.shell.MetadataShell",
        "org.apache.kafka.tools.BrokerApiVersionsCommand",
        "org.apache.kafka.tools.ClusterTool",
        "org.apache.kafka.tools.ConsoleProducer",
        "org.apache.kafka.tools.ConsumerPerformance",
        "org.apache.kafka.tools.DeleteRecordsCommand",
        "org.apache.kafka.tools.DumpLogSegments",
        "org.apache.kafka.tools.EndToEndLatency",
        "org.apache.kafka.tools.FeatureCommand",
        "org.apache.kafka.tools.GetOffsetShell",
        "org.apache.kafka.tools.GroupsCommand",
        "org.apache.kafka.tools.LeaderElectionCommand",
        "org.apache.kafka.tools.LogDirsCommand",
        "org.apache.kafka.tools.MetadataQuorumCommand",
        "org.apache.kafka.tools.ProducerPerformance",
        "org.apache.kafka.tools.TopicCommand",
        "org.apache.kafka.tools.TransactionsCommand",
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    )
}


def jars(version: str = VERSION) -> list[Path]:
    """The jars of one Apache Kafka version; empty when they were not fetched."""
    libs = PEERS / f"kafka-{version}" / "libs"
    return sorted(libs.glob("*.jar")) if (libs / ".complete").exists() else []


def missing(version: str = VERSION) -> str | None:
    """Why Apache Kafka cannot be used here, or None when it can."""
    if shutil.which("java") is None:
        return "no java on the PATH"
    if not jars(version):
        return f"Apache Kafka {version} is not in .peers (scripts/fetch-peers fetches it)"
    return None


def java_command(
    main_class: str,
    args: Sequence[str],
    *,
    version: str = VERSION,
    heap: str = "256m",
    log_level: str = "WARN",
    options: Sequence[str] = JVM_OPTIONS,
) -> list[str]:
    """The command line of a JVM with the jars of `version` and the test classes on its path."""
    class_path = f"{PEERS / 'java'}:{PEERS / f'kafka-{version}' / 'libs'}/*"
    return [
        "java",
        f"-Xmx{heap}",
        *options,
        f"-Dpeers.log.level={log_level}",
        "-cp",
        class_path,
        TOOLS.get(main_class, main_class),
        *args,
    ]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a command-line tool did: exit code and both outputs."""

    returncode: int
    stdout: str
    stderr: str

    def check(self) -> str:
        """The standard output, once it is sure that the tool succeeded."""
        if self.returncode != 0:
            raise AssertionError(
                f"exit code {self.returncode}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"
            )
        return self.stdout


def run_tool(
    name: str,
    args: Sequence[str],
    *,
    stdin: str = "",
    timeout_s: float = 60.0,
    isolated: bool = False,
    version: str = VERSION,
) -> ToolResult:
    """Runs one tool (`TOOLS` key or full class name) to its end."""
    if not isolated and version == VERSION and (PEERS / "java" / ".complete").exists():
        from tests.peers import jvm

        return jvm.shared().tool(TOOLS.get(name, name), list(args), stdin, timeout_s)
    done = subprocess.run(
        java_command(name, args, version=version),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return ToolResult(done.returncode, done.stdout, done.stderr)


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port


@dataclass(slots=True)
class ApacheBroker:
    """One running combined node. Its log is `directory/broker.log`, its data `directory/data`."""

    directory: Path
    bootstrap: str
    version: str = VERSION
    heap: str = "384m"
    options: Sequence[str] = JVM_OPTIONS
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def data_dir(self) -> Path:
        return self.directory / "data"

    @property
    def log_file(self) -> Path:
        return self.directory / "broker.log"

    def start(self) -> None:
        self.launch()
        self._wait_until_ready(time.monotonic() + START_TIMEOUT_S)

    def launch(self) -> None:
        """The process alone; several nodes of a cluster start side by side."""
        command = java_command(
            "kafka.Kafka",
            [str(self.directory / "server.properties")],
            version=self.version,
            heap=self.heap,
            log_level="INFO",
            options=self.options,
        )
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def _wait_until_ready(self, deadline: float) -> None:
        """A listener accepts before the broker is registered, so metadata is the real sign."""
        assert self.process is not None
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            if has_broker_in_metadata(self.bootstrap):
                return
            time.sleep(0.05)
        tail = self.log_file.read_text(errors="replace")[-4000:]
        self.kill()
        raise RuntimeError(f"Apache Kafka {self.version} did not start\n{tail}")

    def stop(self) -> None:
        """SIGTERM and wait: a clean shutdown."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None

    def kill(self) -> None:
        """SIGKILL: a crash of the process, not of the machine."""
        if self.process is not None:
            if self.process.poll() is None:
                os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process = None

    def restart(self) -> None:
        self.start()


def has_broker_in_metadata(bootstrap: str) -> bool:
    return brokers_in_metadata(bootstrap) > 0


def brokers_in_metadata(bootstrap: str) -> int:
    """Sends one Metadata v0 request by hand; how many brokers the answer names, 0 without one."""
    host, port = bootstrap.rsplit(":", 1)
    request = b"\x00\x03\x00\x00\x00\x00\x00\x07\xff\xff" + b"\x00\x00\x00\x00"
    try:
        with socket.create_connection((host, int(port)), timeout=2.0) as connection:
            connection.settimeout(5.0)
            connection.sendall(len(request).to_bytes(4, "big") + request)
            answer = b""
            while len(answer) < 12:
                chunk = connection.recv(4096)
                if not chunk:
                    return 0
                answer += chunk
            return int.from_bytes(answer[8:12], "big")
    except OSError:
        return 0


def write_properties(directory: Path, port: int, overrides: Mapping[str, str]) -> Path:
    """A server.properties for a combined single node, with test-sized internal topics."""
    controller_port = free_port()
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(directory / "data"),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        **overrides,
    }
    path = directory / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return path


def start_broker(
    directory: Path | str,
    overrides: Mapping[str, str] | None = None,
    *,
    version: str = VERSION,
    heap: str = "384m",
    options: Sequence[str] = JVM_OPTIONS,
) -> ApacheBroker:
    """Formats `directory/data` if needed and starts a node on it; `broker.stop()` ends it."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    properties = write_properties(directory, port, overrides or {})
    format_storage(properties, version=version)
    broker = ApacheBroker(directory, f"127.0.0.1:{port}", version, heap, options)
    broker.start()
    return broker


def format_storage(properties: Path, *, version: str = VERSION) -> None:
    """`kafka-storage format`, doing nothing on a directory that is formatted already."""
    args = ["format", "--ignore-formatted", "-t", CLUSTER_ID, "-c", str(properties)]
    run_tool("StorageTool", args, version=version).check()
