"""Bytes to messages and back.

`reader(cls, version)` and `writer(cls, version)` give the functions of the fast path; they are made
on first use and kept. `decode` and `encode` are the short forms for everything that is not hot.

A reader takes any buffer with the bounds of the frame within it, and leaves records fields as views
of that buffer. A writer appends what it makes to a list, with the objects of records fields
between, ready to be sent one after the other.
"""

from __future__ import annotations

from typing import Any, TypeVar

from barnabas.wire.compile_reader import Reader, compile_reader
from barnabas.wire.compile_writer import Writer, compile_writer
from barnabas.wire.message import Message
from barnabas.wire.primitives import Buffer, DecodeError, EncodeError

__all__ = ["DecodeError", "EncodeError", "Reader", "Writer", "decode", "encode", "reader", "writer"]

M = TypeVar("M", bound=Message)

_readers: dict[tuple[type[Message], int], Reader] = {}
_writers: dict[tuple[type[Message], int], Writer] = {}


def reader(cls: type[Message], version: int) -> Reader:
    """`read(buffer, position, end)` gives the message and the position after it."""
    found = _readers.get((cls, version))
    if found is None:
        low, high = cls.VERSIONS
        if not low <= version <= high:
            raise DecodeError(f"{cls.__name__} has no version {version}, only {low} to {high}")
        found = _readers[cls, version] = compile_reader(cls, version)
    return found


def writer(cls: type[Message], version: int) -> Writer:
    """`write(message, chunks)` appends the encoded message to `chunks`."""
    found = _writers.get((cls, version))
    if found is None:
        low, high = cls.VERSIONS
        if not low <= version <= high:
            raise EncodeError(f"{cls.__name__} has no version {version}, only {low} to {high}")
        found = _writers[cls, version] = compile_writer(cls, version)
    return found


def encode(message: Message, version: int) -> bytes:
    """The whole message, records included."""
    chunks: list[Any] = []
    writer(type(message), version)(message, chunks)
    return b"".join(
        chunk if isinstance(chunk, bytes | bytearray | memoryview) else chunk.read()
        for chunk in chunks
    )


def decode(cls: type[M], version: int, data: Buffer) -> M:
    """The message that `data` holds and nothing else."""
    message, position = reader(cls, version)(data, 0, len(data))
    if position != len(data):
        raise DecodeError(f"{cls.__name__} v{version}: {len(data) - position} bytes follow it")
    found: M = message
    return found
