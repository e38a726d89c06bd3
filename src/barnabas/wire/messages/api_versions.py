"""ApiVersions: which APIs and versions the broker speaks, and which features are finalized.

The response always has the old header, so that a client can read it before it knows anything. A
version that the broker does not know is answered in version 0 with UNSUPPORTED_VERSION and the
supported range. Version 3 is flexible and names the client software, 4 can show features whose
lowest version is 0.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, boolean, int16, int32, int64, string
from barnabas.wire.message import Message, Struct


class ApiVersionsRequest(Message):
    API_KEY = ApiKey.API_VERSIONS
    VERSIONS = (0, 4)
    FLEXIBLE = (3, 4)

    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)


class ApiVersion(Struct):
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Struct):
    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


class FinalizedFeatureKey(Struct):
    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


class ApiVersionsResponse(Message):
    API_KEY = ApiKey.API_VERSIONS
    VERSIONS = (0, 4)
    FLEXIBLE = (3, 4)

    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(
        SupportedFeatureKey, "3+", tag=0, ignorable=True
    )
    finalized_features_epoch: int = int64("3+", default=-1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = array(
        FinalizedFeatureKey, "3+", tag=2, ignorable=True
    )
    zk_migration_ready: bool = boolean("3+", tag=3, ignorable=True)
