"""The table of legal steps, step by step."""

from __future__ import annotations

import itertools

import pytest

from barnabas.raft.states import IllegalTransition, State, check_transition

U, F, P, C, L, R = State
SAME_EPOCH = {
    (U, U), (U, F), (U, P),
    (F, F), (F, P),
    (P, U), (P, F),
    (C, F), (C, P), (C, L),
    (L, R),
}  # fmt: skip
HIGHER_EPOCH = {(before, after) for before in State for after in (U, F)} | {(P, C)}


@pytest.mark.parametrize(
    ("before", "after"),
    list(itertools.product(State, State)),
    ids=lambda state: state.value,
)
def test_every_pair(before: State, after: State) -> None:
    for epoch, legal in ((5, SAME_EPOCH), (6, HIGHER_EPOCH)):
        if (before, after) in legal:
            check_transition(before, 5, after, epoch)
        else:
            with pytest.raises(IllegalTransition):
                check_transition(before, 5, after, epoch)


@pytest.mark.parametrize("after", list(State), ids=lambda state: state.value)
def test_epochs_never_go_back(after: State) -> None:
    with pytest.raises(IllegalTransition, match="back"):
        check_transition(U, 5, after, 4)


def test_nobody_leads_without_having_been_a_candidate() -> None:
    assert [before for before in State if (before, L) in SAME_EPOCH] == [C]
