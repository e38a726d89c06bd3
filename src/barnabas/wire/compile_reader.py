"""Makes the function that reads one message class in one version.

The function is straight-line Python: structs and loops over arrays are written out in place, and
neighbouring fields of fixed width, with the length that follows them, are one `unpack_from`. A
version is known when the source is made, so no version is ever looked at while bytes are read.

What keeps foreign bytes harmless: a length is compared with what is left of the frame before
anything is sliced, and a count with what is left divided by the smallest element, before anything
is built. A request may hold `MOST_ELEMENTS` array elements and tags in all, since two bytes of an
array can become an object of a hundred. Fields of fixed width are checked late, because reading
them costs nothing: an offset past the end fails at the next length, the next count or at the end of
the message. Whatever goes wrong is a `DecodeError`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from barnabas.wire.fields import NEW, Field
from barnabas.wire.layout import FORMATS, LONGEST_STRING, Layout, element_field, literal
from barnabas.wire.message import Message, Struct
from barnabas.wire.primitives import Buffer, DecodeError, read_varint_rest

Reader = Callable[[Buffer, int, int], tuple[Any, int]]

MOST_ELEMENTS = 250_000
"""Elements and tags in one request, all arrays together; numbers are not counted. It bounds the time
and memory that a frame can cost, and is far above what the largest clusters ask for at once."""

_SHORT_ARRAY = 16
"""Arrays of numbers up to this length have an unpacker of their own."""


def compile_reader(cls: type[Message], version: int) -> Reader:
    source = _Source(Layout(cls, version))
    source.line("def read(buffer, p, end):")
    source.line(" try:")
    source.depth = 2
    if _has_records(cls):
        source.line("view = buffer if buffer.__class__ is View else View(buffer)")
    if cls.__name__.endswith("Request"):
        source.counted = True
        source.line(f"room = {MOST_ELEMENTS}")
    target = source.read_struct(cls)
    source.flush()
    source.line("if p > end: raise short()")
    source.line(f"return {target}, p")
    source.depth = 1
    source.line("except (IndexError, StructError, UnicodeDecodeError) as error:")
    source.line(" raise translated(error) from None")
    exec(
        compile("\n".join(source.lines), f"<reader of {source.layout.label}>", "exec"), source.scope
    )
    read: Reader = source.scope["read"]
    return read


class _Source:
    """The lines of a reader under construction."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.lines: list[str] = []
        self.depth = 0
        self.counted = False
        self._serial = 0
        self._pending: list[tuple[str, int, str]] = []
        self.scope: dict[str, Any] = {
            "View": memoryview,
            "StructError": struct.error,
            "rest": read_varint_rest,
            **_failures(layout.label),
        }

    def line(self, text: str) -> None:
        self.lines.append(" " * self.depth + text)

    def name(self, stem: str) -> str:
        self._serial += 1
        return f"{stem}{self._serial}"

    def constant(self, stem: str, value: Any) -> str:
        name = self.name(stem)
        self.scope[name] = value
        return name

    def flush(self) -> None:
        """Write out the fixed fields that have been gathered."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        size = sum(size for _, size, _ in pending)
        if len(pending) == 1 and pending[0][0] == "B":
            self.line(f"{pending[0][2]} = buffer[p]")
        else:
            unpack = struct.Struct(">" + "".join(code for code, _, _ in pending)).unpack_from
            targets = ", ".join(target for _, _, target in pending)
            self.line(f"{targets}, = {self.constant('unpack', unpack)}(buffer, p)")
        self.line(f"p += {size}")

    def read_struct(self, cls: type[Struct]) -> str:
        target = self.name("m")
        self.line(f"{target} = {self.constant('new', cls.__new__)}({self.constant('C', cls)})")
        for field in self.layout.plain(cls):
            self.read_field(field, f"{target}.{field.name}")
        if self.layout.flexible:
            count = self.name("t")
            self._pending.append(("B", 1, count))
            self.flush()
            tagged = self.layout.tagged(cls)
            for _, field in tagged:
                self.set_default(field, f"{target}.{field.name}")
            self._read_tags(tagged, count, target)
        for field in self.layout.absent(cls):
            self.set_default(field, f"{target}.{field.name}")
        return target

    def read_field(self, field: Field, target: str) -> None:
        kind = field.kind
        if kind in FORMATS:
            code, size = FORMATS[kind]
            self._pending.append((code, size, target))
        elif kind == "struct":
            self._read_struct_field(field, target)
        elif kind == "array":
            self._read_array(field, target)
        else:
            self._read_bytes(field, target)

    def set_default(self, field: Field, target: str) -> None:
        default = field.default
        if default is not NEW:
            self.line(f"{target} = {literal(default) or self.constant('default', default)}")
        elif field.kind == "array":
            self.line(f"{target} = []")
        else:
            self.line(f"{target} = {self.new_default(field.struct)}")

    def new_default(self, cls: type[Struct]) -> str:
        made = self.name("d")
        self.line(f"{made} = {self.constant('new', cls.__new__)}({self.constant('C', cls)})")
        for field in cls.FIELDS:
            self.set_default(field, f"{made}.{field.name}")
        return made

    def _read_length(self, field: Field, code: str, size: int) -> str:
        """Reads a length or a count; None is -1 afterwards, in either encoding."""
        length = self.name("n")
        if self.layout.compact(field):
            self._pending.append(("B", 1, length))
            self.flush()
            self.line(f"if {length} > 127: {length}, p = rest(buffer, p, {length})")
            self.line(f"{length} -= 1")
        else:
            self._pending.append((code, size, length))
            self.flush()
        return length

    def _read_bytes(self, field: Field, target: str) -> None:
        code, size = ("h", 2) if field.kind == "string" else ("i", 4)
        length = self._read_length(field, code, size)
        slicing = {
            "string": 'str(buffer[p:q], "utf-8")',
            "binary": "bytes(buffer[p:q])",
            "records": "view[p:q]",
        }[field.kind]
        nullable = self.layout.nullable(field)
        if nullable:
            self.line(f"if {length} == -1:")
            self.line(f" {target} = None")
            self.line("else:")
            self.depth += 1
        self.line(f"q = p + {length}")
        bounds = "not p <= q <= end"
        if code == "h" and self.layout.compact(field):
            bounds += f" or {length} > {LONGEST_STRING}"
        self.line(f"if {bounds}: raise bad_length({field.name!r}, {length}, end - p)")
        self.line(f"{target} = {slicing}")
        self.line("p = q")
        self.depth -= nullable

    def _read_struct_field(self, field: Field, target: str) -> None:
        if not self.layout.nullable(field):
            self.line(f"{target} = {self.read_struct(field.struct)}")
            return
        present = self.name("n")
        self._pending.append(("b", 1, present))
        self.flush()
        self.line(f"if {present} {'<' if field.tag is None else '<='} 0:")
        self.line(f" {target} = None")
        self.line("else:")
        self.depth += 1
        self.line(f"{target} = {self.read_struct(field.struct)}")
        self.flush()
        self.depth -= 1

    def _read_array(self, field: Field, target: str) -> None:
        count = self._read_length(field, "i", 4)
        nullable = self.layout.nullable(field)
        if nullable:
            self.line(f"if {count} == -1:")
            self.line(f" {target} = None")
            self.line("else:")
            self.depth += 1
        least = self.layout.least_bytes_of_element(field)
        most = f"(end - p) // {least}" if least > 1 else "end - p"
        self.line(
            f"if not 0 <= {count} <= {most}: raise bad_count({field.name!r}, {count}, end - p)"
        )
        element = element_field(field)
        if element.kind in FORMATS and element.kind != "uuid":
            self._read_numbers(element, count, target)
        else:
            self._count(field.name, count)
            self._read_elements(element, count, target)
        self.depth -= nullable

    def _read_numbers(self, element: Field, count: str, target: str) -> None:
        code, size = FORMATS[element.kind]
        short = self.constant("short", _unpackers(code))
        self.line(
            f"{target} = list({short}[{count}](buffer, p) if {count} <= {_SHORT_ARRAY}"
            f" else unpack_many(f'>{{{count}}}{code}', buffer, p))"
        )
        self.scope["unpack_many"] = struct.unpack_from
        self.line(f"p += {count} * {size}" if size > 1 else f"p += {count}")

    def _count(self, field_name: str, count: str) -> None:
        if self.counted:
            self.line(f"room -= {count}")
            self.line(f"if room < 0: raise too_many({field_name!r})")

    def _read_elements(self, element: Field, count: str, target: str) -> None:
        items = self.name("a")
        self.line(f"{items} = []")
        self.line(f"for _ in range({count}):")
        self.depth += 1
        if element.kind == "struct":
            made = self.read_struct(element.struct)
        else:
            made = self.name("v")
            self.read_field(element, made)
        self.flush()
        self.line(f"{items}.append({made})")
        self.depth -= 1
        self.line(f"{target} = {items}")

    def _read_tags(self, tagged: list[tuple[int, Field]], count: str, target: str) -> None:
        """Known tags are read, unknown ones passed over; tags must rise."""
        tag, last, size, stop = (self.name(stem) for stem in ("g", "l", "s", "e"))
        self.line(f"if {count}:")
        self.depth += 1
        self.line(f"if {count} > 127: {count}, p = rest(buffer, p, {count})")
        self.line(f"if {count} > (end - p) // 2: raise bad_count('tags', {count}, end - p)")
        self._count("tags", count)
        self.line(f"{last} = -1")
        self.line(f"for _ in range({count}):")
        self.depth += 1
        for value in (tag, size):
            self.line(f"{value} = buffer[p]")
            self.line("p += 1")
            self.line(f"if {value} > 127: {value}, p = rest(buffer, p, {value})")
        self.line(f"if {tag} <= {last}: raise bad_tag({tag}, {last})")
        self.line(f"{last} = {tag}")
        self.line(f"{stop} = p + {size}")
        self.line(f"if {stop} > end: raise bad_length(f'tag {{{tag}}}', {size}, end - p)")
        branch = "if"
        for number, field in tagged:
            self.line(f"{branch} {tag} == {number}:")
            branch = "elif"
            self.depth += 1
            self.read_field(field, f"{target}.{field.name}")
            self.flush()
            self.line(f"if p != {stop}: raise bad_size({field.name!r}, {size}, p - {stop})")
            self.depth -= 1
        if tagged:
            self.line("else:")
            self.line(f" p = {stop}")
        else:
            self.line(f"p = {stop}")
        self.depth -= 2


def _unpackers(code: str) -> tuple[Any, ...]:
    return tuple(struct.Struct(f">{count}{code}").unpack_from for count in range(_SHORT_ARRAY + 1))


def _has_records(cls: type[Struct]) -> bool:
    return any(
        field.kind == "records" or (field.struct is not None and _has_records(field.struct))
        for field in cls.FIELDS
    )


def _failures(label: str) -> dict[str, Any]:
    """What a reader raises, with the message's name in front."""

    def bad_length(field: str, length: int, left: int) -> DecodeError:
        if length == -1:
            return DecodeError(f"{label}: {field} may not be null")
        return DecodeError(f"{label}: {field} has a length of {length} where {left} bytes are left")

    def bad_count(field: str, count: int, left: int) -> DecodeError:
        if count == -1:
            return DecodeError(f"{label}: {field} may not be null")
        return DecodeError(f"{label}: {field} has a count of {count} where {left} bytes are left")

    def too_many(field: str) -> DecodeError:
        return DecodeError(f"{label}: {field} goes beyond {MOST_ELEMENTS} elements in all")

    def bad_tag(tag: int, last: int) -> DecodeError:
        return DecodeError(f"{label}: tag {tag} follows tag {last}")

    def bad_size(field: str, size: int, excess: int) -> DecodeError:
        return DecodeError(f"{label}: {field} takes {size + excess} bytes of its {size}")

    def short() -> DecodeError:
        return DecodeError(f"{label}: the bytes end within it")

    def translated(error: Exception) -> DecodeError:
        if isinstance(error, UnicodeDecodeError):
            return DecodeError(f"{label}: text is not UTF-8")
        return short()

    return {
        "bad_length": bad_length,
        "bad_count": bad_count,
        "bad_tag": bad_tag,
        "too_many": too_many,
        "bad_size": bad_size,
        "short": short,
        "translated": translated,
    }
