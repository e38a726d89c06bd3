"""The loggers of this process as settings (KIP-412): their levels can be seen and changed while it runs.

They are no part of the metadata: a change holds until the process ends, and is for the node that was
asked. `root` is the logger above all others, which `--log-level` sets; a logger without a level of its
own has that of the one above it, so that deleting one gives it that level again. Kafka's names of levels
are used; TRACE is what Python has below DEBUG.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.wire.messages.incremental_alter_configs import AlterableConfig

ROOT: Final = "root"
_PACKAGE: Final = "barnabas"
_LEVELS: Final = {"DEBUG": 10, "ERROR": 40, "FATAL": 50, "INFO": 20, "TRACE": 5, "WARN": 30}
_SET, _DELETE = 0, 1
_OPERATIONS: Final = {2: "APPEND", 3: "SUBTRACT"}


def logger_levels() -> Iterator[tuple[str, str]]:
    """Every logger with the level that is in force for it."""
    known = logging.root.manager.loggerDict
    names = sorted(name for name in tuple(known) if name.startswith(f"{_PACKAGE}."))
    yield ROOT, _name_of(logging.getLogger(_PACKAGE).getEffectiveLevel())
    for name in names:
        if isinstance(known[name], logging.Logger):
            yield name, _name_of(logging.getLogger(name).getEffectiveLevel())


def alter_loggers(changes: Sequence[AlterableConfig], *, validate_only: bool) -> None:
    """All of the changes, or none of them: ApiError."""
    names = [change.name for change in changes]
    if len(set(names)) < len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    empty = [
        change.name
        for change in changes
        if change.value is None and change.config_operation != _DELETE
    ]
    if empty:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(empty)}"
        )
    for change in changes:
        _check(change)
    if validate_only:
        return
    for change in changes:
        level = _LEVELS[change.value or ""] if change.config_operation == _SET else logging.NOTSET
        logging.getLogger(_PACKAGE if change.name == ROOT else change.name).setLevel(level)


def _check(change: AlterableConfig) -> None:
    operation = change.config_operation
    if operation in _OPERATIONS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{_OPERATIONS[operation]} operation is not allowed for the BROKER_LOGGER resource",
        )
    if operation not in (_SET, _DELETE):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation {operation}")
    if change.name not in dict(logger_levels()):
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
    if operation == _DELETE and change.name == ROOT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Removing the log level of the {ROOT} logger is not allowed",
        )
    if operation == _SET and change.value not in _LEVELS:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {change.name} to {change.value} as it is not a supported "
            f"log level. Valid log levels are {', '.join(_LEVELS)}",
        )


def _name_of(level: int) -> str:
    """The highest of Kafka's levels that is not above this one."""
    below = [(number, name) for name, number in _LEVELS.items() if number <= level]
    return max(below, default=(0, "TRACE"))[1]
