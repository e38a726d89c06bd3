"""Moving partitions to other brokers.

A reassignment adds the new replicas to the old ones and waits until the new ones are in sync; then
the old ones go, in the same change that reports the last one in sync (`partition_change.py`). Until
then it can be changed to another target or cancelled, and a second request starts from what was
there before the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.controller.kraft.decision import Decision
from barnabas.controller.kraft.fencing import change
from barnabas.controller.kraft.partition_change import Election
from barnabas.controller.kraft.placement import check_manual_assignment, default_directory
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from barnabas.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from barnabas.controller.kraft.decision import View
    from barnabas.metadata.image import MetadataImage, PartitionRegistration, TopicImage
    from barnabas.wire.message import Message


def alter_partition_reassignments(
    view: View, request: AlterPartitionReassignmentsRequest
) -> Decision[AlterPartitionReassignmentsResponse]:
    records: list[Message] = []
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    seen: set[tuple[str, int]] = set()
    for asked in request.topics:
        told = ReassignableTopicResponse(name=asked.name)
        response.responses.append(told)
        for each in asked.partitions:
            result = ReassignablePartitionResponse(
                partition_index=each.partition_index, error_message=None
            )
            told.partitions.append(result)
            key = (asked.name, each.partition_index)
            try:
                if key in seen:
                    raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate partition.")
                seen.add(key)
                record = _reassign(view, asked.name, each, request.allow_replication_factor_change)
            except ApiError as error:
                result.error_code = error.code
                if error.code is not ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
                    result.error_message = error.message
            else:
                if record is not None:
                    records.append(record)
    return Decision(records, response)


def _reassign(
    view: View, name: str, asked: ReassignablePartition, allow_factor_change: bool
) -> Message | None:
    topic = view.image.topics.get(name)
    if topic is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}."
        )
    index = asked.partition_index
    partition = topic.partitions.get(index)
    if partition is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}."
        )
    if asked.replicas is None:
        return _cancel(view, topic, index, partition)
    return _move(view, topic, index, partition, asked.replicas, allow_factor_change)


def _is_moving(partition: PartitionRegistration) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


def _cancel(
    view: View, topic: TopicImage, index: int, partition: PartitionRegistration
) -> Message | None:
    if not _is_moving(partition):
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    adding = partition.adding_replicas
    made = change(view, topic, index, partition)
    made.replicas = [each for each in partition.replicas if each not in adding]
    made.isr = [each for each in partition.isr if each not in adding]
    made.adding, made.removing = [], []
    if not made.isr and not partition.elr:
        if not view.unclean_election_enabled(topic.name):
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic.name}:{index} because it would "
                "require an unclean leader election.",
            )
        made.election = Election.UNCLEAN
    return made.build()


def _move(
    view: View,
    topic: TopicImage,
    index: int,
    partition: PartitionRegistration,
    target: list[int],
    allow_factor_change: bool,
) -> Message | None:
    check_manual_assignment(view.image, target, None)
    original = [each for each in partition.replicas if each not in partition.adding_replicas]
    if not allow_factor_change and len(target) != len(original):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(original)} to {len(target)}",
        )
    made = change(view, topic, index, partition)
    removing = [each for each in partition.replicas if each not in target]
    made.replicas = [*target, *removing]
    made.adding = sorted(each for each in target if each not in original)
    made.removing = sorted(removing)
    made.directories = {
        each: default_directory(view.image, each)
        for each in target
        if each not in partition.replicas
    }
    return made.build()


def list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Those under way among the partitions asked for, or with null all."""
    response = ListPartitionReassignmentsResponse(error_message=None)
    if request.topics is None:
        wanted = [(topic.name, list(topic.partitions)) for topic in image.topics.values()]
    else:
        wanted = [(each.name, each.partition_indexes) for each in request.topics]
    for name, indices in wanted:
        found = OngoingTopicReassignment(name=name)
        for index in indices:
            partition = image.partition(name, index)
            if partition is not None and _is_moving(partition):
                found.partitions.append(
                    OngoingPartitionReassignment(
                        partition_index=index,
                        replicas=list(partition.replicas),
                        adding_replicas=list(partition.adding_replicas),
                        removing_replicas=list(partition.removing_replicas),
                    )
                )
        if found.partitions:
            response.topics.append(found)
    return response
