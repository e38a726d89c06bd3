"""ListTransactions: the transactions that this broker coordinates.

Version 1 filters by duration, 2 by a pattern of the transactional id.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int16, int32, int64, string
from barnabas.wire.message import Message, Struct


class ListTransactionsRequest(Message):
    API_KEY = ApiKey.LIST_TRANSACTIONS
    VERSIONS = (0, 2)
    FLEXIBLE = (0, 2)

    state_filters: list[str] = array(string)
    producer_id_filters: list[int] = array(int64)
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable=True, default=None)


class TransactionState(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


class ListTransactionsResponse(Message):
    API_KEY = ApiKey.LIST_TRANSACTIONS
    VERSIONS = (0, 2)
    FLEXIBLE = (0, 2)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string)
    transaction_states: list[TransactionState] = array(TransactionState)
