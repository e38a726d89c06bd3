"""How coordinators write their records: the frame of keys and values.

A key is an int16 record type and a body that is never flexible; a value is an int16 version and a
body; no value is a tombstone. The numbering is each topic's own, so a `Registry` names the classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct as Format

from barnabas.wire.codec import encode, reader
from barnabas.wire.message import Message
from barnabas.wire.primitives import Buffer, DecodeError

Registry = dict[int, tuple[type[Message], type[Message]]]
"""Record type to the classes of key and value."""

_INT16 = Format(">h")
_KEY_VERSION = 0


def registry(classes: Iterable[tuple[type[Message], type[Message]]]) -> Registry:
    return {key.RECORD_TYPE: (key, value) for key, value in classes}


def encode_key(key: Message) -> bytes:
    return _INT16.pack(key.RECORD_TYPE) + encode(key, _KEY_VERSION)


def encode_value(value: Message | None, version: int | None = None) -> bytes | None:
    """In the highest version unless told; None stays None, a tombstone."""
    if value is None:
        return None
    if version is None:
        version = value.VERSIONS[1]
    return _INT16.pack(version) + encode(value, version)


def decode_record(
    records: Registry, key: Buffer, value: Buffer | None
) -> tuple[Message, Message | None] | None:
    """Key and value as messages; None for a record type that is not known here, as newer nodes may
    write some."""
    record_type = _prefix(key)
    classes = records.get(record_type)
    if classes is None:
        return None
    key_class, value_class = classes
    read_key = _body(key_class, _KEY_VERSION, key)
    if value is None:
        return read_key, None
    return read_key, _body(value_class, _prefix(value), value)


def _prefix(data: Buffer) -> int:
    if len(data) < _INT16.size:
        raise DecodeError("a coordinator record is too short for its type or version")
    number: int = _INT16.unpack_from(data)[0]
    return number


def _body(cls: type[Message], version: int, data: Buffer) -> Message:
    end = len(data)
    message, position = reader(cls, version)(data, _INT16.size, end)
    if position != end:
        raise DecodeError(f"{end - position} bytes follow a {cls.__name__}")
    found: Message = message
    return found
