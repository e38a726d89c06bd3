"""Fixtures: each broker in turn, started once for this package, and both faces of the clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.peers.python import faces, targets
from tests.peers.python.targets import Target


@pytest.fixture(scope="package", params=targets.NAMES)
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    name = str(request.param)
    yield from targets.start(name, tmp_path_factory.mktemp(f"broker-{name}"))


@pytest.fixture(params=faces.KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(target: Target, kind: str) -> Iterator[Callable[..., Any]]:
    """`make("Producer", linger_ms=0)`: a client of this kind for this broker, closed at the end."""
    with ExitStack() as stack:
        yield lambda name, **options: stack.enter_context(
            faces.make(kind, name, bootstrap_servers=target.bootstrap, **options)
        )


@pytest.fixture
def admin(make: Callable[..., Any]) -> Any:
    return make("Admin")
