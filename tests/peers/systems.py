"""The system under test: Barnabas, or Apache Kafka when BARNABAS_PEERS_SUT=apache.

Running the same tests against Apache's broker is how the tests themselves are proved: what they
demand of Barnabas is what Kafka does. Both systems offer the same few operations.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.peers import apache

SUT = os.environ.get("BARNABAS_PEERS_SUT", "barnabas")
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
BOOTSTRAP_LINE = re.compile(rb"bootstrap=([^\s,]+:\d+)")
TEST_SIZED = {
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
}


class System(Protocol):
    """A single node that can be stopped, killed and started again on the same port and data."""

    directory: Path

    @property
    def bootstrap(self) -> str: ...
    @property
    def data_dir(self) -> Path: ...
    @property
    def log_file(self) -> Path: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def restart(self) -> None: ...


@dataclass(slots=True)
class BarnabasBroker:
    """`barnabas up` in a process of its own. Its output is in `directory/broker.log`."""

    directory: Path
    overrides: Mapping[str, str]
    bootstrap: str = "127.0.0.1:0"
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def data_dir(self) -> Path:
        return self.directory / "data"

    @property
    def log_file(self) -> Path:
        return self.directory / "broker.log"

    def start(self) -> None:
        """Port 0 the first time; later starts keep the port, so that clients find it again."""
        port = self.bootstrap.rsplit(":", 1)[1]
        command = [sys.executable, "-m", "barnabas.cli.main", "up"]
        command += ["--port", port, "--data", str(self.data_dir)]
        for key, value in self.overrides.items():
            command += ["--override", f"{key}={value}"]
        environment = {**os.environ, "PYTHONPATH": str(apache.ROOT / "src"), "NO_COLOR": "1"}
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            seen = log.tell()
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment
            )
        self.bootstrap = self._wait_for_bootstrap(seen, time.monotonic() + START_TIMEOUT_S)

    def _wait_for_bootstrap(self, position: int, deadline: float) -> str:
        assert self.process is not None
        while time.monotonic() < deadline:
            ended = self.process.poll() is not None
            found = BOOTSTRAP_LINE.search(self.log_file.read_bytes()[position:])
            if found:
                # A broker tells clients the address that they used: one that is no name.
                return found[1].decode().replace("localhost", "127.0.0.1")
            if ended:
                break
            time.sleep(0.02)
        tail = self.log_file.read_text(errors="replace")[-4000:]
        self.kill()
        raise RuntimeError(f"barnabas up did not start\n{tail}")

    def stop(self) -> None:
        """SIGTERM and wait: a clean shutdown, and it must be one."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            code = self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError("barnabas up did not stop on SIGTERM") from None
        self.process = None
        if code != 0:
            tail = self.log_file.read_text(errors="replace")[-4000:]
            raise RuntimeError(f"barnabas up ended with exit code {code}\n{tail}")

    def kill(self) -> None:
        """SIGKILL: a crash of the process, not of the machine."""
        if self.process is not None:
            if self.process.poll() is None:
                os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process = None

    def restart(self) -> None:
        self.start()


def missing() -> str | None:
    """Why the system under test cannot run here, or None when it can."""
    if SUT == "apache":
        return apache.missing()
    return None


def start_system(directory: Path, overrides: Mapping[str, str] | None = None) -> System:
    """Starts the system under test; `stop()` it in a finally or a fixture."""
    settings = {**TEST_SIZED, **(overrides or {})}
    if SUT == "apache":
        return apache.start_broker(directory, settings)
    return start_barnabas(directory, settings)


def start_barnabas(directory: Path, overrides: Mapping[str, str] | None = None) -> BarnabasBroker:
    broker = BarnabasBroker(Path(directory), overrides or {})
    broker.start()
    return broker
