"""The loggers of a process are seen and changed through DescribeConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from barnabas.api.broker_loggers import alter_loggers, logger_levels
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.incremental_alter_configs import AlterableConfig

SET, DELETE, APPEND = 0, 1, 2
NAME = "barnabas.test.loggers"


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    """Levels are those of the whole process: they are put back."""
    changed = [logging.getLogger("barnabas"), logging.getLogger(NAME)]
    before = [logger.level for logger in changed]
    yield
    for logger, level in zip(changed, before, strict=True):
        logger.setLevel(level)


def change(name: str, operation: int, value: str | None = None) -> AlterableConfig:
    return AlterableConfig(name=name, config_operation=operation, value=value)


def level_of(name: str) -> str:
    return dict(logger_levels())[name]


def test_a_level_is_set_and_deleted() -> None:
    alter_loggers([change("root", SET, "WARN")], validate_only=False)
    assert (level_of("root"), level_of(NAME)) == ("WARN", "WARN")
    for level in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"):
        alter_loggers([change(NAME, SET, level)], validate_only=False)
        assert level_of(NAME) == level
    assert logging.getLogger(NAME).getEffectiveLevel() == logging.CRITICAL
    alter_loggers([change(NAME, DELETE)], validate_only=False)
    assert level_of(NAME) == "WARN"


def test_only_loggers_of_this_program_are_shown() -> None:
    names = [name for name, _ in logger_levels()]
    assert names[0] == "root"
    assert all(name.startswith("barnabas.") for name in names[1:])
    assert names[1:] == sorted(names[1:])


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (change("no.such", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (change("asyncio", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (change("root", SET, "info"), ErrorCode.INVALID_CONFIG),
        (change("root", SET, ""), ErrorCode.INVALID_CONFIG),
        (change("root", SET), ErrorCode.INVALID_REQUEST),
        (change("root", DELETE), ErrorCode.INVALID_REQUEST),
        (change("root", APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        (change("root", 9, "INFO"), ErrorCode.INVALID_REQUEST),
        (change(NAME, SET, "INFO"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_all_changes_or_none(refused: AlterableConfig, code: ErrorCode) -> None:
    alter_loggers([change(NAME, SET, "ERROR")], validate_only=False)
    with pytest.raises(ApiError) as error:
        alter_loggers([change(NAME, SET, "DEBUG"), refused], validate_only=False)
    assert error.value.code is code
    assert level_of(NAME) == "ERROR"


def test_validate_only_changes_nothing() -> None:
    alter_loggers([change(NAME, SET, "ERROR")], validate_only=False)
    alter_loggers([change(NAME, SET, "DEBUG")], validate_only=True)
    assert level_of(NAME) == "ERROR"
