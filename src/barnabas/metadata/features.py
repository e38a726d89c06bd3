"""Features: what the whole cluster has agreed to use, and what this node can do.

A feature has a level. A node supports a range of levels; the cluster finalizes one of them, and
from then on nobody may join that does not support it. `metadata.version` is the one that everything
hangs on: it says which versions of which records may stand in the metadata log.

The levels are Apache Kafka's. Features whose behaviour is not here (the consumer group protocol,
the transaction protocol, share groups, streams) are not in the table: they are neither offered nor
finalized by us, and a log that has them finalized by another node keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"

_NAMES: Final = (
    "3.3-IV3",
    "3.4-IV0",
    "3.5-IV0",
    "3.5-IV1",
    "3.5-IV2",
    "3.6-IV0",
    "3.6-IV1",
    "3.6-IV2",
    "3.7-IV0",
    "3.7-IV1",
    "3.7-IV2",
    "3.7-IV3",
    "3.7-IV4",
    "3.8-IV0",
    "3.9-IV0",
    "4.0-IV0",
    "4.0-IV1",
    "4.0-IV2",
    "4.0-IV3",
    "4.1-IV0",
    "4.1-IV1",
    "4.2-IV0",
    "4.2-IV1",
    "4.3-IV0",
)
_FIRST_LEVEL: Final = 7


class MetadataVersion(NamedTuple):
    level: int
    name: str

    @property
    def release(self) -> str:
        return self.name.partition("-")[0]


METADATA_VERSIONS: Final[Mapping[int, MetadataVersion]] = {
    level: MetadataVersion(level, name) for level, name in enumerate(_NAMES, _FIRST_LEVEL)
}
LOWEST_METADATA_VERSION: Final = _FIRST_LEVEL
LATEST_METADATA_VERSION: Final = max(METADATA_VERSIONS)

DIRECTORY_ASSIGNMENT_LEVEL: Final = 17
"""3.7-IV2: replicas are assigned to directories."""
CONTROLLER_REGISTRATION_LEVEL: Final = 15
"""3.7-IV0: controllers register."""
METADATA_TRANSACTION_LEVEL: Final = 14
"""3.6-IV2: records between a begin and an end count together or not at all."""
ELR_LEVEL: Final = 23
"""4.0-IV1: partitions may have eligible leader replicas."""
CORDONED_DIRECTORIES_LEVEL: Final = 30
"""4.3-IV0: directories may be closed for new replicas."""

SUPPORTED_FEATURES: Final[Mapping[str, tuple[int, int]]] = {
    METADATA_VERSION: (LOWEST_METADATA_VERSION, LATEST_METADATA_VERSION),
    KRAFT_VERSION: (0, 1),
    ELR_VERSION: (0, 1),
}
"""What this node can do, as it tells in its registration and in ApiVersions."""

DEFAULT_LEVELS: Final[Mapping[str, int]] = {
    METADATA_VERSION: LATEST_METADATA_VERSION,
    ELR_VERSION: 1,
}
"""What a new cluster of ours starts with."""


def metadata_version(text: str) -> MetadataVersion:
    """By level, name or release: `30`, `4.3-IV0` and `4.3` (its last). ValueError if unknown."""
    if text.isdecimal() and int(text) in METADATA_VERSIONS:
        return METADATA_VERSIONS[int(text)]
    release = ".".join(text.split(".")[:2])
    found = None
    for version in METADATA_VERSIONS.values():
        if text == version.name or release == version.release:
            found = version
            if text == version.name:
                break
    if found is None or (found.name != text and "-" in text):
        lowest, latest = METADATA_VERSIONS[LOWEST_METADATA_VERSION], _NAMES[-1]
        raise ValueError(
            f"Unknown metadata.version '{text}'. Supported metadata.version are: "
            f"{lowest.name} to {latest}"
        )
    return found


def level_name(feature: str, level: int) -> str:
    """How tools show a level."""
    if feature == METADATA_VERSION and level in METADATA_VERSIONS:
        return METADATA_VERSIONS[level].name
    return str(level)
