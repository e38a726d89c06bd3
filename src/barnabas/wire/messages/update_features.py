"""UpdateFeatures: raise or lower finalized feature levels.

Version 1 adds the kind of downgrade and validation only, 2 reports one error instead of one a
feature.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, boolean, int8, int16, int32, string
from barnabas.wire.message import Message, Struct


class FeatureUpdateKey(Struct):
    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean("0")
    upgrade_type: int = int8("1+", default=1)


class UpdateFeaturesRequest(Message):
    API_KEY = ApiKey.UPDATE_FEATURES
    VERSIONS = (0, 2)
    FLEXIBLE = (0, 2)

    timeout_ms: int = int32(default=60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean("1+")


class UpdatableFeatureResult(Struct):
    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)


class UpdateFeaturesResponse(Message):
    API_KEY = ApiKey.UPDATE_FEATURES
    VERSIONS = (0, 2)
    FLEXIBLE = (0, 2)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, "0-1", ignorable=True)
