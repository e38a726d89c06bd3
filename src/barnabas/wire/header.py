"""The headers of requests and responses.

A request starts with its key, version, correlation id and client id; flexible requests have tagged
fields after that, none of which are known, so they are passed over within bounds. The client id
keeps its two-byte length even there. A response starts with the correlation id, and with an empty
tagged section where it is flexible, except for ApiVersions.

`read_request_header` is made for the path of every request: one unpack, one slice. The classes are
for whoever wants a header as a message.
"""

from __future__ import annotations

from struct import Struct as Format
from struct import error as StructError
from typing import NamedTuple

from barnabas.wire.api_keys import NEVER, ApiKey, response_header_version
from barnabas.wire.fields import int16, int32, string
from barnabas.wire.message import Message
from barnabas.wire.primitives import Buffer, DecodeError, read_unsigned_varint

_REQUEST = Format(">hhih")
_CORRELATION_ID = Format(">i")
_FLEXIBLE_SINCE = {int(key): key.flexible_since for key in ApiKey}
_SMALLEST_TAGGED_FIELD = 2


class RequestHeader(Message):
    VERSIONS = (1, 2)
    FLEXIBLE = (2, 2)

    request_api_key: int = int16()
    request_api_version: int = int16()
    correlation_id: int = int32()
    client_id: str | None = string(nullable=True, compact=False)


class ResponseHeader(Message):
    VERSIONS = (0, 1)
    FLEXIBLE = (1, 1)

    correlation_id: int = int32()


class RequestFront(NamedTuple):
    """What a request says of itself, and where its body starts."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: int


def read_request_header(buffer: Buffer, position: int, end: int) -> RequestFront:
    """The header at `position` of a frame that ends at `end`. Keys and versions that do not exist
    are not refused here; a key that does not exist is taken to be inflexible."""
    try:
        key, version, correlation_id, length = _REQUEST.unpack_from(buffer, position)
        position += _REQUEST.size
        client_id = None
        if length >= 0:
            after = position + length
            if after > end:
                raise DecodeError(
                    f"a client id has a length of {length} where {end - position} bytes are left"
                )
            client_id = str(buffer[position:after], "utf-8")
            position = after
        elif length != -1:
            raise DecodeError(f"a client id has a length of {length}")
        if version >= _FLEXIBLE_SINCE.get(key, NEVER):
            if position < end and buffer[position] == 0:
                position += 1
            else:
                position = skip_tagged_fields(buffer, position, end)
    except (StructError, UnicodeDecodeError) as error:
        raise DecodeError(f"a request header cannot be read: {error}") from None
    if position > end:
        raise DecodeError("a request ends within its header")
    return RequestFront(key, version, correlation_id, client_id, position)


def skip_tagged_fields(buffer: Buffer, position: int, end: int) -> int:
    """The position after a tagged section of which nothing is known."""
    count, position = read_unsigned_varint(buffer, position)
    if count > (end - position) // _SMALLEST_TAGGED_FIELD:
        raise DecodeError(f"{count} tagged fields where {end - position} bytes are left")
    last = -1
    for _ in range(count):
        tag, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
        if tag <= last:
            raise DecodeError(f"tag {tag} follows tag {last}")
        last = tag
        if size > end - position:
            raise DecodeError(f"tag {tag} has {size} bytes where {end - position} are left")
        position += size
    if position > end:
        raise DecodeError("the bytes end within a tagged section")
    return position


def response_header(key: int, version: int, correlation_id: int) -> bytes:
    """The header of a response, without the size of the frame."""
    header = _CORRELATION_ID.pack(correlation_id)
    return header + b"\0" if response_header_version(key, version) else header
