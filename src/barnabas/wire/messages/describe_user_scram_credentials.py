"""DescribeUserScramCredentials: which SCRAM mechanisms and iterations users have.

Never the credentials themselves. Null users ask for all of them.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, int8, int16, int32, string
from barnabas.wire.message import Message, Struct


class UserName(Struct):
    name: str = string()


class DescribeUserScramCredentialsRequest(Message):
    API_KEY = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    users: list[UserName] | None = array(UserName, nullable=True)


class CredentialInfo(Struct):
    mechanism: int = int8()
    iterations: int = int32()


class DescribeUserScramCredentialsResult(Struct):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


class DescribeUserScramCredentialsResponse(Message):
    API_KEY = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    VERSIONS = (0, 0)
    FLEXIBLE = (0, 0)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)
