"""AlterClientQuotas: set or remove quotas.

Version 1 is flexible.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, boolean, float64, int16, int32, string
from barnabas.wire.message import Message, Struct


class EntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable=True)


class OpData(Struct):
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class AlterClientQuotasRequestEntryData(Struct):
    entity: list[EntityData] = array(EntityData)
    ops: list[OpData] = array(OpData)


class AlterClientQuotasRequest(Message):
    API_KEY = ApiKey.ALTER_CLIENT_QUOTAS
    VERSIONS = (0, 1)
    FLEXIBLE = (1, 1)

    entries: list[AlterClientQuotasRequestEntryData] = array(AlterClientQuotasRequestEntryData)
    validate_only: bool = boolean()


class AlterClientQuotasResponseEntryData(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    entity: list[EntityData] = array(EntityData)


class AlterClientQuotasResponse(Message):
    API_KEY = ApiKey.ALTER_CLIENT_QUOTAS
    VERSIONS = (0, 1)
    FLEXIBLE = (1, 1)

    throttle_time_ms: int = int32()
    entries: list[AlterClientQuotasResponseEntryData] = array(AlterClientQuotasResponseEntryData)
