"""AlterConfigs: replace all dynamic settings of a resource; the incremental API is preferred.

Version 2 is flexible.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, boolean, int8, int16, int32, string
from barnabas.wire.message import Message, Struct


class AlterableConfig(Struct):
    name: str = string()
    value: str | None = string(nullable=True)


class AlterConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


class AlterConfigsRequest(Message):
    API_KEY = ApiKey.ALTER_CONFIGS
    VERSIONS = (0, 2)
    FLEXIBLE = (2, 2)

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsResourceResponse(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    resource_type: int = int8()
    resource_name: str = string()


class AlterConfigsResponse(Message):
    API_KEY = ApiKey.ALTER_CONFIGS
    VERSIONS = (0, 2)
    FLEXIBLE = (2, 2)

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
