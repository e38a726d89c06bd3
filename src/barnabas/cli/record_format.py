"""The printf-like templates of `consume -f`, compiled once into a list of small functions.

    %t topic          %p partition      %o offset          %e leader epoch
    %k key            %K key length     %v %s value        %V %S value length
    %T timestamp ms   %d timestamp      %h headers         %H number of headers
    %i count so far   %% a percent      \\n \\t \\r \\0 \\\\ \\xNN escapes

A modifier in braces follows the letter: `%v{hex}`, `%v{base64}`, `%v{json}`, `%k{len}`; for numbers a
width `%o{10}` or `%o{010}` or `%p{hex}`; for `%d` a strftime pattern `%d{%H:%M:%S}`, default ISO
8601; for `%h` a template for one header with %k and %v: `%h{%k=%v }`. A null key or value prints as
nothing, or as what `null` says.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from barnabas.cli.moments import show_moment


class Shown(NamedTuple):
    """A record as a template sees it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    leader_epoch: int = -1
    number: int = 0


Part = Callable[[Shown], bytes]
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\", "a": b"\a"}
_NUMBERS: dict[str, Callable[[Shown], int]] = {
    "p": lambda r: r.partition,
    "o": lambda r: r.offset,
    "e": lambda r: r.leader_epoch,
    "T": lambda r: r.timestamp,
    "K": lambda r: -1 if r.key is None else len(r.key),
    "V": lambda r: -1 if r.value is None else len(r.value),
    "S": lambda r: -1 if r.value is None else len(r.value),
    "H": lambda r: len(r.headers),
    "i": lambda r: r.number,
}
_BYTES: dict[str, Callable[[Shown], bytes | None]] = {
    "k": lambda r: r.key,
    "v": lambda r: r.value,
    "s": lambda r: r.value,
    "t": lambda r: r.topic.encode(),
}
LETTERS = "".join(sorted({*_NUMBERS, *_BYTES, "d", "h", "%"}))


def compile_template(template: str, null: bytes = b"") -> Callable[[Shown], bytes]:
    """A function from a record to the bytes to print; ValueError for a wrong template."""
    parts: list[Part] = []
    literal = bytearray()
    at = 0
    while at < len(template):
        character = template[at]
        if character == "\\":
            text, at = _escape(template, at)
            literal += text
        elif character == "%":
            letter = template[at + 1 : at + 2]
            if letter == "%":
                literal += b"%"
                at += 2
                continue
            modifier, at = _modifier(template, at + 2)
            if literal:
                parts.append(_constant(bytes(literal)))
                literal.clear()
            parts.append(_part(letter, modifier, null))
        else:
            literal += character.encode()
            at += 1
    if literal:
        parts.append(_constant(bytes(literal)))
    if len(parts) == 1:
        return parts[0]
    return lambda record: b"".join([part(record) for part in parts])


def unescape(text: str) -> bytes:
    """A text with backslash escapes as bytes, for delimiters."""
    done = bytearray()
    at = 0
    while at < len(text):
        if text[at] == "\\":
            piece, at = _escape(text, at)
            done += piece
        else:
            done += text[at].encode()
            at += 1
    return bytes(done)


def _escape(template: str, at: int) -> tuple[bytes, int]:
    kind = template[at + 1 : at + 2]
    if kind == "x":
        digits = template[at + 2 : at + 4]
        try:
            return bytes([int(digits, 16)]), at + 4
        except ValueError:
            raise ValueError(f"\\x must be followed by two hex digits, not {digits!r}") from None
    if kind in _ESCAPES:
        return _ESCAPES[kind], at + 2
    raise ValueError(f"\\{kind} is no escape; known are \\n \\t \\r \\0 \\a \\\\ \\xNN")


def _modifier(template: str, at: int) -> tuple[str | None, int]:
    if template[at : at + 1] != "{":
        return None, at
    depth = 0
    for end in range(at, len(template)):
        if template[end] == "{":
            depth += 1
        elif template[end] == "}":
            depth -= 1
            if depth == 0:
                return template[at + 1 : end], end + 1
    raise ValueError(f"a brace is not closed in {template[at:]!r}")


def _constant(text: bytes) -> Part:
    return lambda _record: text


def _part(letter: str, modifier: str | None, null: bytes) -> Part:
    if letter in _NUMBERS:
        return _number_part(letter, _NUMBERS[letter], modifier)
    if letter in _BYTES:
        return _bytes_part(letter, _BYTES[letter], modifier, null)
    if letter == "d":
        return _time_part(modifier)
    if letter == "h":
        return _headers_part(modifier, null)
    shown = f"%{letter}" if letter else "a % at the end"
    raise ValueError(f"{shown} is not known; the letters are {' '.join('%' + c for c in LETTERS)}")


def _number_part(letter: str, get: Callable[[Shown], int], modifier: str | None) -> Part:
    if modifier is None:
        return lambda record: str(get(record)).encode()
    if modifier == "hex":
        return lambda record: f"{get(record):x}".encode()
    if modifier.isdigit():
        return lambda record: format(get(record), modifier).encode()
    raise ValueError(f"%{letter}{{{modifier}}}: a number takes {{hex}} or a width such as {{08}}")


def _bytes_part(
    letter: str, get: Callable[[Shown], bytes | None], modifier: str | None, null: bytes
) -> Part:
    if modifier is None:

        def plain(record: Shown) -> bytes:
            data = get(record)
            return null if data is None else data

        return plain
    if modifier == "len":
        return lambda record: str(-1 if (d := get(record)) is None else len(d)).encode()
    encoders: dict[str, Callable[[bytes], bytes]] = {
        "hex": lambda data: data.hex().encode(),
        "base64": base64.b64encode,
        "json": lambda data: json.dumps(text_or_base64(data), ensure_ascii=False).encode(),
    }
    encode = encoders.get(modifier)
    if encode is None:
        raise ValueError(
            f"%{letter}{{{modifier}}}: bytes take {{hex}}, {{base64}}, {{json}} or {{len}}"
        )

    def encoded(record: Shown) -> bytes:
        data = get(record)
        if data is None:
            return b"null" if modifier == "json" else null
        return encode(data)

    return encoded


def _time_part(modifier: str | None) -> Part:
    if modifier is None or modifier == "iso":
        return lambda record: show_moment(record.timestamp).encode()

    def formatted(record: Shown) -> bytes:
        moment = datetime.fromtimestamp(max(record.timestamp, 0) / 1_000, UTC)
        return moment.strftime(modifier).encode()

    return formatted


def _headers_part(modifier: str | None, null: bytes) -> Part:
    if modifier is None:
        return lambda record: b",".join(
            key.encode() + b"=" + (null if value is None else value)
            for key, value in record.headers
        )
    inner = compile_template(modifier, null)

    def each(record: Shown) -> bytes:
        return b"".join(
            inner(record._replace(key=key.encode(), value=value)) for key, value in record.headers
        )

    return each


def text_or_base64(data: bytes | None) -> Any:
    """UTF-8 text as it is; other bytes as `{"base64": …}`, so that nothing is lost."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def as_data(record: Shown) -> dict[str, Any]:
    """A record as JSON and YAML show it."""
    data: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": text_or_base64(record.key),
        "value": text_or_base64(record.value),
    }
    if record.headers:
        data["headers"] = [
            {"key": key, "value": text_or_base64(value)} for key, value in record.headers
        ]
    return data
