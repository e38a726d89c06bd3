"""CreateAcls: new access rules.

Version 1 adds the pattern type, 2 is flexible, 3 knows user resources.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int8, int16, int32, string
from barnabas.wire.message import Message, Struct


class AclCreation(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class CreateAclsRequest(Message):
    API_KEY = ApiKey.CREATE_ACLS
    VERSIONS = (1, 3)
    FLEXIBLE = (2, 3)

    creations: list[AclCreation] = array(AclCreation)


class AclCreationResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable=True)


class CreateAclsResponse(Message):
    API_KEY = ApiKey.CREATE_ACLS
    VERSIONS = (1, 3)
    FLEXIBLE = (2, 3)

    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)
