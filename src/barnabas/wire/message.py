"""The base classes of everything that travels: `Struct`, and `Message`, a struct that stands alone.

A class states its fields with the functions of `barnabas.wire.fields`. The metaclass takes those
out of the namespace, turns the attributes into slots and remembers the facts in `FIELDS`;
constructor, equality and repr follow from them. The constructor is generated when the first
instance is made, so that importing declarations does no work.

Messages are version-independent: one class serves every version, and what a version lacks is at its
default after reading. They are mutable and therefore not hashable.
"""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

from barnabas.wire.fields import NEW, Field

if TYPE_CHECKING:
    from barnabas.wire.api_keys import ApiKey

VersionRange = tuple[int, int]

_LONGEST_SHOWN_BYTES = 32


class _Abbreviated(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 8
        self.maxlist = self.maxtuple = 8
        self.maxstring = self.maxother = 80

    def repr_bytes(self, value: bytes, level: int) -> str:
        return repr(value) if len(value) <= _LONGEST_SHOWN_BYTES else f"<{len(value)} bytes>"

    def repr_memoryview(self, value: memoryview, level: int) -> str:
        return f"<{len(value)} bytes>"

    def repr_instance(self, value: Any, level: int) -> str:
        return value._repr(level) if isinstance(value, Struct) else repr(value)


_ABBREVIATED = _Abbreviated()


@dataclass_transform(kw_only_default=True)
class StructType(type):
    """Makes slots of the declared fields."""

    FIELDS: tuple[Field, ...]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> StructType:
        fields = [(key, value) for key, value in namespace.items() if isinstance(value, Field)]
        for key, field in fields:
            field.name = key
            del namespace[key]
        namespace["__slots__"] = tuple(key for key, _ in fields)
        namespace["FIELDS"] = tuple(field for _, field in fields)
        return super().__new__(mcs, name, bases, namespace)


class Struct(metaclass=StructType):
    """A group of fields: part of a message."""

    FIELDS: ClassVar[tuple[Field, ...]]

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            cls = type(self)
            cls.__init__ = _generate_constructor(cls)
            self.__init__(**values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return self._repr(_ABBREVIATED.maxlevel)

    def _repr(self, level: int) -> str:
        if level <= 0:
            return f"{type(self).__name__}(...)"
        shown = []
        for field in self.FIELDS:
            value = getattr(self, field.name, NEW)
            if value is not NEW and value != field.new_default():
                shown.append(f"{field.name}={_ABBREVIATED.repr1(value, level - 1)}")
        return f"{type(self).__name__}({', '.join(shown)})"


class Message(Struct):
    """A struct that is encoded by itself: a request, a response, a record or a file's content.

    `VERSIONS` and `FLEXIBLE` are inclusive pairs; `FLEXIBLE` is None where no version is flexible.
    Requests and responses have an `API_KEY`, records a `RECORD_TYPE`.
    """

    API_KEY: ClassVar[ApiKey]
    RECORD_TYPE: ClassVar[int]
    VERSIONS: ClassVar[VersionRange]
    FLEXIBLE: ClassVar[VersionRange | None]


def _generate_constructor(cls: type[Struct]) -> Any:
    """Nested structs that nobody gave are built in place, without a call of their constructor."""
    parameters, lines = [], []
    scope: dict[str, Any] = {"NEW": NEW}
    for field in cls.FIELDS:
        name = field.name
        scope[f"default_{name}"] = field.default
        parameters.append(f"{name}=default_{name}")
        if field.default is NEW:
            lines.append(f" if {name} is NEW:")
            lines.extend("  " + line for line in _build_default(field, f"self.{name}", scope))
            lines.append(f" else: self.{name} = {name}")
        else:
            lines.append(f" self.{name} = {name}")
    head = (
        f"def __init__(self, *, {', '.join(parameters)}):" if parameters else "def __init__(self):"
    )
    exec("\n".join([head, *lines, " return None"]), scope)
    constructor = scope["__init__"]
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    return constructor


def _build_default(field: Field, target: str, scope: dict[str, Any]) -> list[str]:
    """The lines that set `target` to a field's default."""
    if field.default is not NEW:
        constant = f"constant_{len(scope)}"
        scope[constant] = field.default
        return [f"{target} = {constant}"]
    if field.kind == "array":
        return [f"{target} = []"]
    made = f"made_{len(scope)}"
    scope[f"class_{made}"], scope[f"new_{made}"] = field.struct, field.struct.__new__
    lines = [f"{target} = {made} = new_{made}(class_{made})"]
    for inner in field.struct.FIELDS:
        lines.extend(_build_default(inner, f"{made}.{inner.name}", scope))
    return lines
