"""ListConfigResources: the names of resources that have settings.

Version 0 lists client metrics resources only, 1 any types.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int8, int16, int32, string
from barnabas.wire.message import Message, Struct


class ListConfigResourcesRequest(Message):
    API_KEY = ApiKey.LIST_CONFIG_RESOURCES
    VERSIONS = (0, 1)
    FLEXIBLE = (0, 1)

    resource_types: list[int] = array(int8, "1+")


class ConfigResource(Struct):
    resource_name: str = string()
    resource_type: int = int8("1+", default=16, ignorable=True)


class ListConfigResourcesResponse(Message):
    API_KEY = ApiKey.LIST_CONFIG_RESOURCES
    VERSIONS = (0, 1)
    FLEXIBLE = (0, 1)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
