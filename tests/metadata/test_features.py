from __future__ import annotations

import pytest

from barnabas.metadata.features import (
    LATEST_METADATA_VERSION,
    METADATA_VERSIONS,
    level_name,
    metadata_version,
)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("4.3", 30),
        ("4.3-IV0", 30),
        ("30", 30),
        ("4.3.1", 30),
        ("4.0", 25),
        ("4.0-IV1", 23),
        ("3.3-IV3", 7),
        ("3.9.0", 21),
    ],
)
def test_by_release_name_or_level(text: str, level: int) -> None:
    assert metadata_version(text).level == level


@pytest.mark.parametrize("text", ["", "2.8", "4.3-IV9", "99", "nonsense"])
def test_unknown_versions(text: str) -> None:
    with pytest.raises(ValueError, match=r"Unknown metadata\.version"):
        metadata_version(text)


def test_names() -> None:
    assert LATEST_METADATA_VERSION == 30
    assert METADATA_VERSIONS[30].name == "4.3-IV0"
    assert level_name("metadata.version", 17) == "3.7-IV2"
    assert level_name("kraft.version", 1) == "1"
