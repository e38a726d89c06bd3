"""The README's tour runs as printed, against a broker that was started as the README says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import environment
from tests.cli.served import serve

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def shell_blocks(text: str) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_the_first_two_commands() -> None:
    first = shell_blocks(README)[0]
    assert [line.split("#")[0].split() for line in first.splitlines()] == [
        ["make", "run"],
        ["make", "test"],
    ]


def test_the_tour_runs_as_printed(tmp_path: Path) -> None:
    tour = README.split("<!-- tour: start -->")[1].split("<!-- tour: end -->")[0]
    script = "\n".join(shell_blocks(tour))
    assert script.count("barnabas ") > 20
    with serve(tmp_path) as served:
        variables = environment(served.bootstrap)
        variables["PATH"] = f"{Path(sys.executable).parent}:{ROOT / 'bin'}:{variables['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script.replace("localhost:9092", served.bootstrap)],
            cwd=tmp_path,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    for words in ("created topic orders (3 partitions)", '{"drink": "water"}', "alice=tea"):
        assert words in done.stdout
    assert "Dry run: nothing was changed." in done.stdout
    assert "Created topic parcels." in done.stdout
    assert "parcels:0:" in done.stdout
    assert done.stdout.endswith(
        "deleted topic orders\ndeleted topic parcels\ndeleted topic bench\n"
    )


@pytest.mark.parametrize("name", ["plain", "asyncio", "columns"])
def test_the_clients_work_as_printed(tmp_path: Path, name: str) -> None:
    found = re.search(rf"<!-- clients: {name} -->\n```python\n(.*?)^```", README, re.DOTALL | re.M)
    assert found is not None
    with serve(tmp_path) as served:
        done = subprocess.run(
            [sys.executable, "-c", found[1].replace("localhost:9092", served.bootstrap)],
            env=environment(served.bootstrap),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    words = {"plain": "b'alice' {'drink': 'tea'}", "asyncio": "from the castle", "columns": 'b"b"'}
    assert words[name] in done.stdout


def test_links_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
