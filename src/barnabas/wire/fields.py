# mypy: no-warn-return-any
"""How a message class declares its fields.

A declaration reads like a typed attribute with a default, which is all that users of the class see:

    class PartitionProduceResponse(Struct):
        index: int = int32()
        log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
        error_message: str | None = string("8+", nullable=True, default=None)
        current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "10+", tag=0)
        replicas: list[int] = array(int32)

Each function returns a `Field`, the facts that the codec compiler needs; the class keeps those
apart and makes slots of the attributes. The first argument says in which versions the field exists:
`"3+"`, `"0-12"`, `"0"`; left out, it is always there. The other facts are

- `default`: what an instance has unless told, and what a reader sets where a version lacks it;
- `nullable`: True, or the versions in which None may be sent;
- `ignorable`: a version that lacks the field may drop it silently; without this it cannot be sent
  there unless it holds its default;
- `tag`: the field travels in the tagged section, and only when it is away from its default.

Nothing is parsed here, so that importing a module of declarations stays cheap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload

from barnabas.wire.uuids import ZERO

T = TypeVar("T")

Records = Any
"""Record batches: a memoryview when read; when written, anything with a length (bytes, a
memoryview, a range of a file) that the connection knows how to send."""

Nullable = str | Literal[True]


class _NewDefault:
    """Stands for a default that every instance must have for itself."""

    def __repr__(self) -> str:
        return "NEW"


NEW: Any = _NewDefault()


class Field:
    """The facts of one field. `kind` is a scalar's name, `struct` or `array`."""

    __slots__ = (
        "compact",
        "default",
        "element",
        "ignorable",
        "kind",
        "name",
        "nullable",
        "struct",
        "tag",
        "versions",
    )

    def __init__(
        self,
        kind: str,
        versions: str,
        default: Any,
        tag: int | None,
        ignorable: bool,
        *,
        nullable: str | bool = False,
        struct: Any = None,
        element: str | None = None,
        compact: bool = True,
    ) -> None:
        self.name = ""
        self.kind = kind
        self.versions = versions
        self.default = default
        self.tag = tag
        self.ignorable = ignorable
        self.nullable = nullable
        self.struct = struct
        self.element = element
        self.compact = compact

    def new_default(self) -> Any:
        """The default as a value of its own."""
        if self.default is not NEW:
            return self.default
        return [] if self.kind == "array" else self.struct()

    def __repr__(self) -> str:
        return f"Field({self.name!r}, {self.kind}, {self.versions!r})"


def boolean(
    versions: str = "0+", *, default: bool = False, tag: int | None = None, ignorable: bool = False
) -> bool:
    return _scalar("boolean", versions, default, tag, ignorable)


def int8(
    versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False
) -> int:
    return _scalar("int8", versions, default, tag, ignorable)


def int16(
    versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False
) -> int:
    return _scalar("int16", versions, default, tag, ignorable)


def uint16(
    versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False
) -> int:
    return _scalar("uint16", versions, default, tag, ignorable)


def int32(
    versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False
) -> int:
    return _scalar("int32", versions, default, tag, ignorable)


def int64(
    versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False
) -> int:
    return _scalar("int64", versions, default, tag, ignorable)


def float64(
    versions: str = "0+", *, default: float = 0.0, tag: int | None = None, ignorable: bool = False
) -> float:
    return _scalar("float64", versions, default, tag, ignorable)


def uuid(
    versions: str = "0+", *, default: bytes = ZERO, tag: int | None = None, ignorable: bool = False
) -> bytes:
    """16 raw bytes; see `barnabas.wire.uuids`."""
    return _scalar("uuid", versions, default, tag, ignorable)


@overload
def string(
    versions: str = "0+", *, default: str = "", tag: int | None = None, ignorable: bool = False
) -> str: ...
@overload
def string(
    versions: str = "0+",
    *,
    nullable: Nullable,
    default: str | None = "",
    tag: int | None = None,
    ignorable: bool = False,
    compact: bool = True,
) -> str | None: ...
def string(
    versions: str = "0+",
    *,
    nullable: str | bool = False,
    default: str | None = "",
    tag: int | None = None,
    ignorable: bool = False,
    compact: bool = True,
) -> Any:
    """UTF-8 text. `compact=False` keeps the two-byte length even in flexible versions."""
    return Field("string", versions, default, tag, ignorable, nullable=nullable, compact=compact)


@overload
def binary(
    versions: str = "0+", *, default: bytes = b"", tag: int | None = None, ignorable: bool = False
) -> bytes: ...
@overload
def binary(
    versions: str = "0+",
    *,
    nullable: Nullable,
    default: bytes | None = b"",
    tag: int | None = None,
    ignorable: bool = False,
) -> bytes | None: ...
def binary(
    versions: str = "0+",
    *,
    nullable: str | bool = False,
    default: bytes | None = b"",
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Opaque bytes, copied out of the frame."""
    return Field("binary", versions, default, tag, ignorable, nullable=nullable)


def record_batches(versions: str = "0+", *, nullable: str | bool = False) -> Records:
    """Record batches, never copied: a view of the frame when read, passed on as they are when
    written."""
    return Field("records", versions, None if nullable else b"", None, False, nullable=nullable)


@overload
def struct(
    cls: type[T], versions: str = "0+", *, tag: int | None = None, ignorable: bool = False
) -> T: ...
@overload
def struct(
    cls: type[T],
    versions: str = "0+",
    *,
    nullable: Nullable,
    default: None,
    tag: int | None = None,
    ignorable: bool = False,
) -> T | None: ...
def struct(
    cls: type[Any],
    versions: str = "0+",
    *,
    nullable: str | bool = False,
    default: Any = NEW,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """One nested struct."""
    return Field("struct", versions, default, tag, ignorable, nullable=nullable, struct=cls)


@overload
def array(
    element: Callable[..., T],
    versions: str = "0+",
    *,
    tag: int | None = None,
    ignorable: bool = False,
) -> list[T]: ...
@overload
def array(
    element: Callable[..., T],
    versions: str = "0+",
    *,
    nullable: Nullable,
    default: None = ...,
    tag: int | None = None,
    ignorable: bool = False,
) -> list[T] | None: ...
def array(
    element: Callable[..., Any],
    versions: str = "0+",
    *,
    nullable: str | bool = False,
    default: Any = NEW,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """A list of structs (`array(TopicProduceData)`) or of scalars (`array(int32)`)."""
    if isinstance(element, type):
        kind, of = "struct", element
    else:
        kind, of = element.__name__, None
    return Field(
        "array", versions, default, tag, ignorable, nullable=nullable, struct=of, element=kind
    )


def _scalar(kind: str, versions: str, default: Any, tag: int | None, ignorable: bool) -> Any:
    return Field(kind, versions, default, tag, ignorable)
