"""An old Apache Kafka as a peer: one broker, and the ZooKeeper that keeps its metadata.

    broker = start_broker(tmp_path)      # Apache Kafka 2.1.1
    broker.bootstrap, broker.stop(), broker.restart(), broker.end()

Both are processes of their own, since a broker is stopped and its metadata stays. A broker that was
killed cannot be started again before its session with ZooKeeper has expired. Their jars come from
`.peers/kafka-2.1.1`; `missing()` says why they cannot be used. They start together in about three
seconds: the broker waits for its ZooKeeper by itself.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.peers import apache
from tests.peers.apache import STOP_TIMEOUT_S, ApacheBroker, free_port

VERSION = "2.1.1"
HEAP = "256m"
ZOOKEEPER_HEAP = "64m"
OPTIONS = (
    "-Xms32m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dzookeeper.admin.enableServer=false",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)


def missing(version: str = VERSION) -> str | None:
    """Why this Apache Kafka cannot be used here, or None when it can."""
    return apache.missing(version)


@dataclass(slots=True)
class ZooKeeperBroker(ApacheBroker):
    """Restarts of the broker find the ZooKeeper that they left; `stop` ends both."""

    zookeeper: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def launch_zookeeper(self) -> None:
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = apache.java_command(
            main,
            [str(self.directory / "zookeeper.properties")],
            version=self.version,
            heap=ZOOKEEPER_HEAP,
            options=OPTIONS,
        )
        with (self.directory / "zookeeper.log").open("ab") as log:
            self.zookeeper = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def end(self) -> None:
        """Broker first, because its clean shutdown writes to ZooKeeper."""
        self.stop()
        zookeeper, self.zookeeper = self.zookeeper, None
        if zookeeper is not None:
            zookeeper.terminate()
            zookeeper.wait(STOP_TIMEOUT_S)


def start_broker(
    directory: Path, overrides: Mapping[str, str] | None = None, *, version: str = VERSION
) -> ZooKeeperBroker:
    """A broker with test-sized internal topics on a free loopback port; `end()` it."""
    directory.mkdir(parents=True, exist_ok=True)
    port, zookeeper_port = free_port(), free_port()
    _write(
        directory / "zookeeper.properties",
        {
            "dataDir": str(directory / "zookeeper"),
            "clientPort": str(zookeeper_port),
            "clientPortAddress": "127.0.0.1",
            "tickTime": "500",
            "maxClientCnxns": "0",
        },
    )
    _write(
        directory / "server.properties",
        {
            "broker.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "zookeeper.connect": f"127.0.0.1:{zookeeper_port}",
            "zookeeper.connection.timeout.ms": "30000",
            "log.dirs": str(directory / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "group.initial.rebalance.delay.ms": "0",
            **(overrides or {}),
        },
    )
    broker = ZooKeeperBroker(
        directory, f"127.0.0.1:{port}", version=version, heap=HEAP, options=OPTIONS
    )
    broker.launch_zookeeper()
    try:
        broker.start()
    except BaseException:
        broker.end()
        raise
    return broker


def _write(path: Path, properties: Mapping[str, str]) -> None:
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
