"""A member of a group, step by step: the scripts in tests/scripts/members.

`BARNABAS_RECORD=1 pytest tests/client/test_member_scripts.py` writes down anew what happens.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.client.core.membership import STEPS, State
from tests.client.member_script import run_file

SCRIPTS = sorted((Path(__file__).parent.parent / "scripts" / "members").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    shown = run_file(path)
    if os.environ.get("BARNABAS_RECORD"):
        path.write_text(shown)
    assert shown == path.read_text()


def test_there_are_scripts() -> None:
    assert SCRIPTS


def test_every_state_can_be_reached_and_ends_with_left() -> None:
    assert set(STEPS) == set(State)
    reached = {State.UNJOINED}
    while more := {after for state in reached for after in STEPS[state]} - reached:
        reached |= more
    assert reached == set(State)
    assert not STEPS[State.LEFT]
    for state in set(State) - {State.LEFT, State.LEAVING}:
        assert State.LEAVING in STEPS[state], "closing is possible in every state"
