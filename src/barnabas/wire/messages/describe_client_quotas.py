"""DescribeClientQuotas: the quotas that match a filter of users, clients and addresses.

Version 1 is flexible.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, boolean, float64, int8, int16, int32, string
from barnabas.wire.message import Message, Struct


class ComponentData(Struct):
    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable=True)


class DescribeClientQuotasRequest(Message):
    API_KEY = ApiKey.DESCRIBE_CLIENT_QUOTAS
    VERSIONS = (0, 1)
    FLEXIBLE = (1, 1)

    components: list[ComponentData] = array(ComponentData)
    strict: bool = boolean()


class EntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable=True)


class ValueData(Struct):
    key: str = string()
    value: float = float64()


class EntryData(Struct):
    entity: list[EntityData] = array(EntityData)
    values: list[ValueData] = array(ValueData)


class DescribeClientQuotasResponse(Message):
    API_KEY = ApiKey.DESCRIBE_CLIENT_QUOTAS
    VERSIONS = (0, 1)
    FLEXIBLE = (1, 1)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    entries: list[EntryData] | None = array(EntryData, nullable=True)
