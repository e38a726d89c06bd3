"""Elections that were asked for, and those that the controller holds by itself.

A preferred election gives a partition back to its first replica; the controller does it now and
then on its own (`auto.leader.rebalance.enable`), so that leaders spread again after brokers went and
came. An unclean election gives a partition without a leader to any replica in service, by request,
or by itself where `unclean.leader.election.enable` allows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.controller.kraft.decision import Decision
from barnabas.controller.kraft.fencing import change
from barnabas.controller.kraft.partition_change import Election
from barnabas.metadata.image import NO_LEADER
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from barnabas.controller.kraft.decision import View
    from barnabas.metadata.image import PartitionRegistration, TopicImage
    from barnabas.wire.message import Message

MAX_ELECTIONS_AT_ONCE: Final = 1_000
_TYPES: Final = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def elect_leaders(view: View, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    """Of the partitions named, or with null of all that need it."""
    election = _TYPES.get(request.election_type)
    if election is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}.")
    records: list[Message] = []
    results: dict[str, list[PartitionResult]] = {}
    if request.topic_partitions is None:
        for topic in view.image.topics.values():
            for index in topic.partitions:
                result = _elect(view, topic.name, index, election, records)
                if result.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                    results.setdefault(topic.name, []).append(result)
    else:
        asked = {
            (each.topic, index): None
            for each in request.topic_partitions
            for index in each.partitions
        }
        for name, index in asked:
            results.setdefault(name, []).append(_elect(view, name, index, election, records))
    response = ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(topic=name, partition_result=found)
            for name, found in results.items()
        ]
    )
    return Decision(records, response)


def _elect(
    view: View, name: str, index: int, election: Election, records: list[Message]
) -> PartitionResult:
    def refused(code: ErrorCode, message: str | None = None) -> PartitionResult:
        return PartitionResult(
            partition_id=index, error_code=code, error_message=message or code.message
        )

    topic = view.image.topics.get(name)
    if topic is None:
        return refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partitions.get(index)
    if partition is None:
        return refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    if not _is_needed(partition, election):
        return refused(
            ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
        )
    record = change(view, topic, index, partition, election=election).build()
    if record is None:
        if election is Election.PREFERRED:
            return refused(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
        return refused(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    records.append(record)
    return PartitionResult(partition_id=index, error_code=ErrorCode.NONE, error_message=None)


def _is_needed(partition: PartitionRegistration, election: Election) -> bool:
    if election is Election.PREFERRED:
        return partition.leader != partition.replicas[0]
    return partition.leader == NO_LEADER


def balance_leaders(view: View) -> list[Message]:
    """Give partitions back to their preferred leaders; the rest when more than a bound need it."""
    records: list[Message] = []
    for topic in view.image.topics.values():
        for index, partition in topic.partitions.items():
            if partition.leader == partition.replicas[0]:
                continue
            if len(records) >= MAX_ELECTIONS_AT_ONCE:
                return records
            record = _preferred(view, topic, index, partition)
            if record is not None:
                records.append(record)
    return records


def _preferred(
    view: View, topic: TopicImage, index: int, partition: PartitionRegistration
) -> Message | None:
    broker = view.image.brokers.get(partition.replicas[0])
    if broker is None or not broker.active:
        return None
    return change(view, topic, index, partition, election=Election.PREFERRED).build()


def elect_unclean(view: View) -> list[Message]:
    """Leaders for partitions without one, of topics that would rather lose records than wait."""
    records: list[Message] = []
    for topic in view.image.topics.values():
        if not view.unclean_election_enabled(topic.name):
            continue
        for index, partition in topic.partitions.items():
            if partition.leader == NO_LEADER and len(records) < MAX_ELECTIONS_AT_ONCE:
                record = change(view, topic, index, partition).build()
                if record is not None:
                    records.append(record)
    return records
