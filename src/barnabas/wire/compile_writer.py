"""Makes the function that writes one message class in one version.

As with readers, structs and arrays are written out in place and neighbouring fields of fixed width
are one `pack`. Bytes gather in a bytearray; a records field hands on what was gathered, then the
very object it holds, so that record bytes are never copied and a range of a file can be sent from
the file.

A field that the version lacks must be at its default unless it is ignorable; a tagged field travels
only when it is away from its default. What cannot be expressed is an `EncodeError` that names the
message, the version and the field.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from barnabas.wire.fields import NEW, Field
from barnabas.wire.layout import FORMATS, LONGEST_STRING, Layout, element_field, literal
from barnabas.wire.message import Message, Struct
from barnabas.wire.primitives import EncodeError, unsigned_varint

Writer = Callable[[Any, list[Any]], None]

_SHORT_ARRAY = 16
"""Arrays of numbers up to this length have a packer of their own."""


def compile_writer(cls: type[Message], version: int) -> Writer:
    source = _Source(Layout(cls, version))
    source.line("def write(m, chunks):")
    source.line(" try:")
    source.depth = 2
    source.line("out = bytearray()")
    source.write_struct(cls, "m")
    source.flush()
    source.line("if out: chunks.append(out)")
    source.depth = 1
    source.line("except (StructError, AttributeError, TypeError, UnicodeEncodeError) as error:")
    source.line(" raise explained(m, error) from error")
    exec(
        compile("\n".join(source.lines), f"<writer of {source.layout.label}>", "exec"), source.scope
    )
    write: Writer = source.scope["write"]
    return write


class _Source:
    """The lines of a writer under construction."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.lines: list[str] = []
        self.depth = 0
        self._out = "out"
        self._serial = 0
        self._pending: list[tuple[str, str]] = []
        self.scope: dict[str, Any] = {
            "StructError": struct.error,
            "varint": unsigned_varint,
            **_failures(layout),
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
        if len(pending) == 1 and pending[0][0] == "B":
            self.line(f"{self._out}.append({pending[0][1]})")
            return
        pack = struct.Struct(">" + "".join(code for code, _ in pending)).pack
        values = ", ".join(value for _, value in pending)
        self.line(f"{self._out} += {self.constant('pack', pack)}({values})")

    def write_struct(self, cls: type[Struct], source: str) -> None:
        layout = self.layout
        for field in layout.absent(cls):
            if not field.ignorable:
                value = f"{source}.{field.name}"
                self.line(f"if {self._away(field, value)}: raise lacking({field.name!r})")
        for field in layout.plain(cls):
            self.write_field(field, f"{source}.{field.name}")
        if layout.flexible:
            self._write_tags(layout.tagged(cls), source)

    def write_field(self, field: Field, value: str) -> None:
        kind = field.kind
        if kind == "uuid":
            self.line(f"if len({value}) != 16: raise bad_uuid({field.name!r})")
            self._pending.append(("16s", value))
        elif kind in FORMATS:
            self._pending.append((FORMATS[kind][0], value))
        elif kind == "struct":
            self._write_struct_field(field, value)
        elif kind == "array":
            self._write_array(field, value)
        elif kind == "records":
            self._write_records(field, value)
        else:
            self._write_bytes(field, value)

    def _away(self, field: Field, value: str) -> str:
        """The condition that a field does not hold its default."""
        default = field.default
        if default is None:
            return f"{value} is not None"
        if default is NEW and field.kind == "array":
            return f"({value} is None or len({value}))" if field.nullable else value
        if default is NEW:
            inner = field.struct
            if not field.nullable and all(f.kind in FORMATS for f in inner.FIELDS):
                return " or ".join(self._away(f, f"{value}.{f.name}") for f in inner.FIELDS)
            return f"{value} != {self.constant('default', inner())}"
        return f"{value} != {literal(default) or self.constant('default', default)}"

    def _write_length(self, field: Field, code: str, length: str, null_if: str | None) -> None:
        """Writes a length or a count; where `null_if` holds, the one that means None."""
        if self.layout.compact(field):
            one_more = self.name("n")
            null = f"0 if {null_if} else " if null_if else ""
            self.flush()
            self.line(f"{one_more} = {null}{length} + 1")
            self.line(f"if {one_more} < 128: {self._out}.append({one_more})")
            if code == "h":
                too_long = f"raise too_long({field.name!r}, {one_more} - 1)"
                self.line(f"elif {one_more} > {LONGEST_STRING + 1}: {too_long}")
            self.line(f"else: {self._out} += varint({one_more})")
        else:
            null = f"-1 if {null_if} else " if null_if else ""
            self._pending.append((code, f"{null}{length}"))
            self.flush()

    def _write_bytes(self, field: Field, value: str) -> None:
        held, code = self.name("s"), "h" if field.kind == "string" else "i"
        encode = ".encode()" if field.kind == "string" else ""
        if not self.layout.nullable(field):
            self.line(f"{held} = {value}{encode}")
            self._write_length(field, code, f"len({held})", None)
            self.line(f"{self._out} += {held}")
            return
        self.line(f"{held} = {value}")
        if encode:
            self.line(f"if {held} is not None: {held} = {held}{encode}")
        self._write_length(field, code, f"len({held})", f"{held} is None")
        self.line(f"if {held} is not None: {self._out} += {held}")

    def _write_records(self, field: Field, value: str) -> None:
        assert self._out == "out"
        held = self.name("r")
        self.line(f"{held} = {value}")
        null_if = f"{held} is None" if self.layout.nullable(field) else None
        self._write_length(field, "i", f"len({held})", null_if)
        self.line(f"if {held}:" if null_if is None else f"if {held} is not None and len({held}):")
        self.line(" chunks.append(out)")
        self.line(f" chunks.append({held})")
        self.line(" out = bytearray()")

    def _write_struct_field(self, field: Field, value: str) -> None:
        held = self.name("m")
        self.line(f"{held} = {value}")
        if not self.layout.nullable(field):
            self.write_struct(field.struct, held)
            return
        self.flush()
        null = 255 if field.tag is None else 0
        self.line(f"if {held} is None: {self._out}.append({null})")
        self.line("else:")
        self.depth += 1
        self._pending.append(("b", "1"))
        self.write_struct(field.struct, held)
        self.flush()
        self.depth -= 1

    def _write_array(self, field: Field, value: str) -> None:
        held, nullable = self.name("a"), self.layout.nullable(field)
        element = element_field(field)
        self.line(f"{held} = {value}")
        if element.kind in FORMATS and element.kind != "uuid":
            self._write_numbers(field, element, held, nullable)
            return
        self._write_length(field, "i", f"len({held})", f"{held} is None" if nullable else None)
        item = self.name("v")
        self.line(f"for {item} in {held} or ():" if nullable else f"for {item} in {held}:")
        self.depth += 1
        if element.kind == "struct":
            self.write_struct(element.struct, item)
        else:
            self.write_field(element, item)
        self.flush()
        if self.lines[-1].endswith(":"):
            self.line("pass")
        self.depth -= 1

    def _write_numbers(self, field: Field, element: Field, held: str, nullable: bool) -> None:
        """An array of numbers is one `pack` together with its count."""
        code, compact = FORMATS[element.kind][0], self.layout.compact(field)
        short = self.constant("short", _packers(code, "B" if compact else "i"))
        self.scope["pack_many"] = struct.pack
        count = self.name("n")
        self.flush()
        if nullable:
            null = "b'\\0'" if compact else "b'\\xff\\xff\\xff\\xff'"
            self.line(f"if {held} is None: {self._out} += {null}")
            self.line("else:")
            self.depth += 1
        self.line(f"{count} = len({held})")
        shown = f"{count} + 1" if compact else count
        self.line(
            f"if {count} <= {_SHORT_ARRAY}: {self._out} += {short}[{count}]({shown}, *{held})"
        )
        many = f"pack_many(f'>{{{count}}}{code}', *{held})"
        first = f"varint({shown})" if compact else f"pack_many('>i', {count})"
        self.line(f"else: {self._out} += {first} + {many}")
        self.depth -= nullable

    def _write_tags(self, tagged: list[tuple[int, Field]], source: str) -> None:
        if not tagged:
            self._pending.append(("B", "0"))
            return
        held = []
        for number, field in tagged:
            value, away = self.name("x"), self.name("c")
            self.line(f"{value} = {source}.{field.name}")
            self.line(f"{away} = 1 if {self._away(field, value)} else 0")
            held.append((number, field, value, away))
        total = " + ".join(away for _, _, _, away in held)
        count = self.name("t")
        self.line(f"{count} = {total}")
        self._pending.append(("B", count))
        self.flush()
        self.line(f"if {count}:")
        self.depth += 1
        for number, field, value, away in held:
            self._write_tag(number, field, value, away)
        self.depth -= 1

    def _write_tag(self, number: int, field: Field, value: str, away: str) -> None:
        outer, inner = self._out, self.name("out")
        self.line(f"if {away}:")
        self.depth += 1
        self.line(f"{inner} = bytearray()")
        self._out = inner
        self.write_field(field, value)
        self.flush()
        self._out = outer
        tag = self.constant("tag", unsigned_varint(number))
        self.line(f"{outer} += {tag} + varint(len({inner}))")
        self.line(f"{outer} += {inner}")
        self.depth -= 1


def _packers(code: str, count_code: str) -> tuple[Any, ...]:
    return tuple(struct.Struct(f">{count_code}{n}{code}").pack for n in range(_SHORT_ARRAY + 1))


def _failures(layout: Layout) -> dict[str, Any]:
    """What a writer raises, with the message's name in front."""
    label = layout.label

    def lacking(field: str) -> EncodeError:
        return EncodeError(f"{label} has no {field}, and it is away from its default")

    def too_long(field: str, length: int) -> EncodeError:
        return EncodeError(f"{label}: {field} has {length} bytes, more than {LONGEST_STRING}")

    def bad_uuid(field: str) -> EncodeError:
        return EncodeError(f"{label}: {field} is not 16 bytes")

    def explained(message: Any, error: Exception) -> EncodeError:
        culprit = _culprit(layout, message) if isinstance(message, Struct) else None
        return EncodeError(f"{label}: {culprit or 'it'} cannot be written: {error}")

    return {"lacking": lacking, "too_long": too_long, "bad_uuid": bad_uuid, "explained": explained}


def _culprit(layout: Layout, message: Struct) -> str | None:
    """The path of the first field that holds what it cannot."""
    fields = layout.plain(type(message)) + [field for _, field in layout.tagged(type(message))]
    for field in fields:
        value = getattr(message, field.name, NEW)
        nullable = layout.nullable(field)
        if field.kind == "array" and isinstance(value, (list, tuple)):
            element = element_field(field)
            for index, item in enumerate(value):
                found = _culprit_value(layout, element, item, False)
                if found is not None:
                    return f"{field.name}[{index}]{found}"
        elif field.kind == "array":
            if value is not None or not nullable:
                return field.name
        else:
            found = _culprit_value(layout, field, value, nullable)
            if found is not None:
                return field.name + found
    return None


def _culprit_value(layout: Layout, field: Field, value: Any, nullable: bool) -> str | None:
    """None if the value is good, else the rest of the path to the fault."""
    if value is None:
        return None if nullable else ""
    kind = field.kind
    if kind == "struct":
        if not isinstance(value, field.struct):
            return ""
        found = _culprit(layout, value)
        return None if found is None else "." + found
    try:
        if kind in FORMATS:
            struct.pack(">" + FORMATS[kind][0], value)
        elif kind == "string":
            if len(value.encode()) > LONGEST_STRING:
                return ""
        elif kind == "binary":
            bytearray().extend(memoryview(value))
        else:
            len(value)
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError):
        return ""
    return None
