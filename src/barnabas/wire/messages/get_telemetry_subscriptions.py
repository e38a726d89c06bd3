"""GetTelemetrySubscriptions: which metrics a client should push, and how often."""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, boolean, int8, int16, int32, string, uuid
from barnabas.wire.message import Message


class GetTelemetrySubscriptionsRequest(Message):
    API_KEY = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    client_instance_id: bytes = uuid()


class GetTelemetrySubscriptionsResponse(Message):
    API_KEY = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(int8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(string)
