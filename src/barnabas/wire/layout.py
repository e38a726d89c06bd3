"""What a class looks like in one version: which fields are there, how wide they are at least.

The declarations in `barnabas.wire.fields` state versions as text; here the text is read and the
questions of the two compilers are answered. `Layout` is one message class in one version, and also
every struct inside it, because structs have no versions of their own.
"""

from __future__ import annotations

from typing import Any

from barnabas.wire.fields import Field
from barnabas.wire.message import Message, Struct

FORMATS = {
    "boolean": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
"""The kinds of a fixed width, as `struct` knows them."""

LONGEST_STRING = 0x7FFF
"""In bytes, also where the length is a varint that could say more."""


def version_range(text: str) -> tuple[int, int]:
    """`"3+"`, `"0-12"` or `"0"` as an inclusive pair."""
    if text.endswith("+"):
        return int(text[:-1]), 0x7FFF
    low, _, high = text.partition("-")
    return int(low), int(high or low)


class Layout:
    """One message class in one version."""

    __slots__ = ("flexible", "label", "version")

    def __init__(self, cls: type[Message], version: int) -> None:
        self.version = version
        self.label = f"{cls.__name__} v{version}"
        flexible = cls.FLEXIBLE
        self.flexible = flexible is not None and flexible[0] <= version <= flexible[1]

    def _holds(self, versions: str) -> bool:
        low, high = version_range(versions)
        return low <= self.version <= high

    def has(self, field: Field) -> bool:
        return self._holds(field.versions)

    def nullable(self, field: Field) -> bool:
        nullable = field.nullable
        return nullable if isinstance(nullable, bool) else self._holds(nullable)

    def compact(self, field: Field) -> bool:
        return self.flexible and field.compact

    def plain(self, cls: type[Struct]) -> list[Field]:
        """The fields that always travel, in their order."""
        return [field for field in cls.FIELDS if field.tag is None and self.has(field)]

    def tagged(self, cls: type[Struct]) -> list[tuple[int, Field]]:
        """The fields of the tagged section, by tag."""
        if not self.flexible:
            return []
        found = [(f.tag, f) for f in cls.FIELDS if f.tag is not None and self.has(f)]
        return sorted(found, key=lambda pair: pair[0])

    def absent(self, cls: type[Struct]) -> list[Field]:
        """The fields that this version cannot carry."""
        return [field for field in cls.FIELDS if not self.has(field)]

    def least_bytes(self, cls: type[Struct]) -> int:
        """The fewest bytes that a struct can take."""
        return sum(map(self._least_bytes_of, self.plain(cls))) + (1 if self.flexible else 0)

    def _least_bytes_of(self, field: Field) -> int:
        if field.kind in FORMATS:
            return FORMATS[field.kind][1]
        if field.kind == "struct":
            return 1 if self.nullable(field) else self.least_bytes(field.struct)
        if self.compact(field):
            return 1
        return 2 if field.kind == "string" else 4

    def least_bytes_of_element(self, field: Field) -> int:
        """The fewest bytes that an element of an array can take, and never less than one."""
        if field.element == "struct":
            return max(1, self.least_bytes(field.struct))
        return self._least_bytes_of(element_field(field))


def element_field(field: Field) -> Field:
    """An array's element as a field of its own."""
    assert field.element is not None
    found = Field(field.element, field.versions, None, None, False, struct=field.struct)
    found.name = field.name
    return found


def literal(value: Any) -> str | None:
    """The source text of a plain default, or None where there is no short one."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    return None
