"""Every API answers every question in every version, and the versions agree.

`tests/peers/test_answers.py` asks Apache Kafka the same questions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from barnabas.api.registry import load_handlers
from barnabas.testing import Cluster
from barnabas.wire.api_keys import ApiKey, request_class
from barnabas.wire.errors import ErrorCode
from tests.api.interview import (
    Answers,
    answered_versions,
    differences,
    error_codes,
    versions_of,
)
from tests.api.script import SETTINGS, ask_everything

# (API, question, field): where Kafka answers later versions differently.
CHANGED = (
    # Topics have ids instead of names.
    ("PRODUCE", "unknown topic|bad name|several", r".*error_(code|message)"),
    ("PRODUCE", "no records", r".*error_message"),
    ("FETCH", "unknown topic|bad name|unknown, committed", r".*error_code"),
    ("OFFSET_COMMIT", ".*unknown.*", r".*error_code"),
    ("OFFSET_FETCH", ".*", r"groups\[\d].topics.*"),
    ("OFFSET_COMMIT", "new group with member", r".*error_code"),
    # Words for offsets that come with a version.
    ("LIST_OFFSETS", "largest timestamp.*|earliest local|latest tiered|earliest to upload", ".*"),
    # Checks of what the request could not say before.
    ("FETCH", "epoch 9|.*session.*", ".*"),
    ("LIST_OFFSETS", "epoch 9", ".*"),
    ("API_VERSIONS", "bad name|no version", ".*"),
    # Features whose lowest level is 0 were misread by the clients of version 3.
    ("API_VERSIONS", "all", "supported_features"),
    ("JOIN_GROUP", ".*", "protocol_name"),
    # A leader that comes back is told to go on with the assignment it had (KIP-814).
    ("JOIN_GROUP", "static again", "leader|members"),
    # Members have errors of their own.
    ("LEAVE_GROUP", ".*", "error_code"),
    ("DESCRIBE_GROUPS", "unknown|no name|several|operations", ".*"),
    ("LIST_CONFIG_RESOURCES", ".*", ".*"),
)
MEMBERS = re.compile(r"(?<=MEMBER )\d+")


@pytest.fixture(scope="module")
def answers() -> Iterator[Answers]:
    with Cluster(overrides=SETTINGS) as cluster:
        yield ask_everything(cluster.bootstrap_servers)


def test_every_version_of_every_api_was_asked(answers: Answers) -> None:
    served = load_handlers()
    asked = answered_versions(answers)
    assert asked.keys() == served.keys()
    for key in served:
        assert asked[key] == set(versions_of(request_class(key))), key.name


def test_no_answer_is_an_unknown_error(answers: Answers) -> None:
    failed = [
        key
        for key, answer in answers.items()
        if ErrorCode.UNKNOWN_SERVER_ERROR in error_codes(answer)
    ]
    assert not failed


def test_versions_agree(answers: Answers) -> None:
    disagree = []
    for (api, question, version), answer in answers.items():
        before = answers.get((api, question, version - 1))
        if before is None:
            continue
        for path, earlier, later in differences(before, answer):
            if MEMBERS.sub("", str(earlier)) == MEMBERS.sub("", str(later)):
                continue
            if not any(
                row[0] == api and re.fullmatch(row[1], question) and re.fullmatch(row[2], path)
                for row in CHANGED
            ):
                disagree.append(
                    f"{ApiKey[api].name} {version}, {question}: {path}: {earlier!r}, now {later!r}"
                )
    assert not disagree, "\n".join(disagree)
