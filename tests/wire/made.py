"""Messages made by hypothesis: everything that a class can hold in a version.

Fields that the version lacks stay at their defaults, so that a message survives the way through its
bytes. Values stay within what both oracles can hold: they turn times into dates, error codes into
enums and sets of operations into sets.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from barnabas.wire.errors import ErrorCode
from barnabas.wire.fields import Field
from barnabas.wire.layout import Layout, element_field
from barnabas.wire.message import Message, Struct

_INTEGERS = {
    "int8": (-0x80, 0x7F),
    "int16": (-0x8000, 0x7FFF),
    "uint16": (0, 0xFFFF),
    "int32": (-0x80000000, 0x7FFFFFFF),
    "int64": (-0x8000000000000000, 0x7FFFFFFFFFFFFFFF),
}
_LATEST_TIME_MS = 1 << 42
_ALL_OPERATIONS = (1 << 16) - 1
_ERROR_CODES = st.sampled_from([int(code) for code in ErrorCode])
_TEXT = st.one_of(
    st.text(max_size=6),
    st.sampled_from(["", "x" * 126, "x" * 127, "x" * 128, "é" * 200]),
)
_BYTES = st.one_of(
    st.binary(max_size=6), st.sampled_from([b"", bytes(126), bytes(127), bytes(300)])
)
_UUID = st.binary(min_size=16, max_size=16)
_MOST_ELEMENTS = 2


@cache
def messages(cls: type[Message], version: int) -> st.SearchStrategy[Any]:
    return _structs(Layout(cls, version), cls)


def _structs(layout: Layout, cls: type[Struct]) -> st.SearchStrategy[Any]:
    fields = {field.name: _values(layout, field) for field in cls.FIELDS if layout.has(field)}
    return st.builds(cls, **fields)


def _values(layout: Layout, field: Field) -> st.SearchStrategy[Any]:
    if field.kind == "array":
        element = element_field(field)
        longest = 20 if element.kind.startswith("int") else _MOST_ELEMENTS
        values: st.SearchStrategy[Any] = st.lists(_values(layout, element), max_size=longest)
    elif field.kind == "struct":
        values = _structs(layout, field.struct)
    else:
        values = _scalars(field)
    if layout.nullable(field):
        values = st.one_of(st.none(), values)
    return values


def _scalars(field: Field) -> st.SearchStrategy[Any]:
    kind, name = field.kind, field.name
    if kind == "boolean":
        return st.booleans()
    if kind == "float64":
        return st.floats(allow_nan=False)
    if kind == "string":
        return _TEXT
    if kind in {"binary", "records"}:
        return _BYTES
    if kind == "uuid":
        return _UUID
    if name.endswith("error_code"):
        return _ERROR_CODES
    if kind == "int64" and ("time" in name or name.endswith("_ms")):
        return st.integers(0, _LATEST_TIME_MS)
    if name.endswith("authorized_operations"):
        return st.integers(0, _ALL_OPERATIONS)
    return st.integers(*_INTEGERS[kind])
