"""PushTelemetry: a client pushes its metrics."""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import binary, boolean, int8, int16, int32, uuid
from barnabas.wire.message import Message


class PushTelemetryRequest(Message):
    API_KEY = ApiKey.PUSH_TELEMETRY
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = binary()


class PushTelemetryResponse(Message):
    API_KEY = ApiKey.PUSH_TELEMETRY
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    throttle_time_ms: int = int32()
    error_code: int = int16()
