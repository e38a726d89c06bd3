"""The brokers that the Python clients are tested against: Barnabas, and Apache Kafka of several ages.

`BARNABAS_PEERS_VERSIONS="2.4.1 3.9.1"` adds releases that `KAFKA_VERSIONS="…" scripts/fetch-peers` has
fetched. A release that is not there is skipped with the reason.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from tests.peers import apache, apache_zookeeper, systems

OWN = "barnabas"
RELEASES = [apache.VERSION, *os.environ.get("BARNABAS_PEERS_VERSIONS", "").split()]
NAMES = [OWN, *RELEASES, apache_zookeeper.VERSION]
FIRST_WITHOUT_ZOOKEEPER = (3, 3)
OVERRIDES = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "log.cleaner.backoff.ms": "100",
}


class Running(Protocol):
    process: subprocess.Popen[bytes] | None

    @property
    def bootstrap(self) -> str: ...
    @property
    def data_dir(self) -> Path: ...
    def stop(self) -> None: ...
    def restart(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Target:
    """One broker, and the release of Apache Kafka as which it behaves."""

    name: str
    system: Running
    release: tuple[int, ...]

    @property
    def bootstrap(self) -> str:
        return self.system.bootstrap

    @property
    def own(self) -> bool:
        return self.name == OWN

    def since(self, *release: int) -> bool:
        return self.release >= release

    def signal(self, number: int) -> None:
        """To the broker's process: SIGSTOP makes it a very slow one."""
        assert self.system.process is not None
        self.system.process.send_signal(number)


def numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def start(name: str, directory: Path) -> Iterator[Target]:
    """Starts it, gives it once, ends it; skips when it cannot be had."""
    if name == OWN:
        own = systems.start_barnabas(directory, {**systems.TEST_SIZED, **OVERRIDES})
        yield Target(name, own, numbers(apache.VERSION))
        own.stop()
        return
    if (reason := apache.missing(name)) is not None:
        pytest.skip(reason)
    release = numbers(name)
    if release < FIRST_WITHOUT_ZOOKEEPER:
        old = apache_zookeeper.start_broker(directory, OVERRIDES, version=name)
        yield Target(name, old, release)
        old.kill()
        old.end()
    else:
        new = apache.start_broker(directory, OVERRIDES, version=name)
        yield Target(name, new, release)
        new.kill()
