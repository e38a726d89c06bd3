"""The records of the metadata log, `__cluster_metadata-0`, and the frame they are written in.

A value is three varints, frame version, record type and record version, and the body. In change
records, a tagged field that is absent means "unchanged". Type numbers with gaps belonged to records
that were never released.
"""

from __future__ import annotations

from barnabas.wire.codec import encode, reader
from barnabas.wire.fields import (
    array,
    binary,
    boolean,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)
from barnabas.wire.message import Message, Struct
from barnabas.wire.primitives import Buffer, DecodeError, read_unsigned_varint, unsigned_varint


class BrokerEndpoint(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class BrokerFeature(Struct):
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class RegisterBrokerRecord(Message):
    RECORD_TYPE = 0
    VERSIONS = (0, 4)
    FLEXIBLE = (0, 4)

    broker_id: int = int32()
    is_migrating_zk_broker: bool = boolean("2+")
    incarnation_id: bytes = uuid()
    broker_epoch: int = int64()
    end_points: list[BrokerEndpoint] = array(BrokerEndpoint)
    features: list[BrokerFeature] = array(BrokerFeature)
    rack: str | None = string(nullable=True)
    fenced: bool = boolean(default=True)
    in_controlled_shutdown: bool = boolean("1+")
    log_dirs: list[bytes] = array(uuid, "3+", tag=0)
    cordoned_log_dirs: list[bytes] | None = array(uuid, "4+", nullable=True, default=None, tag=1)


class UnregisterBrokerRecord(Message):
    RECORD_TYPE = 1
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    broker_id: int = int32()
    broker_epoch: int = int64()


class TopicRecord(Message):
    RECORD_TYPE = 2
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    name: str = string()
    topic_id: bytes = uuid()


class PartitionRecord(Message):
    RECORD_TYPE = 3
    VERSIONS = (0, 2)
    FLEXIBLE = (0, 2)

    partition_id: int = int32(default=-1)
    topic_id: bytes = uuid()
    replicas: list[int] = array(int32)
    isr: list[int] = array(int32)
    removing_replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32)
    leader: int = int32(default=-1)
    leader_recovery_state: int = int8(tag=0)
    leader_epoch: int = int32(default=-1)
    partition_epoch: int = int32(default=-1)
    directories: list[bytes] = array(uuid, "1+")
    eligible_leader_replicas: list[int] | None = array(
        int32, "2+", nullable=True, default=None, tag=1
    )
    last_known_elr: list[int] | None = array(int32, "2+", nullable=True, default=None, tag=2)


class ConfigRecord(Message):
    RECORD_TYPE = 4
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(nullable=True)


class PartitionChangeRecord(Message):
    RECORD_TYPE = 5
    VERSIONS = (0, 2)
    FLEXIBLE = (0, 2)

    partition_id: int = int32(default=-1)
    topic_id: bytes = uuid()
    isr: list[int] | None = array(int32, nullable=True, default=None, tag=0)
    leader: int = int32(default=-2, tag=1)
    replicas: list[int] | None = array(int32, nullable=True, default=None, tag=2)
    removing_replicas: list[int] | None = array(int32, nullable=True, default=None, tag=3)
    adding_replicas: list[int] | None = array(int32, nullable=True, default=None, tag=4)
    leader_recovery_state: int = int8(default=-1, tag=5)
    directories: list[bytes] | None = array(uuid, "1+", nullable=True, default=None, tag=8)
    eligible_leader_replicas: list[int] | None = array(
        int32, "2+", nullable=True, default=None, tag=6
    )
    last_known_elr: list[int] | None = array(int32, "2+", nullable=True, default=None, tag=7)


class FenceBrokerRecord(Message):
    RECORD_TYPE = 7
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    id: int = int32()
    epoch: int = int64()


class UnfenceBrokerRecord(Message):
    RECORD_TYPE = 8
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    id: int = int32()
    epoch: int = int64()


class RemoveTopicRecord(Message):
    RECORD_TYPE = 9
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    topic_id: bytes = uuid()


class DelegationTokenRecord(Message):
    RECORD_TYPE = 10
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    owner: str = string()
    requester: str = string()
    renewers: list[str] = array(string)
    issue_timestamp: int = int64()
    max_timestamp: int = int64()
    expiration_timestamp: int = int64()
    token_id: str = string()


class UserScramCredentialRecord(Message):
    RECORD_TYPE = 11
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    name: str = string()
    mechanism: int = int8()
    salt: bytes = binary()
    stored_key: bytes = binary()
    server_key: bytes = binary()
    iterations: int = int32()


