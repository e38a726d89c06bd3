"""WriteTxnMarkers: the transaction coordinator has commit or abort markers written to partitions.

Version 1 is flexible, 2 adds the transaction version so that epochs can be checked strictly.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, boolean, int8, int16, int32, int64, string
from barnabas.wire.message import Message, Struct


class WritableTxnMarkerTopic(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32)


class WritableTxnMarker(Struct):
    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8("2+", ignorable=True)


class WriteTxnMarkersRequest(Message):
    API_KEY = ApiKey.WRITE_TXN_MARKERS
    VERSIONS = (1, 2)
    FLEXIBLE = (1, 2)

    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class WritableTxnMarkerTopicResult(Struct):
    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


class WritableTxnMarkerResult(Struct):
    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


class WriteTxnMarkersResponse(Message):
    API_KEY = ApiKey.WRITE_TXN_MARKERS
    VERSIONS = (1, 2)
    FLEXIBLE = (1, 2)

    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
