"""A bare connection that speaks the protocol through `barnabas.wire`, or sends plain bytes.

For what no client library does: mistakes, old versions, and answers field by field.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

from barnabas.wire.api_keys import (
    ApiKey,
    request_header_version,
    response_class,
    response_header_version,
)
from barnabas.wire.codec import decode, encode
from barnabas.wire.header import RequestHeader
from barnabas.wire.message import Message

TIMEOUT_S = 20.0


class Wire:
    """One connection. Answers come in the order of the requests."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_id = 0

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def frame(self, request: Message, version: int, *, extra: bytes = b"") -> bytes:
        """The whole frame of a request; the next correlation id is used up."""
        key = ApiKey(request.API_KEY)  # type: ignore[attr-defined]
        self.correlation_id += 1
        header = RequestHeader(
            request_api_key=int(key),
            request_api_version=version,
            correlation_id=self.correlation_id,
            client_id="wire-test",
        )
        head = encode(header, request_header_version(key, version))
        body = head + encode(request, version) + extra
        return struct.pack(">i", len(body)) + body

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(self, request: Message, version: int) -> Any:
        """Sends a request and decodes its answer."""
        self.send_bytes(self.frame(request, version))
        return self.answer(ApiKey(request.API_KEY), version)  # type: ignore[attr-defined]

    def answer(self, key: ApiKey, version: int) -> Any:
        body = self.receive_frame()
        assert body is not None, "the broker closed the connection"
        (correlation_id,) = struct.unpack_from(">i", body)
        assert correlation_id == self.correlation_id
        start = 4 if response_header_version(key, version) == 0 else 5
        return decode(response_class(key), version, memoryview(body)[start:])

    def receive_frame(self) -> bytes | None:
        """The next frame without its length, or None when the peer closed the connection."""
        head = self.receive(4)
        return None if head is None else self.receive(struct.unpack(">i", head)[0])

    def receive(self, count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            try:
                chunk = self.socket.recv(count - len(data))
            except ConnectionResetError:
                return None
            if not chunk:
                return None
            data += chunk
        return data
