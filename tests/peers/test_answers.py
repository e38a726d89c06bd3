"""Barnabas and Apache Kafka are asked the same questions, in every version; the answers are equal.

The questions are those of `tests/api`. What differs, differs on purpose: `DIFFERENCES` says where
and why, and an entry that no answer needs any more fails the test too.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.api.interview import Answers, differences
from tests.api.script import SETTINGS, ask_everything
from tests.peers import apache, systems

# Apache keeps these in hash maps, so their order means nothing.
IN_ANY_ORDER = {
    "ALTER_CONFIGS",
    "CREATE_PARTITIONS",
    "CREATE_TOPICS",
    "DELETE_RECORDS",
    "DELETE_TOPICS",
    "FETCH",
    "INCREMENTAL_ALTER_CONFIGS",
    "METADATA",
    "OFFSET_COMMIT",
    "OFFSET_DELETE",
    "PRODUCE",
}
NAMES = ("name", "topic", "topic_id", "partition_index", "index", "resource_name")

DIFFERENCES = (
    # (API, question, field, why)
    ("API_VERSIONS", ".*", "api_keys", "only what is served is listed"),
    ("API_VERSIONS", "all", "(finalized|supported)_features", "and only features that are there"),
    ("DESCRIBE_QUORUM", "metadata", ".*directory_id", "voters are always known with directories"),
    ("DESCRIBE_QUORUM", "metadata", r"nodes\[0].listeners\[0].host", "both are this machine"),
    ("DESCRIBE_CONFIGS", "unknown type", ".*error_message", "the words of an error are our own"),
    ("FIND_COORDINATOR", "unknown type", ".*error_message", "the words of an error are our own"),
    ("FIND_COORDINATOR", "share", ".*error_message", "says that there are no share groups yet"),
    (
        "INCREMENTAL_ALTER_CONFIGS",
        "of one broker for all",
        ".*error_message",
        "no listener has keys of its own yet, so none is named",
    ),
    (
        "INCREMENTAL_ALTER_CONFIGS",
        "unknown operation",
        ".*",
        "an invalid request, where Apache fails with UNKNOWN_SERVER_ERROR",
    ),
)


def sorted_by_name(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {name: sorted_by_name(value) for name, value in answer.items()}
    if isinstance(answer, list):
        return sorted(map(sorted_by_name, answer), key=_name)
    return answer


def _name(value: Any) -> tuple[str, ...]:
    if isinstance(value, dict):
        return tuple(str(value.get(name)) for name in NAMES)
    return (str(value),)


def says_more(path: str, theirs: Any, ours: Any) -> bool:
    """Where Apache gives an error without words, we say what it means."""
    return path.endswith("error_message") and not theirs and bool(ours)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Answers, Answers]:
    if (reason := apache.missing()) is not None:
        pytest.skip(reason)
    found = []
    for start in (apache.start_broker, systems.start_barnabas):
        node: Any = start(tmp_path_factory.mktemp("asked"), SETTINGS)
        try:
            found.append(ask_everything(node.bootstrap))
        finally:
            node.stop()
    return found[0], found[1]


def test_both_give_the_same_answers(answers: tuple[Answers, Answers]) -> None:
    theirs, ours = answers
    assert theirs.keys() == ours.keys()
    unused = set(DIFFERENCES)
    unexpected: dict[str, list[int]] = {}
    for key in theirs:
        api, question, version = key
        one, other = theirs[key], ours[key]
        if api in IN_ANY_ORDER:
            one, other = sorted_by_name(one), sorted_by_name(other)
        for path, their, our in differences(one, other):
            reasons = [
                row
                for row in DIFFERENCES
                if row[0] == api and re.fullmatch(row[1], question) and re.fullmatch(row[2], path)
            ]
            unused -= set(reasons)
            if not reasons and not says_more(path, their, our):
                line = f"{api}, {question}: {path}: Apache has {their!r}, we have {our!r}"
                unexpected.setdefault(line, []).append(version)
    told = [f"{line} (versions {versions})" for line, versions in unexpected.items()]
    assert not told, "\n".join(told)
    assert not unused


def test_what_both_serve_is_listed_alike(answers: tuple[Answers, Answers]) -> None:
    for version in range(5):
        theirs, ours = (
            {each["api_key"]: each for each in some["API_VERSIONS", "all", version]["api_keys"]}
            for some in answers
        )
        assert ours.items() <= theirs.items()
