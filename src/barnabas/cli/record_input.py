"""How `produce` cuts its input into records.

Three forms: lines (with an optional separator between key and value), JSON objects one a line, and a
template such as `%k,%v\\n` in which each field runs up to the text that follows it. Input is read as
it comes, so a pipe that stays open delivers at once.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from barnabas.cli.record_format import unescape

MAX_RECORD_BYTES = 1 << 26
FIELDS = "tpkvsTh"


class Incoming(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None
    topic: str | None = None


def read_lines(stream: BinaryIO, delimiter: bytes = b"\n") -> Iterator[bytes]:
    """Pieces between delimiters; a last piece without one counts as well."""
    if delimiter == b"\n":
        for line in stream:
            yield line[:-1] if line.endswith(b"\n") else line
        return
    buffer = bytearray()
    read = getattr(stream, "read1", stream.read)
    while True:
        chunk = read(65_536)
        if not chunk:
            if buffer:
                yield bytes(buffer)
            return
        buffer += chunk
        *whole, rest = bytes(buffer).split(delimiter)
        yield from whole
        buffer = bytearray(rest)
        if len(buffer) > MAX_RECORD_BYTES:
            raise ValueError(f"a record of more than {MAX_RECORD_BYTES} bytes")


def read_keyed(
    stream: BinaryIO,
    delimiter: bytes,
    key_separator: bytes | None,
    null: bytes | None,
) -> Iterator[Incoming]:
    for piece in read_lines(stream, delimiter):
        key: bytes | None = None
        value: bytes | None = piece
        if key_separator is not None:
            first, found, rest = piece.partition(key_separator)
            if found:
                key, value = first, rest
        if null is not None:
            key = None if key == null else key
            value = None if value == null else value
        yield Incoming(value, key)


def read_json(stream: BinaryIO) -> Iterator[Incoming]:
    """Objects as `consume --format json` prints them."""
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except ValueError as error:
            raise ValueError(f"line {number} is not JSON: {error}") from None
        if not isinstance(found, dict) or "value" not in found:
            raise ValueError(f'line {number} is not an object with a "value"')
        headers = found.get("headers") or ()
        if isinstance(headers, dict):
            headers = [{"key": k, "value": v} for k, v in headers.items()]
        yield Incoming(
            _from_json(found["value"]),
            _from_json(found.get("key")),
            tuple((h["key"], _from_json(h.get("value"))) for h in headers),
        )


def _from_json(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and set(value) == {"base64"}:
        return base64.b64decode(value["base64"])
    return json.dumps(value, ensure_ascii=False).encode()


def compile_template(template: str) -> list[tuple[str, bytes]]:
    """Fields with the text that ends each; the text must not be empty."""
    steps: list[tuple[str, bytes]] = []
    for piece in template.split("%")[1:]:
        if not piece or piece[0] not in FIELDS:
            raise ValueError(f"%{piece[:1]} is not known here; use %k %v %p %T %t")
        end = unescape(piece[1:])
        if not end:
            raise ValueError(
                f"text must follow %{piece[0]}, for example a \\n, to show where it ends"
            )
        steps.append((piece[0], end))
    if not steps or template[0] != "%" or not any(f in "vs" for f, _ in steps):
        raise ValueError("an input template begins with a field and contains %v")
    return steps


def read_template(stream: BinaryIO, steps: list[tuple[str, bytes]]) -> Iterator[Incoming]:
    """Records by template."""
    buffer = b""
    read = getattr(stream, "read1", stream.read)
    ended = False
    while True:
        found = _match(buffer, steps, ended)
        if found is None:
            if ended:
                if buffer.strip():
                    raise ValueError("the input ends inside a record")
                return
            chunk = read(65_536)
            ended = not chunk
            buffer += chunk
            if len(buffer) > MAX_RECORD_BYTES:
                raise ValueError(f"a record of more than {MAX_RECORD_BYTES} bytes")
            continue
        incoming, buffer = found
        yield incoming


def _match(
    buffer: bytes, steps: list[tuple[str, bytes]], ended: bool
) -> tuple[Incoming, bytes] | None:
    values: dict[str, bytes] = {}
    at = 0
    for index, (field, end) in enumerate(steps):
        stop = buffer.find(end, at)
        if stop < 0:
            if not (ended and index == len(steps) - 1 and at < len(buffer)):
                return None
            stop = len(buffer)
        values[field] = buffer[at:stop]
        at = stop + len(end)
    try:
        partition = int(values["p"]) if "p" in values else None
        timestamp_ms = int(values["T"]) if "T" in values else None
    except ValueError as error:
        raise ValueError(f"not a number in the input: {error}") from None
    incoming = Incoming(
        values.get("v", values.get("s")),
        values.get("k"),
        (),
        partition,
        timestamp_ms,
        values["t"].decode() if "t" in values else None,
    )
    return incoming, buffer[at:]
