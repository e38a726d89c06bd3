"""DescribeAcls: access rules that match a filter.

Version 1 adds the pattern type, 2 is flexible, 3 knows user resources.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int8, int16, int32, string
from barnabas.wire.message import Message, Struct


class DescribeAclsRequest(Message):
    API_KEY = ApiKey.DESCRIBE_ACLS
    VERSIONS = (1, 3)
    FLEXIBLE = (2, 3)

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable=True)
    pattern_type_filter: int = int8(default=3)
    principal_filter: str | None = string(nullable=True)
    host_filter: str | None = string(nullable=True)
    operation: int = int8()
    permission_type: int = int8()


class AclDescription(Struct):
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DescribeAclsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)
    acls: list[AclDescription] = array(AclDescription)


class DescribeAclsResponse(Message):
    API_KEY = ApiKey.DESCRIBE_ACLS
    VERSIONS = (1, 3)
    FLEXIBLE = (2, 3)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    resources: list[DescribeAclsResource] = array(DescribeAclsResource)
