"""A broker of one socket that answers what a test tells it to, byte for byte or by message."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

from barnabas.wire import codec
from barnabas.wire.api_keys import (
    ApiKey,
    request_class,
    request_header_version,
    response_header_version,
)
from barnabas.wire.messages.api_versions import ApiVersion, ApiVersionsResponse

Handler = Callable[[ApiKey, int, Any], Any]


def offer(*keys: ApiKey) -> ApiVersionsResponse:
    """An ApiVersions answer with every version of these APIs."""
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(
                api_key=int(key),
                min_version=request_class(key).VERSIONS[0],
                max_version=request_class(key).VERSIONS[1],
            )
            for key in (ApiKey.API_VERSIONS, *keys)
        ]
    )


def read_request(frame: bytes) -> tuple[ApiKey, int, int, Any]:
    """Key, version, correlation id and message of a request, without its size."""
    key, version = ApiKey(int.from_bytes(frame[:2], "big")), int.from_bytes(frame[2:4], "big")
    position = 10 + max(int.from_bytes(frame[8:10], "big", signed=True), 0)
    if request_header_version(key, version) >= 2:
        position += 1
    request, _ = codec.reader(request_class(key), version)(memoryview(frame), position, len(frame))
    return key, version, int.from_bytes(frame[4:8], "big"), request


def respond(response: Any, version: int, correlation_id: int) -> bytes:
    """A whole answer, with its size."""
    tags = b"\0" if response_header_version(ApiKey(response.API_KEY), version) >= 1 else b""
    body = correlation_id.to_bytes(4, "big") + tags + codec.encode(response, version)
    return len(body).to_bytes(4, "big") + body


class FakeBroker:
    """`handle(key, version, request)` gives a response, bytes to send as they are, or None to hang
    up. `greeting` is sent as soon as a client connects."""

    def __init__(self, handle: Handler | None = None, *, greeting: bytes = b"") -> None:
        self._handle = handle
        self._greeting = greeting
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.seen: list[tuple[ApiKey, int]] = []
        self.connections = 0
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            if self._greeting:
                client.sendall(self._greeting)
            while (frame := self._read(client)) is not None:
                if self._handle is None:
                    continue
                answer = self._answer(frame)
                if answer is None:
                    break
                client.sendall(answer)
        except OSError:
            pass
        client.close()

    def _answer(self, frame: bytes) -> bytes | None:
        key, version, correlation_id, request = read_request(frame)
        self.seen.append((key, version))
        assert self._handle is not None
        found = self._handle(key, version, request)
        if found is None or isinstance(found, bytes):
            return found
        return respond(found, version, correlation_id)

    def _read(self, client: socket.socket) -> bytes | None:
        head = self._exactly(client, 4)
        return None if head is None else self._exactly(client, int.from_bytes(head, "big"))

    @staticmethod
    def _exactly(client: socket.socket, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            chunk = client.recv(size - len(data))
            if not chunk:
                return None
            data += chunk
        return data

    def close(self) -> None:
        self._listener.close()
        for client in self._open:
            client.close()

    def __enter__(self) -> FakeBroker:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
