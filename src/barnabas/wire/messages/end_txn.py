"""EndTxn: commit or abort a transaction.

Version 3 is flexible, 4 answers TRANSACTION_ABORTABLE, 5 bumps the producer epoch with every
transaction and returns it (KIP-890).
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import boolean, int16, int32, int64, string
from barnabas.wire.message import Message


class EndTxnRequest(Message):
    API_KEY = ApiKey.END_TXN
    VERSIONS = (0, 5)
    FLEXIBLE = (3, 5)

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


class EndTxnResponse(Message):
    API_KEY = ApiKey.END_TXN
    VERSIONS = (0, 5)
    FLEXIBLE = (3, 5)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)
