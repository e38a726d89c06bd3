"""Messages as JSON in Kafka's own form: camelCase names, ids as Kafka prints them, bytes as base64.

Only the fields a version has are shown, and a tagged field only when it is not at its default, so a
dump looks like what Apache's tools print of the same bytes.
"""

from __future__ import annotations

import base64
from typing import Any

from barnabas.wire.message import Struct
from barnabas.wire.uuids import to_text


def message_json(message: Struct, version: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in message.FIELDS:
        if not in_range(field.versions, version):
            continue
        value = getattr(message, field.name)
        if field.tag is not None and value == field.new_default():
            continue
        found[camel(field.name)] = _value(field.kind, field.element, value, version)
    return found


def in_range(versions: str, version: int) -> bool:
    """Whether `0+`, `2` or `1-4` holds a version."""
    low, plus, _ = versions.partition("+")
    if plus:
        return version >= int(low)
    first, dash, last = versions.partition("-")
    if not first.isdigit():
        return False
    return int(first) <= version <= int(last if dash else first)


def camel(name: str) -> str:
    head, *rest = name.split("_")
    if head == "kraft":
        head = "kRaft"
    return head + "".join(part.capitalize() for part in rest)


def record_name(class_name: str) -> str:
    """`FeatureLevelRecord` as FEATURE_LEVEL_RECORD."""
    return "".join("_" + c if c.isupper() and i else c for i, c in enumerate(class_name)).upper()


def _value(kind: str, element: str | None, value: Any, version: int) -> Any:
    if value is None:
        return None
    if isinstance(value, Struct):
        return message_json(value, version)
    if isinstance(value, list):
        return [_value(element or "struct", None, item, version) for item in value]
    if kind == "uuid":
        return to_text(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    return value
