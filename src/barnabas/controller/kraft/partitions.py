"""More partitions for a topic."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas.controller.kraft.decision import MAX_RECORDS_PER_OPERATION, Decision, check_size
from barnabas.controller.kraft.placement import check_manual_assignment, place_replicas
from barnabas.controller.kraft.topics import check_some_active, new_partition
from barnabas.metadata.image import TopicImage
from barnabas.metadata.snapshot import partition_record
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from barnabas.controller.kraft.decision import View
    from barnabas.wire.message import Message


def create_partitions(
    view: View, request: CreatePartitionsRequest
) -> Decision[CreatePartitionsResponse]:
    counts = Counter(topic.name for topic in request.topics)
    records: list[Message] = []
    results: list[CreatePartitionsTopicResult] = []
    for topic in request.topics:
        result = CreatePartitionsTopicResult(name=topic.name)
        if topic.name not in view.image.topics and counts[topic.name] == 1:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            results.append(result)
            continue
        try:
            if counts[topic.name] > 1:
                if any(each.name == topic.name for each in results):
                    continue
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            records += _add(view, topic, MAX_RECORDS_PER_OPERATION - len(records))
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
        results.append(result)
    check_size(records)
    response = CreatePartitionsResponse(results=results)
    return Decision([] if request.validate_only else records, response)


def _add(view: View, asked: CreatePartitionsTopic, room: int) -> list[Message]:
    image = view.image
    topic = image.topics[asked.name]
    present = len(topic.partitions)
    if asked.count == present:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if asked.count < present:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {asked.name} currently has {present} partition(s); {asked.count} would not "
            "be an increase.",
        )
    if asked.count - present > room:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
        )
    placed = _placed(view, asked, topic, asked.count - present)
    level = image.features.metadata_version
    return [
        partition_record(topic.topic_id, index, new_partition(image, index, replicas), level)
        for index, replicas in enumerate(placed, present)
    ]


def _placed(
    view: View, asked: CreatePartitionsTopic, topic: TopicImage, additional: int
) -> list[list[int]]:
    factor = len(topic.partitions[0].replicas)
    present = len(topic.partitions)
    if asked.assignments is None:
        brokers = view.image.brokers.values()
        return place_replicas(brokers, present, additional, factor, view.randomness)
    if len(asked.assignments) != additional:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only "
            f"{len(asked.assignments)} assignment(s) were specified.",
        )
    placed = []
    for index, assignment in enumerate(asked.assignments, present):
        check_manual_assignment(view.image, assignment.broker_ids, factor)
        check_some_active(view.image, index, assignment.broker_ids)
        placed.append(list(assignment.broker_ids))
    return placed
