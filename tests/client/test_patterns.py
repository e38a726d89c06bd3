"""Which topics a pattern means."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.client.core.metadata import TopicInfo
from barnabas.client.membership import Membership
from barnabas.client.settings import ConsumerSettings
from barnabas.wire.errors import ErrorCode


@pytest.mark.parametrize(
    ("name", "internal", "code", "excluding", "wanted"),
    [
        ("orders", False, ErrorCode.NONE, True, True),
        ("orders", False, ErrorCode.LEADER_NOT_AVAILABLE, True, True),
        ("orders", False, ErrorCode.TOPIC_AUTHORIZATION_FAILED, True, False),
        ("others", False, ErrorCode.NONE, True, False),
        ("__orders", True, ErrorCode.NONE, True, False),
        ("__orders", True, ErrorCode.NONE, False, True),
    ],
)
def test_what_a_pattern_matches(
    name: str, internal: bool, code: ErrorCode, excluding: bool, wanted: bool
) -> None:
    of: Any = SimpleNamespace(settings=ConsumerSettings(exclude_internal_topics=excluding))
    topic = TopicInfo(name, bytes(16), internal, {}, int(code))
    assert Membership._matches(of, re.compile("ord"), name, topic) is wanted
