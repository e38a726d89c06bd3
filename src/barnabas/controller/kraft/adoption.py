"""Topics for logs that were found on the disk and that the metadata does not know.

An adopted topic keeps the id that its directories name. Its leader epoch goes on after the last one in
its logs, so that what is appended next comes after what was there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.controller.kraft.decision import MAX_RECORDS_PER_OPERATION, Decision, View
from barnabas.metadata.features import DIRECTORY_ASSIGNMENT_LEVEL
from barnabas.wire import uuids
from barnabas.wire.records.metadata import PartitionRecord, TopicRecord

if TYPE_CHECKING:
    from barnabas.wire.message import Message


def adopt_topic(
    view: View, name: str, topic_id: bytes, latest_epochs: Mapping[int, int]
) -> Decision[bool]:
    """`latest_epochs` has a partition for each log that was found; gaps become empty partitions."""
    if name in view.image.topics or topic_id in view.image.topics_by_id:
        return Decision([], False)
    if max(latest_epochs) >= MAX_RECORDS_PER_OPERATION:
        return Decision([], False)
    node_id = view.node_id
    with_directories = view.image.features.metadata_version >= DIRECTORY_ASSIGNMENT_LEVEL
    records: list[Message] = [TopicRecord(name=name, topic_id=topic_id)]
    for index in range(max(latest_epochs) + 1):
        records.append(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=[node_id],
                isr=[node_id],
                leader=node_id,
                leader_epoch=latest_epochs.get(index, -1) + 1,
                partition_epoch=0,
                directories=[uuids.UNASSIGNED_DIRECTORY] if with_directories else [],
            )
        )
    return Decision(records, True)
