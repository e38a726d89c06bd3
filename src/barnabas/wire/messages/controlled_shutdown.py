"""ControlledShutdown: a ZooKeeper-mode broker asks the controller to take over its leaderships.

Version 2 adds the broker epoch, 3 is flexible. Not part of KRaft, where a heartbeat says the
same.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int16, int32, int64, string
from barnabas.wire.message import Message, Struct


class ControlledShutdownRequest(Message):
    API_KEY = ApiKey.CONTROLLED_SHUTDOWN
    VERSIONS = (0, 3)
    FLEXIBLE = (3, 3)

    broker_id: int = int32()
    broker_epoch: int = int64("2+", default=-1, ignorable=True)


class RemainingPartition(Struct):
    topic_name: str = string()
    partition_index: int = int32()


class ControlledShutdownResponse(Message):
    API_KEY = ApiKey.CONTROLLED_SHUTDOWN
    VERSIONS = (0, 3)
    FLEXIBLE = (3, 3)

    error_code: int = int16()
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition)
