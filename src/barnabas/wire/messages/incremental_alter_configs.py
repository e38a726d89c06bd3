"""IncrementalAlterConfigs: set, delete, append to or subtract from single settings.

Version 1 is flexible.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, boolean, int8, int16, int32, string
from barnabas.wire.message import Message, Struct


class AlterableConfig(Struct):
    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable=True)


class AlterConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


class IncrementalAlterConfigsRequest(Message):
    API_KEY = ApiKey.INCREMENTAL_ALTER_CONFIGS
    VERSIONS = (0, 1)
    FLEXIBLE = (1, 1)

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsResourceResponse(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    resource_type: int = int8()
    resource_name: str = string()


class IncrementalAlterConfigsResponse(Message):
    API_KEY = ApiKey.INCREMENTAL_ALTER_CONFIGS
    VERSIONS = (0, 1)
    FLEXIBLE = (1, 1)

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
