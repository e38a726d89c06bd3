"""Stands in for the `cython` module when the kernels run interpreted and Cython is not installed.

Only the names that `kernels.py` uses. Types are all `object` and decorators do nothing, which is
what they mean to an interpreter.
"""

from __future__ import annotations

from typing import Any, TypeVar

compiled = False

T = TypeVar("T")

void = bint = uchar = int = uint = longlong = ulonglong = Py_ssize_t = double = object
p_uchar = p_char = p_longlong = p_int = object


def cfunc(function: T) -> T:
    return function


ccall = cclass = inline = final = no_gc = no_gc_clear = cfunc


def _configured(*_arguments: Any, **_options: Any) -> Any:
    return cfunc


exceptval = boundscheck = wraparound = cdivision = freelist = initializedcheck = _configured


def cast(_type: Any, value: Any) -> Any:
    return value


def declare(_type: Any = None, value: Any = None, visibility: str = "private") -> Any:
    return value
