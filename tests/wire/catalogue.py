"""Everything that can be encoded: every class with every version it has."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from barnabas.wire import header, messages, records
from barnabas.wire.message import Message


def _modules() -> list[ModuleType]:
    found = [header]
    for package in (messages, records):
        for module in pkgutil.iter_modules(package.__path__):
            found.append(importlib.import_module(f"{package.__name__}.{module.name}"))
    return found


CLASSES: list[type[Message]] = [
    value
    for module in _modules()
    for value in vars(module).values()
    if isinstance(value, type)
    and issubclass(value, Message)
    and value is not Message
    and value.__module__ == module.__name__
]


def versions_of(cls: type[Message]) -> range:
    return range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)


VERSIONED: list[tuple[type[Message], int]] = [
    (cls, version) for cls in CLASSES for version in versions_of(cls)
]


def name_of(value: object) -> str:
    """A test id for a class or a version."""
    return value.__name__ if isinstance(value, type) else f"v{value}"
