"""Recorded scripts: `BARNABAS_RECORD=1 pytest tests/raft/test_scripts.py` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.raft.script import run_file

SCRIPTS = sorted((Path(__file__).parent.parent / "scripts" / "raft").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    shown = run_file(path)
    if os.environ.get("BARNABAS_RECORD"):
        path.write_text(shown)
    assert shown == path.read_text()


def test_there_are_scripts() -> None:
    assert SCRIPTS
