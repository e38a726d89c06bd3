"""The table of API keys and what the classes say must be the same."""

from __future__ import annotations

import pytest

from barnabas.wire.api_keys import (
    NEVER,
    ApiKey,
    request_class,
    request_header_version,
    response_class,
    response_header_version,
)
from tests.wire.catalogue import CLASSES, versions_of


def test_keys_have_no_gaps() -> None:
    assert sorted(ApiKey) == list(range(93))


@pytest.mark.parametrize("key", ApiKey, ids=lambda key: key.name)
def test_a_key_and_its_classes_agree(key: ApiKey) -> None:
    request, response = request_class(key), response_class(key)
    assert request.API_KEY is key
    assert response.API_KEY is key
    assert request.VERSIONS == response.VERSIONS
    for cls in (request, response):
        for version in versions_of(cls):
            flexible = cls.FLEXIBLE is not None and cls.FLEXIBLE[0] <= version <= cls.FLEXIBLE[1]
            assert flexible == (version >= key.flexible_since)


def test_header_versions() -> None:
    assert request_header_version(ApiKey.PRODUCE, 8) == 1
    assert request_header_version(ApiKey.PRODUCE, 9) == 2
    assert response_header_version(ApiKey.PRODUCE, 8) == 0
    assert response_header_version(ApiKey.PRODUCE, 9) == 1
    assert request_header_version(ApiKey.API_VERSIONS, 3) == 2
    assert response_header_version(ApiKey.API_VERSIONS, 3) == 0
    assert request_header_version(ApiKey.SASL_HANDSHAKE, 1) == 1
    assert ApiKey.OFFSET_DELETE.flexible_since == NEVER


def test_keys_can_be_plain_numbers() -> None:
    assert request_class(0) is request_class(ApiKey.PRODUCE)
    assert request_header_version(1, 12) == 2
    with pytest.raises(ValueError, match="93"):
        request_class(93)


def test_every_request_and_response_has_a_key() -> None:
    keyed = {each for key in ApiKey for each in (request_class(key), response_class(key))}
    assert {cls for cls in CLASSES if hasattr(cls, "API_KEY")} == keyed
