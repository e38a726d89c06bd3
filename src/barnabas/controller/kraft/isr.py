"""AlterPartition: the leader of a partition reports who is in sync.

The leader knows who keeps up, the controller knows who is alive, and the partition epoch lets each
see that it speaks of the same partition as the other. A replica whose broker is fenced, stopping or
has registered anew since is not let in, so that a broker that is fenced next cannot be in sync
without the controller having taken it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.controller.kraft.decision import Decision
from barnabas.controller.kraft.fencing import change
from barnabas.controller.kraft.partition_change import LEADER_UNCHANGED, RECOVERED, RECOVERING
from barnabas.metadata.delta import merge_partition
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    BrokerState,
)

if TYPE_CHECKING:
    from barnabas.controller.kraft.decision import View
    from barnabas.metadata.image import PartitionRegistration, TopicImage
    from barnabas.wire.message import Message

_ANY_EPOCH = -1


def alter_partition(view: View, request: AlterPartitionRequest) -> Decision[AlterPartitionResponse]:
    view.registered(request.broker_id, request.broker_epoch)
    records: list[Message] = []
    response = AlterPartitionResponse()
    seen: set[tuple[bytes, int]] = set()
    for asked in request.topics:
        told = AlterPartitionResponseTopicData(topic_id=asked.topic_id)
        response.topics.append(told)
        topic = view.image.topics_by_id.get(asked.topic_id)
        for data in asked.partitions:
            key = (asked.topic_id, data.partition_index)
            if topic is None:
                answer = _refused(data, ErrorCode.UNKNOWN_TOPIC_ID)
            elif key in seen:
                answer = _refused(data, ErrorCode.INVALID_REQUEST)
            else:
                seen.add(key)
                answer = _alter(view, request.broker_id, topic, data, records)
            told.partitions.append(answer)
    return Decision(records, response)


def _refused(
    data: AlterPartitionRequestPartitionData, code: ErrorCode
) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(
        partition_index=data.partition_index, error_code=code
    )


def _alter(
    view: View,
    broker_id: int,
    topic: TopicImage,
    data: AlterPartitionRequestPartitionData,
    records: list[Message],
) -> AlterPartitionResponsePartitionData:
    partition = topic.partitions.get(data.partition_index)
    if partition is None:
        return _refused(data, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    isr = _isr_of(data)
    problem = _problem(view, broker_id, partition, data, isr)
    if problem is not None:
        return _refused(data, problem)
    made = change(view, topic, data.partition_index, partition)
    made.isr = [each.broker_id for each in isr]
    made.recovery_state = data.leader_recovery_state
    record = made.build()
    if record is not None:
        records.append(record)
        partition = merge_partition(partition, record)
        # Completing a reassignment may take the partition away from the leader that reported.
        if record.leader not in (LEADER_UNCHANGED, broker_id):
            return _refused(data, ErrorCode.NEW_LEADER_ELECTED)
    return AlterPartitionResponsePartitionData(
        partition_index=data.partition_index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _isr_of(data: AlterPartitionRequestPartitionData) -> list[BrokerState]:
    """Version 3 tells the epochs of the brokers, version 2 only who they are."""
    if data.new_isr_with_epochs:
        return data.new_isr_with_epochs
    return [BrokerState(broker_id=each, broker_epoch=_ANY_EPOCH) for each in data.new_isr]


def _problem(
    view: View,
    broker_id: int,
    partition: PartitionRegistration,
    data: AlterPartitionRequestPartitionData,
    isr: list[BrokerState],
) -> ErrorCode | None:
    # A leader that knows more than we do has heard of it from a newer controller.
    if data.leader_epoch > partition.leader_epoch:
        return ErrorCode.NOT_CONTROLLER
    if data.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if data.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if data.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    ids = [each.broker_id for each in isr]
    if len(set(ids)) != len(ids) or not set(ids) <= set(partition.replicas):
        return ErrorCode.INVALID_REQUEST
    if partition.leader not in ids:
        return ErrorCode.INVALID_REQUEST
    if data.leader_recovery_state not in (RECOVERED, RECOVERING):
        return ErrorCode.INVALID_REQUEST
    if data.leader_recovery_state == RECOVERING and (
        len(ids) > 1 or partition.leader_recovery_state == RECOVERED
    ):
        return ErrorCode.INVALID_REQUEST
    if any(not _is_eligible(view, each) for each in isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return None


def _is_eligible(view: View, state: BrokerState) -> bool:
    broker = view.image.brokers.get(state.broker_id)
    if broker is None or not broker.active:
        return False
    return state.broker_epoch in (_ANY_EPOCH, broker.epoch)
