"""UpdateMetadata: a ZooKeeper-mode controller sends brokers the state of the cluster.

Version 1 adds several endpoints a broker, 2 racks, 3 listener names, 4 offline replicas, 5 groups
partitions by topic, 7 adds topic ids, 8 full updates from a KRaft controller during migration.
Not part of KRaft.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, boolean, int8, int16, int32, int64, string, uuid
from barnabas.wire.message import Message, Struct


class UpdateMetadataPartitionState(Struct):
    topic_name: str = string("0-4", ignorable=True)
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    zk_version: int = int32()
    replicas: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, "4+", ignorable=True)


class UpdateMetadataTopicState(Struct):
    topic_name: str = string()
    topic_id: bytes = uuid("7+", ignorable=True)
    partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState)


class UpdateMetadataEndpoint(Struct):
    port: int = int32()
    host: str = string()
    listener: str = string("3+", ignorable=True)
    security_protocol: int = int16()


class UpdateMetadataBroker(Struct):
    id: int = int32()
    v0_host: str = string("0", ignorable=True)
    v0_port: int = int32("0", ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint, "1+", ignorable=True)
    rack: str | None = string("2+", nullable=True, ignorable=True)


class UpdateMetadataRequest(Message):
    API_KEY = ApiKey.UPDATE_METADATA
    VERSIONS = (0, 8)
    FLEXIBLE = (6, 8)

    controller_id: int = int32()
    is_kraft_controller: bool = boolean("8+")
    type: int = int8("8+", tag=0)
    controller_epoch: int = int32()
    broker_epoch: int = int64("5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array(
        UpdateMetadataPartitionState, "0-4"
    )
    topic_states: list[UpdateMetadataTopicState] = array(UpdateMetadataTopicState, "5+")
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker)


class UpdateMetadataResponse(Message):
    API_KEY = ApiKey.UPDATE_METADATA
    VERSIONS = (0, 8)
    FLEXIBLE = (6, 8)

    error_code: int = int16()
