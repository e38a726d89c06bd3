"""Finds the error codes in a response, wherever its fields have them.

A response may tell an error at its top, for each topic, for each partition. The walk over a
response class is written once as straight-line code, so that counting errors costs a comparison
per code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

ErrorFinder = Callable[[Any], Sequence[int]]
_NONE: tuple[int, ...] = ()


def _nothing(response: Any) -> Sequence[int]:
    return _NONE


def error_finder(response_class: Any) -> ErrorFinder:
    """A function that gives the codes other than 0 in a response of this class."""
    lines: list[str] = []
    _walk(response_class, "response", 1, lines)
    if not lines:
        return _nothing
    source = ["def find(response):", " found = []", *lines, " return found"]
    scope: dict[str, Any] = {}
    exec("\n".join(source), scope)
    finder: ErrorFinder = scope["find"]
    return finder


def _walk(struct: Any, name: str, depth: int, lines: list[str]) -> None:
    indent = " " * depth
    for field in struct.FIELDS:
        value = f"{name}.{field.name}"
        if field.name == "error_code":
            lines.append(f"{indent}if {value}: found.append({value})")
        elif field.kind == "array" and field.struct is not None:
            inner: list[str] = []
            _walk(field.struct, f"each_{depth}", depth + 1, inner)
            if inner:
                lines.append(f"{indent}for each_{depth} in {value} or ():")
                lines += inner
        elif field.kind == "struct":
            inner = []
            _walk(field.struct, value, depth + 1, inner)
            if inner:
                lines.append(f"{indent}if {value} is not None:")
                lines += inner
