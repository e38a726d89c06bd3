"""Fixtures for pytest, found by it as soon as Barnabas is installed.

* `barnabas_cluster`: a running `barnabas.testing.Cluster`, one for the whole test session;
* `barnabas_bootstrap`: its address, for `bootstrap.servers`;
* `barnabas_topic`: the name of a topic with one partition that no other test uses;
* `barnabas_factory`: a function that starts further clusters, with settings of their own, for one test.

Nothing is imported before a test asks for one of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from barnabas.testing.cluster import Cluster

_numbers = itertools.count()


@pytest.fixture(scope="session")
def barnabas_cluster() -> Iterator[Cluster]:
    from barnabas.testing.cluster import Cluster

    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def barnabas_bootstrap(barnabas_cluster: Cluster) -> str:
    return barnabas_cluster.bootstrap_servers


@pytest.fixture
def barnabas_topic(barnabas_cluster: Cluster) -> str:
    return barnabas_cluster.create_topic(f"test-{next(_numbers)}")


@pytest.fixture
def barnabas_factory() -> Iterator[Callable[..., Cluster]]:
    from barnabas.testing.cluster import Cluster

    started: list[Cluster] = []

    def start(**options: Any) -> Cluster:
        cluster = Cluster(**options).start()
        started.append(cluster)
        return cluster

    yield start
    for cluster in reversed(started):
        cluster.close()
