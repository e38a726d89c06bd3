"""An image as records, and the versions in which records may be written.

`metadata.version` decides both: a record has the highest version that the level allows, and what a
level does not know (eligible leader replicas, directories, controllers) is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from barnabas.metadata.features import (
    CONTROLLER_REGISTRATION_LEVEL,
    CORDONED_DIRECTORIES_LEVEL,
    DIRECTORY_ASSIGNMENT_LEVEL,
    ELR_LEVEL,
    METADATA_VERSION,
)
from barnabas.wire.records.metadata import (
    AccessControlEntryRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    DelegationTokenRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)

if TYPE_CHECKING:
    from barnabas.metadata.image import (
        BrokerRegistration,
        ControllerRegistration,
        MetadataImage,
        PartitionRegistration,
    )
    from barnabas.wire.message import Message

_ZK_BROKER_LEVEL = 8


def record_version(record: Message, level: int) -> int:
    """The version in which a record is written at a level of `metadata.version`."""
    if isinstance(record, PartitionRecord | PartitionChangeRecord):
        if level >= ELR_LEVEL:
            return 2
        return 1 if level >= DIRECTORY_ASSIGNMENT_LEVEL else 0
    if isinstance(record, RegisterBrokerRecord):
        if level >= CORDONED_DIRECTORIES_LEVEL:
            return 4
        if level >= DIRECTORY_ASSIGNMENT_LEVEL:
            return 3
        return 2 if level >= _ZK_BROKER_LEVEL else 1
    if isinstance(record, BrokerRegistrationChangeRecord):
        if record.cordoned_log_dirs is not None:
            return 3
        if record.log_dirs:
            return 2
        return 1 if record.in_controlled_shutdown else 0
    return record.VERSIONS[1]


def image_records(image: MetadataImage) -> Iterator[Message]:
    level = image.features.metadata_version
    yield from _features(image)
    for controller in image.controllers.values():
        if level >= CONTROLLER_REGISTRATION_LEVEL:
            yield _controller(controller)
    for broker in image.brokers.values():
        yield broker_record(broker, level)
    for topic in image.topics.values():
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for index, partition in topic.partitions.items():
            yield partition_record(topic.topic_id, index, partition, level)
    for (resource_type, resource_name), values in image.configs.items():
        for name, value in values.items():
            yield ConfigRecord(
                resource_type=resource_type, resource_name=resource_name, name=name, value=value
            )
    yield from _quotas(image)
    yield from _producer_ids(image)
    yield from _security(image)


def _features(image: MetadataImage) -> Iterator[Message]:
    levels = image.features.finalized_levels
    if METADATA_VERSION in levels:
        yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=levels[METADATA_VERSION])
    for name, level in levels.items():
        if name != METADATA_VERSION:
            yield FeatureLevelRecord(name=name, feature_level=level)
    if image.features.zk_migration_state:
        yield ZkMigrationStateRecord(zk_migration_state=image.features.zk_migration_state)


def _controller(controller: ControllerRegistration) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[
            ControllerEndpoint(
                name=each.name,
                host=each.host,
                port=each.port,
                security_protocol=each.security_protocol,
            )
            for each in controller.listeners
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in controller.features.items()
        ],
    )


def broker_record(broker: BrokerRegistration, level: int) -> RegisterBrokerRecord:
    """A registration as the record that makes it."""
    cordoned = broker.cordoned_directories
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(
                name=each.name,
                host=each.host,
                port=each.port,
                security_protocol=each.security_protocol,
            )
            for each in broker.listeners
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories) if level >= DIRECTORY_ASSIGNMENT_LEVEL else [],
        cordoned_log_dirs=(
            None if cordoned is None or level < CORDONED_DIRECTORIES_LEVEL else list(cordoned)
        ),
    )


def partition_record(
    topic_id: bytes, index: int, partition: PartitionRegistration, level: int
) -> PartitionRecord:
    """A partition as the record that makes it."""
    elr = level >= ELR_LEVEL
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories) if level >= DIRECTORY_ASSIGNMENT_LEVEL else [],
        eligible_leader_replicas=list(partition.elr) if elr and partition.elr else None,
        last_known_elr=list(partition.last_known_elr) if elr and partition.last_known_elr else None,
    )


def _quotas(image: MetadataImage) -> Iterator[Message]:
    for entity, quotas in image.client_quotas.items():
        for key, value in quotas.items():
            yield ClientQuotaRecord(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                key=key,
                value=value,
            )


def _producer_ids(image: MetadataImage) -> Iterator[Message]:
    ids = image.producer_ids
    if ids.next_producer_id > 0:
        yield ProducerIdsRecord(
            broker_id=ids.broker_id,
            broker_epoch=ids.broker_epoch,
            next_producer_id=ids.next_producer_id,
        )


def _security(image: MetadataImage) -> Iterator[Message]:
    for acl_id, acl in image.acls.items():
        yield AccessControlEntryRecord(id=acl_id, **acl._asdict())
    for (name, mechanism), credential in image.scram.items():
        yield UserScramCredentialRecord(name=name, mechanism=mechanism, **credential._asdict())
    for token_id, token in image.delegation_tokens.items():
        values: Mapping[str, object] = {**token._asdict(), "renewers": list(token.renewers)}
        yield DelegationTokenRecord(token_id=token_id, **values)  # type: ignore[arg-type]
