"""Settings of topics, brokers, groups and client-metrics subscriptions that change at run time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

from barnabas.config.broker import broker_key, dynamic_broker_def
from barnabas.config.definition import ConfigDef, ConfigError, ConfigType, DynamicMode, format_value
from barnabas.config.group import (
    client_metrics_def,
    group_def,
    validate_client_metrics_configs,
    validate_group_configs,
)
from barnabas.config.support import FIXED_SO_FAR
from barnabas.config.topic import TOPIC_SYNONYMS, topic_def, validate_topic_configs
from barnabas.controller.kraft.decision import Decision, check_size
from barnabas.controller.topic_names import topic_name_error
from barnabas.metadata.features import ELR_VERSION
from barnabas.metadata.image import ResourceType
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages import alter_configs as legacy
from barnabas.wire.messages import incremental_alter_configs as incremental
from barnabas.wire.records.metadata import ClearElrRecord, ConfigRecord

if TYPE_CHECKING:
    from barnabas.controller.kraft.decision import View
    from barnabas.metadata.image import MetadataImage
    from barnabas.wire.message import Message

MIN_ISR: Final = "min.insync.replicas"
MAX_VALUE_BYTES: Final = 32_767


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class _Resource(Protocol):
    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...


def incremental_alter_configs(
    view: View, request: incremental.IncrementalAlterConfigsRequest
) -> Decision[incremental.IncrementalAlterConfigsResponse]:
    def change(resource: incremental.AlterConfigsResource) -> dict[str, str | None]:
        return _incremental(view, resource)

    records, results = _each(view, request.resources, change)
    return Decision(
        [] if request.validate_only else records,
        incremental.IncrementalAlterConfigsResponse(
            responses=[incremental.AlterConfigsResourceResponse(**each) for each in results]
        ),
    )


def alter_configs(
    view: View, request: legacy.AlterConfigsRequest
) -> Decision[legacy.AlterConfigsResponse]:
    def change(resource: legacy.AlterConfigsResource) -> dict[str, str | None]:
        return _replacing(view, resource)

    records, results = _each(view, request.resources, change)
    return Decision(
        [] if request.validate_only else records,
        legacy.AlterConfigsResponse(
            responses=[legacy.AlterConfigsResourceResponse(**each) for each in results]
        ),
    )


def _each(
    view: View, resources: Iterable[_Resource], change: Callable[..., dict[str, str | None]]
) -> tuple[list[Message], list[dict[str, Any]]]:
    """Every resource stands or falls for itself; the results are the fields of their answers."""
    resources = list(resources)
    counts = Counter((each.resource_type, each.resource_name) for each in resources)
    records: list[Message] = []
    results: list[dict[str, Any]] = []
    for resource in resources:
        key = (resource.resource_type, resource.resource_name)
        result = {"resource_type": key[0], "resource_name": key[1], "error_message": None}
        results.append(result)
        try:
            if counts[key] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            changes = change(resource)
        except ApiError as error:
            result |= {"error_code": error.code, "error_message": error.message}
            continue
        records += _records(view.image, key, changes)
    check_size(records)
    return records, results


def _records(
    image: MetadataImage, resource: tuple[int, str], changes: Mapping[str, str | None]
) -> list[Message]:
    present = image.config(*resource)
    changed = {name: value for name, value in changes.items() if present.get(name) != value}
    records: list[Message] = [
        ConfigRecord(resource_type=resource[0], resource_name=resource[1], name=name, value=value)
        for name, value in changed.items()
    ]
    # Who is eligible was decided by the old number.
    if MIN_ISR in changed and image.features.finalized_levels.get(ELR_VERSION):
        if resource[0] == ResourceType.TOPIC:
            records.append(ClearElrRecord(topic_name=resource[1]))
        elif resource == (ResourceType.BROKER, ""):
            records.append(ClearElrRecord(topic_name=""))
    return records


# ---- what a request asks for, as new values (None removes)


def _incremental(view: View, resource: incremental.AlterConfigsResource) -> dict[str, str | None]:
    names = Counter(config.name for config in resource.configs)
    if any(count > 1 for count in names.values()):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    missing = [
        config.name
        for config in resource.configs
        if config.value is None and config.config_operation != Operation.DELETE
    ]
    if missing:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(missing)}"
        )
    present = view.image.config(resource.resource_type, resource.resource_name)
    changes: dict[str, str | None] = {}
    for config in resource.configs:
        try:
            operation = Operation(config.config_operation)
        except ValueError:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Unknown operation type {config.config_operation}",
            ) from None
        if operation is Operation.DELETE:
            changes[config.name] = None
        elif operation is Operation.SET:
            changes[config.name] = config.value
        else:
            assert config.value is not None
            changes[config.name] = _edited(
                view, resource, config.name, config.value, operation, present.get(config.name)
            )
    _check(view, resource, changes, names)
    return changes


def _edited(
    view: View,
    resource: _Resource,
    name: str,
    value: str,
    operation: Operation,
    present: str | None,
) -> str:
    """A list with words added or taken away."""
    row = _table(resource.resource_type).get(name)
    if row is None or row.type is not ConfigType.LIST:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {operation.name} to key {name} because its type is not LIST.",
        )
    if present is None:
        present = _default_list(view, resource.resource_type, name)
    words = _words(present)
    given = _words(value)
    if operation is Operation.APPEND:
        return ",".join(words + [word for word in given if word not in words])
    return ",".join(word for word in words if word not in given)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _default_list(view: View, resource_type: int, name: str) -> str:
    if resource_type == ResourceType.TOPIC:
        related = TOPIC_SYNONYMS.get(name)
        if related:
            return format_value(view.config.topic_defaults.get(name)) or ""
        row = topic_def().get(name)
        return "" if row is None else format_value(row.default) or ""
    if resource_type == ResourceType.BROKER:
        return format_value(view.config.values.get(name)) or ""
    return ""


def _replacing(view: View, resource: legacy.AlterConfigsResource) -> dict[str, str | None]:
    names = Counter(config.name for config in resource.configs)
    if any(count > 1 for count in names.values()):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    missing = [config.name for config in resource.configs if config.value is None]
    if missing:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(missing)}"
        )
    present = view.image.config(resource.resource_type, resource.resource_name)
    changes: dict[str, str | None] = {name: None for name in present if name not in names}
    changes |= {config.name: config.value for config in resource.configs}
    _check(view, resource, changes, names)
    return changes


# ---- whether a resource may be so


def _check(
    view: View,
    resource: _Resource,
    changes: Mapping[str, str | None],
    asked: Iterable[str],
) -> None:
    kind, name = resource.resource_type, resource.resource_name
    for value in changes.values():
        if value is not None and len(value.encode("utf-8", "replace")) > MAX_VALUE_BYTES:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                "The configuration value cannot be added because it exceeds the maximum value size "
                f"of {MAX_VALUE_BYTES} bytes.",
            )
    after = {
        key: value
        for key, value in {**view.image.config(kind, name), **changes}.items()
        if value is not None
    }
    try:
        if kind == ResourceType.TOPIC:
            _check_topic(view, name, after)
        elif kind == ResourceType.BROKER:
            _check_broker(view, name, changes, after, asked)
        elif kind == ResourceType.GROUP:
            _check_named(name, "Default group resources are not allowed.")
            validate_group_configs(after, view.config.values)
        elif kind == ResourceType.CLIENT_METRICS:
            _check_named(name, "Subscription name can't be empty")
            _check_client_metrics(after)
        else:
            shown = "BROKER_LOGGER" if kind == ResourceType.BROKER_LOGGER else str(kind)
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {shown}")
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _check_named(name: str, message: str) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, message)


def _check_client_metrics(after: Mapping[str, str]) -> None:
    try:
        validate_client_metrics_configs(after)
    except ConfigError as error:
        pattern = str(error).startswith("Illegal client matching pattern")
        code = ErrorCode.INVALID_CONFIG if pattern else ErrorCode.INVALID_REQUEST
        raise ApiError(code, str(error)) from error


def _check_topic(view: View, name: str, after: Mapping[str, str]) -> None:
    _check_named(name, "Default topic resources are not allowed.")
    problem = topic_name_error(name)
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if name not in view.image.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    validate_topic_configs(after, view.config.topic_defaults)


def _check_broker(
    view: View,
    name: str,
    changes: Mapping[str, str | None],
    after: Mapping[str, str],
    asked: Iterable[str],
) -> None:
    if name:
        if not name.removeprefix("-").isdecimal():
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "Unable to parse broker name as a base 10 number."
            )
        if int(name) < 0:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid negative broker ID.")
        if int(name) not in view.image.brokers:
            raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {name} found.")
    _check_dynamic(name, [key for key in asked if key in changes])
    _check_min_isr(view.image, name, changes)
    try:
        for key, value in after.items():
            row = broker_key(key)
            if row is not None:
                row.parse(value)
        for_all = after if not name else view.image.config(ResourceType.BROKER, "")
        own = view.image.config(ResourceType.BROKER, name) if not name else after
        if not name or int(name) == view.node_id:
            view.static_config.with_dynamic(for_all, own)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error


def _check_dynamic(name: str, asked: Iterable[str]) -> None:
    fixed, single = [], []
    for key in asked:
        row = broker_key(key)
        if row is None:
            continue
        if row.dynamic is DynamicMode.READ_ONLY:
            fixed.append(key)
        elif row.dynamic is DynamicMode.PER_BROKER and not name:
            single.append(key)
        elif key in FIXED_SO_FAR:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Changing {key} while the broker runs is not supported yet",
            )
    if fixed:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs dynamically: [{', '.join(fixed)}]",
        )
    if single:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"[{', '.join(single)}]",
        )


def _check_min_isr(image: MetadataImage, name: str, changes: Mapping[str, str | None]) -> None:
    """Eligible leaders are computed from one number for all brokers, so it must be there."""
    if MIN_ISR not in changes or not image.features.finalized_levels.get(ELR_VERSION):
        return
    if name:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        )
    if changes[MIN_ISR] is None:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        )


def _table(resource_type: int) -> ConfigDef:
    if resource_type == ResourceType.TOPIC:
        return topic_def()
    if resource_type == ResourceType.GROUP:
        return group_def()
    if resource_type == ResourceType.CLIENT_METRICS:
        return client_metrics_def()
    return dynamic_broker_def()
