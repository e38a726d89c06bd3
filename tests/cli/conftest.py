"""A broker for the commands: this package's own, or BARNABAS_TEST_BOOTSTRAP if that is set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SOURCE = Path(__file__).parents[2] / "src"


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    given = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    from barnabas.testing import Cluster

    with Cluster() as cluster:
        yield cluster.bootstrap_servers


def environment(bootstrap: str | None) -> dict[str, str]:
    found = {**os.environ, "PYTHONPATH": str(SOURCE)}
    found.pop("BARNABAS_BOOTSTRAP_SERVERS", None)
    if bootstrap is not None:
        found["BARNABAS_BOOTSTRAP_SERVERS"] = bootstrap
    return found


@pytest.fixture
def run(
    bootstrap: str, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    """Run one `barnabas` command line in this process."""
    from barnabas.cli.main import run as run_command

    monkeypatch.setenv("BARNABAS_BOOTSTRAP_SERVERS", bootstrap)

    def call(*args: str, stdin: str = "") -> Ran:
        with subprocess_stdin(stdin) as source, monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", source)
            capfdbinary.readouterr()
            code = run_command(list(args))
            sys.stdout.flush()
            sys.stderr.flush()
            out, err = capfdbinary.readouterr()
        return Ran(code, out.decode(), err.decode())

    return call


def subprocess_stdin(text: str) -> Any:
    import io

    return io.TextIOWrapper(io.BytesIO(text.encode()))


@pytest.fixture
def run_script(bootstrap: str) -> Callable[..., Ran]:
    """Run one of Apache's scripts from bin/ in a process of its own."""

    def call(name: str, *args: str, stdin: str = "") -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", f"barnabas.cli.apache.{name}", *args],
            input=stdin,
            capture_output=True,
            text=True,
            env=environment(None),
            timeout=60,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def topic(run: Callable[..., Ran], request: pytest.FixtureRequest) -> Iterator[str]:
    """A topic of two partitions that goes away after the test."""
    name = "cli." + "".join(c if c.isalnum() else "-" for c in request.node.name)
    assert run("topic", "create", name, "-p", "2").code == 0
    yield name
    run("topic", "delete", name)
