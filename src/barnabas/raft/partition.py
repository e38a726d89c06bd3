"""The one partition that this quorum keeps, as requests name it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

METADATA_TOPIC = "__cluster_metadata"


def only_partition(topics: Sequence[Any], name: str = "topic_name") -> Any | None:
    """The request's data for partition 0 of the metadata topic, if it asks for that and no more."""
    if len(topics) != 1 or getattr(topics[0], name) != METADATA_TOPIC:
        return None
    partitions = topics[0].partitions
    if len(partitions) != 1:
        return None
    data = partitions[0]
    index = getattr(data, "partition_index", None)
    if index is None:
        index = getattr(data, "partition", None)
    if index is None:
        index = data.index
    return data if index == 0 else None
