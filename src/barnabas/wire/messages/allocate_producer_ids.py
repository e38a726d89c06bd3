"""AllocateProducerIds: a broker asks the controller for a block of producer ids."""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import int16, int32, int64
from barnabas.wire.message import Message


class AllocateProducerIdsRequest(Message):
    API_KEY = ApiKey.ALLOCATE_PRODUCER_IDS
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


class AllocateProducerIdsResponse(Message):
    API_KEY = ApiKey.ALLOCATE_PRODUCER_IDS
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()
