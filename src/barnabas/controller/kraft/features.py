"""Which level of a feature the cluster uses: raising it, and within limits lowering it."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.controller.kraft.configs import MIN_ISR
from barnabas.controller.kraft.decision import Decision
from barnabas.metadata.features import (
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
)
from barnabas.metadata.image import ResourceType
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from barnabas.wire.records.metadata import (
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
)

if TYPE_CHECKING:
    from barnabas.controller.kraft.decision import View
    from barnabas.wire.message import Message

LEVELS_THAT_CHANGED_RECORDS: Final = frozenset((7, 8, 11, 13, 14, 15, 17, 23, 30))


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class Quorum(Protocol):
    """`kraft.version` stands in the quorum's own records, and only the quorum can raise it."""

    @property
    def kraft_version(self) -> int: ...

    def check_kraft_version(self, version: int) -> None: ...


def update_features(
    view: View, request: UpdateFeaturesRequest, quorum: Quorum
) -> Decision[UpdateFeaturesResponse]:
    """All updates of a request are made, or none is."""
    records: list[Message] = []
    for update in {each.feature: each for each in request.feature_updates}.values():
        try:
            records += _update(view, update, quorum)
        except ApiError as error:
            message = (
                "The update failed for all features since the following feature had an error: "
                f"{error.message}"
            )
            return Decision(
                [], UpdateFeaturesResponse(error_code=error.code, error_message=message)
            )
    results = [
        UpdatableFeatureResult(feature=update.feature, error_message=ErrorCode.NONE.name)
        for update in request.feature_updates
    ]
    response = UpdateFeaturesResponse(error_code=0, error_message=None, results=results)
    return Decision([] if request.validate_only else records, response)


def quorum_level(request: UpdateFeaturesRequest) -> int | None:
    """The level of `kraft.version` that is asked for: the quorum itself writes it."""
    for update in request.feature_updates:
        if update.feature == KRAFT_VERSION:
            return update.max_version_level
    return None


def _update(view: View, update: FeatureUpdateKey, quorum: Quorum) -> list[Message]:
    name, level = update.feature, update.max_version_level
    try:
        kind = UpgradeType(update.upgrade_type)
    except ValueError:
        raise _refused(
            name, level, "The controller does not support the given upgrade type."
        ) from None
    if update.allow_downgrade:
        kind = UpgradeType.SAFE_DOWNGRADE
    present = view.image.features.finalized_levels.get(name, 0)
    if name == KRAFT_VERSION:
        present = quorum.kraft_version
    if level < 0:
        raise _refused(name, level, "A feature version cannot be less than 0.")
    # Switching a feature off that another node had switched on is always possible.
    known = view.image.features.finalized_levels
    if level == 0 and name not in known and name not in SUPPORTED_FEATURES:
        raise _refused(name, level, f"Feature {name} not found.")
    if level != 0 or name not in known or name == METADATA_VERSION:
        _check_support(view, name, level)
    if level < present and kind is UpgradeType.UPGRADE:
        raise _refused(
            name,
            level,
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade.",
        )
    if level > present and kind is not UpgradeType.UPGRADE:
        raise _refused(name, level, "Can't downgrade to a newer version.")
    if level == present:
        return []
    if name == KRAFT_VERSION:
        if level < present:
            raise _refused(name, level, "Can't downgrade the version of this feature.")
        quorum.check_kraft_version(level)
        # It follows the quorum's records, so that the answer waits until they are committed.
        return [NoOpRecord()]
    if name == METADATA_VERSION:
        _check_metadata_version(present, level, kind)
    records: list[Message] = [FeatureLevelRecord(name=name, feature_level=level)]
    if name == ELR_VERSION:
        records += elr_records(view) if level else [ClearElrRecord(topic_name="")]
    return records


def _refused(name: str, level: int, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {level} for feature {name}. {reason}",
    )


def _check_support(view: View, name: str, level: int) -> None:
    nodes = [(f"Local controller {view.node_id}", SUPPORTED_FEATURES)]
    nodes += [(f"Broker {each.broker_id}", each.features) for each in view.image.brokers.values()]
    nodes += [
        (f"Controller {each.controller_id}", each.features)
        for each in view.image.controllers.values()
        if each.controller_id != view.node_id
    ]
    for who, features in nodes:
        if name not in features:
            if level == 0:
                continue
            raise _refused(name, level, f"{who} does not support this feature.")
        lowest, highest = features[name]
        if not lowest <= level <= highest:
            raise _refused(name, level, f"{who} only supports versions {lowest}-{highest}")


def _check_metadata_version(present: int, level: int, kind: UpgradeType) -> None:
    if level > present:
        return
    if kind is UpgradeType.UNSAFE_DOWNGRADE:
        reason = "Unsafe metadata downgrade is not supported in this version."
    elif any(each in LEVELS_THAT_CHANGED_RECORDS for each in range(level + 1, present + 1)):
        reason = (
            "Refusing to perform the requested downgrade because it might delete metadata "
            "information."
        )
    else:
        return
    raise ApiError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Unsupported metadata.version downgrade from {present} to {level}. {reason}",
    )


def elr_records(view: View) -> list[Message]:
    """Eligible leaders need one `min.insync.replicas` for the whole cluster, and no other."""
    records: list[Message] = []
    for (kind, name), values in view.image.configs.items():
        if kind == ResourceType.BROKER and name and MIN_ISR in values:
            records.append(
                ConfigRecord(resource_type=kind, resource_name=name, name=MIN_ISR, value=None)
            )
    if MIN_ISR not in view.image.config(ResourceType.BROKER, ""):
        records.append(
            ConfigRecord(
                resource_type=ResourceType.BROKER,
                resource_name="",
                name=MIN_ISR,
                value=str(view.static_config.min_insync_replicas),
            )
        )
    return records
