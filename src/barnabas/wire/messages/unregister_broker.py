"""UnregisterBroker: remove a broker that will not come back."""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import int16, int32, string
from barnabas.wire.message import Message


class UnregisterBrokerRequest(Message):
    API_KEY = ApiKey.UNREGISTER_BROKER
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    broker_id: int = int32()


class UnregisterBrokerResponse(Message):
    API_KEY = ApiKey.UNREGISTER_BROKER
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
