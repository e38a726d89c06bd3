"""InitProducerId: a producer id for an idempotent or transactional producer.

Version 2 is flexible, 3 lets a producer that lost its epoch name itself, 4 separates
PRODUCER_FENCED, 5 answers TRANSACTION_ABORTABLE, 6 is for two-phase commit and unstable: not
advertised by default.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import boolean, int16, int32, int64, string
from barnabas.wire.message import Message


class InitProducerIdRequest(Message):
    API_KEY = ApiKey.INIT_PRODUCER_ID
    VERSIONS = (0, 6)
    FLEXIBLE = (2, 6)

    transactional_id: str | None = string(nullable=True)
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")


class InitProducerIdResponse(Message):
    API_KEY = ApiKey.INIT_PRODUCER_ID
    VERSIONS = (0, 6)
    FLEXIBLE = (2, 6)

    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)
