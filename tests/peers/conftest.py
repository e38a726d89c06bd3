"""Fixtures of the peers tests: one broker for the session, fresh names, and quick waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.peers import jvm, systems
from tests.peers.apache_cluster import QUICK, ApacheCluster, start_cluster

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.peers)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[systems.System]:
    """The system under test, shared: whoever stops a broker starts one of their own."""
    if (reason := systems.missing()) is not None:
        pytest.skip(reason)
    system = systems.start_system(tmp_path_factory.mktemp("shared-broker"))
    yield system
    system.stop()


@pytest.fixture(scope="session")
def apache_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    """Three Apache Kafka nodes with two log directories each; whoever stops one starts it again."""
    if (reason := jvm.missing()) is not None:
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("apache-cluster")
    running = start_cluster(directory, overrides=QUICK, log_dirs=2)
    yield running
    running.stop()


@pytest.fixture
def bootstrap(broker: systems.System) -> str:
    return broker.bootstrap


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A legal topic or group name that no other test has."""
    legal = "".join(c if c.isalnum() or c in "._-" else "-" for c in request.node.name)
    return f"{request.node.path.stem.removeprefix('test_')}.{legal}"[:180].rstrip("-")


@pytest.fixture
def eventually() -> Callable[..., None]:
    """`eventually(condition, within_s=…)`: polls until the condition holds; fails otherwise."""

    def wait(condition: Callable[[], object], within_s: float = 20.0) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, f"not true within {within_s} s"
            time.sleep(0.02)

    return wait
