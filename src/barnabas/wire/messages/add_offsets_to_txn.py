"""AddOffsetsToTxn: a group whose offsets a transaction is going to commit.

Version 3 is flexible, 4 answers TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import int16, int32, int64, string
from barnabas.wire.message import Message


class AddOffsetsToTxnRequest(Message):
    API_KEY = ApiKey.ADD_OFFSETS_TO_TXN
    VERSIONS = (0, 4)
    FLEXIBLE = (3, 4)

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(Message):
    API_KEY = ApiKey.ADD_OFFSETS_TO_TXN
    VERSIONS = (0, 4)
    FLEXIBLE = (3, 4)

    throttle_time_ms: int = int32()
    error_code: int = int16()
