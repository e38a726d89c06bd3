"""Which log directory a replica is in, and what follows when a directory fails.

Brokers report where they put replicas. When a broker reports a directory as offline, the partitions
whose replicas are in it are taken from that broker as if it had left, and it goes on with the rest;
a replica that is reported to be in a directory that is already offline is treated alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.controller.kraft.decision import Decision
from barnabas.controller.kraft.fencing import broker_left, change
from barnabas.controller.kraft.partition_change import has_online_directory
from barnabas.metadata.delta import merge_partition
from barnabas.metadata.features import DIRECTORY_ASSIGNMENT_LEVEL
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from barnabas.wire.records.metadata import BrokerRegistrationChangeRecord

if TYPE_CHECKING:
    from barnabas.controller.kraft.decision import View
    from barnabas.metadata.image import BrokerRegistration
    from barnabas.wire.message import Message


def assign_replicas_to_dirs(
    view: View, request: AssignReplicasToDirsRequest
) -> Decision[AssignReplicasToDirsResponse]:
    if view.level < DIRECTORY_ASSIGNMENT_LEVEL:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
    broker = view.registered(request.broker_id, request.broker_epoch)
    records: list[Message] = []
    response = AssignReplicasToDirsResponse()
    for directory in request.directories:
        told = AssignReplicasToDirsResponseDirectoryData(id=directory.id)
        response.directories.append(told)
        for topic in directory.topics:
            told.topics.append(
                AssignReplicasToDirsResponseTopicData(
                    topic_id=topic.topic_id,
                    partitions=[
                        AssignReplicasToDirsResponsePartitionData(
                            partition_index=each.partition_index,
                            error_code=_assign(
                                view,
                                broker,
                                directory.id,
                                topic.topic_id,
                                each.partition_index,
                                records,
                            ),
                        )
                        for each in topic.partitions
                    ],
                )
            )
    return Decision(records, response)


def _assign(
    view: View,
    broker: BrokerRegistration,
    directory: bytes,
    topic_id: bytes,
    index: int,
    records: list[Message],
) -> ErrorCode:
    topic = view.image.topics_by_id.get(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.broker_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    made = change(view, topic, index, partition)
    made.directories = {broker.broker_id: directory}
    record = made.build()
    if record is not None:
        records.append(record)
        partition = merge_partition(partition, record)
    if not has_online_directory(broker, directory):
        records += broker_left(view, broker.broker_id, [(topic, index, partition)])
    return ErrorCode.NONE


def directories_failed(
    view: View, broker: BrokerRegistration, offline: Iterable[bytes]
) -> list[Message]:
    """The records for directories that were online until now."""
    failed = set(offline) & set(broker.directories)
    if not failed or view.level < DIRECTORY_ASSIGNMENT_LEVEL:
        return []
    among = [
        located
        for located in view.replicas.of_broker(view.image, broker.broker_id)
        if located[2].directory(broker.broker_id) in failed
    ]
    return [
        *broker_left(view, broker.broker_id, among),
        BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id,
            broker_epoch=broker.epoch,
            log_dirs=[each for each in broker.directories if each not in failed],
        ),
    ]
