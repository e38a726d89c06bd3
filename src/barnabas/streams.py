"""A connected socket as a `barnabas.seams.Stream`, for the server and the clients alike.

A `SocketStream` hands the socket's own methods out as its attributes, so that receiving and sending
cost no extra call. Everything is non-blocking; readiness comes from a watcher, which is an asyncio
loop or anything with the same four methods.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from barnabas.seams import Address, Buffer

MSG_MORE: int = getattr(socket, "MSG_MORE", 0)
_MAPPED_IPV4 = "::ffff:"


class Watcher(Protocol):
    """Calls back while a descriptor is readable or writable."""

    def add_reader(self, fd: Any, callback: Callable[[], object], /) -> object: ...

    def remove_reader(self, fd: Any, /) -> object: ...

    def add_writer(self, fd: Any, callback: Callable[[], object], /) -> object: ...

    def remove_writer(self, fd: Any, /) -> object: ...


def plain_address(address: object) -> Address:
    """Host and port of what a socket reports; an IPv4 peer of an IPv6 socket looks like IPv4."""
    if not isinstance(address, tuple) or len(address) < 2:
        return ("local", 0)
    host = str(address[0])
    if host.startswith(_MAPPED_IPV4) and "." in host:
        host = host[len(_MAPPED_IPV4) :]
    return (host, int(address[1]))


class SocketStream:
    """A connected socket as a `barnabas.seams.Stream`."""

    __slots__ = ("_socket", "_watcher", "local_address", "peer_address", "recv_into", "send")

    def __init__(self, connected: socket.socket, watcher: Watcher) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._watcher = watcher
        self.recv_into: Callable[[memoryview], int] = connected.recv_into
        self.send: Callable[[Buffer], int] = connected.send
        self.local_address = plain_address(connected.getsockname())
        self.peer_address = plain_address(connected.getpeername())

    def set_buffers(self, send_bytes: int, receive_bytes: int) -> None:
        """The sizes of the operating system's buffers; 0 and less leave them as they are."""
        if send_bytes > 0:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
        if receive_bytes > 0:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)

    def sendmsg(self, buffers: Sequence[Buffer], more: bool, /) -> int:
        return self._socket.sendmsg(buffers, (), MSG_MORE if more else 0)

    def sendfile(self, fileno: int, position: int, count: int, /) -> int:
        return os.sendfile(self._socket.fileno(), fileno, position, count)

    def on_readable(self, callback: Callable[[], object] | None, /) -> None:
        if callback is None:
            self._watcher.remove_reader(self._socket)
        else:
            self._watcher.add_reader(self._socket, callback)

    def on_writable(self, callback: Callable[[], object] | None, /) -> None:
        if callback is None:
            self._watcher.remove_writer(self._socket)
        else:
            self._watcher.add_writer(self._socket, callback)

    def close(self) -> None:
        if self._socket.fileno() < 0:
            return
        self._watcher.remove_reader(self._socket)
        self._watcher.remove_writer(self._socket)
        self._socket.close()