class FeatureLevelRecord(Message):
    RECORD_TYPE = 12
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    name: str = string()
    feature_level: int = int16()


class EntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable=True)


class ClientQuotaRecord(Message):
    RECORD_TYPE = 14
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    entity: list[EntityData] = array(EntityData)
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class ProducerIdsRecord(Message):
    RECORD_TYPE = 15
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    next_producer_id: int = int64()


class BrokerRegistrationChangeRecord(Message):
    RECORD_TYPE = 17
    VERSIONS = (0, 3)
    FLEXIBLE = (0, 3)

    broker_id: int = int32()
    broker_epoch: int = int64()
    fenced: int = int8(tag=0)
    in_controlled_shutdown: int = int8("1+", tag=1)
    log_dirs: list[bytes] = array(uuid, "2+", tag=2)
    cordoned_log_dirs: list[bytes] | None = array(uuid, "3+", nullable=True, default=None, tag=3)


class AccessControlEntryRecord(Message):
    RECORD_TYPE = 18
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    id: bytes = uuid()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8()
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class RemoveAccessControlEntryRecord(Message):
    RECORD_TYPE = 19
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    id: bytes = uuid()


class NoOpRecord(Message):
    RECORD_TYPE = 20
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)


class ZkMigrationStateRecord(Message):
    RECORD_TYPE = 21
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    zk_migration_state: int = int8()


class RemoveUserScramCredentialRecord(Message):
    RECORD_TYPE = 22
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    name: str = string()
    mechanism: int = int8()


class BeginTransactionRecord(Message):
    RECORD_TYPE = 23
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    name: str | None = string(nullable=True, default=None, tag=0)


class EndTransactionRecord(Message):
    RECORD_TYPE = 24
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)


class AbortTransactionRecord(Message):
    RECORD_TYPE = 25
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    reason: str | None = string(nullable=True, default=None, tag=0)


class RemoveDelegationTokenRecord(Message):
    RECORD_TYPE = 26
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    token_id: str = string()


class ControllerEndpoint(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class ControllerFeature(Struct):
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class RegisterControllerRecord(Message):
    RECORD_TYPE = 27
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    controller_id: int = int32()
    incarnation_id: bytes = uuid()
    zk_migration_ready: bool = boolean()
    end_points: list[ControllerEndpoint] = array(ControllerEndpoint)
    features: list[ControllerFeature] = array(ControllerFeature)


class ClearElrRecord(Message):
    RECORD_TYPE = 28
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    topic_name: str = string()


RECORDS: dict[int, type[Message]] = {
    record.RECORD_TYPE: record
    for record in (
        RegisterBrokerRecord,
        UnregisterBrokerRecord,
        TopicRecord,
        PartitionRecord,
        ConfigRecord,
        PartitionChangeRecord,
        FenceBrokerRecord,
        UnfenceBrokerRecord,
        RemoveTopicRecord,
        DelegationTokenRecord,
        UserScramCredentialRecord,
        FeatureLevelRecord,
        ClientQuotaRecord,
        ProducerIdsRecord,
        BrokerRegistrationChangeRecord,
        AccessControlEntryRecord,
        RemoveAccessControlEntryRecord,
        NoOpRecord,
        ZkMigrationStateRecord,
        RemoveUserScramCredentialRecord,
        BeginTransactionRecord,
        EndTransactionRecord,
        AbortTransactionRecord,
        RemoveDelegationTokenRecord,
        RegisterControllerRecord,
        ClearElrRecord,
    )
}
"""Every metadata record by its type."""

_FRAME_VERSION = 1


def encode_metadata_record(record: Message, version: int | None = None) -> bytes:
    """The value of a record in the metadata log; in the highest version unless told."""
    if version is None:
        version = record.VERSIONS[1]
    front = bytes((_FRAME_VERSION,)) + unsigned_varint(record.RECORD_TYPE)
    return front + unsigned_varint(version) + encode(record, version)


def decode_metadata_record(data: Buffer) -> tuple[Message, int]:
    """The record that a value in the metadata log holds, and its version."""
    frame_version, position = read_unsigned_varint(data, 0)
    if frame_version != _FRAME_VERSION:
        raise DecodeError(f"a metadata record has the frame version {frame_version}")
    record_type, position = read_unsigned_varint(data, position)
    version, position = read_unsigned_varint(data, position)
    cls = RECORDS.get(record_type)
    if cls is None:
        raise DecodeError(f"a metadata record has the unknown type {record_type}")
    end = len(data)
    record, position = reader(cls, version)(data, position, end)
    if position != end:
        raise DecodeError(f"{end - position} bytes follow a {cls.__name__} in its value")
    found: Message = record
    return found, version
