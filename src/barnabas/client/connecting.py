"""From a host name to a connected socket, without ever waiting in between.

The addresses of the name are tried one after the other, each with an equal share of the time that is
left, so that one that drops packets does not use up the time of the next. What is told in the end is
the failure of the last address tried.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from typing import Any, Protocol

from barnabas.client.reactor import Connected, Timer
from barnabas.streams import SocketStream, Watcher

Resolved = Callable[[list[Any] | None, OSError | None], object]

_PENDING = frozenset({errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY})


class ConnectingReactor(Watcher, Protocol):
    """The part of a reactor that making a connection needs."""

    def now(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer: ...

    def call_soon(self, callback: Callable[[], object]) -> None: ...

    def resolve(self, host: str, port: int, done: Resolved) -> None:
        """What `getaddrinfo` says; never calls back before it returns."""


def resolve_now(host: str, port: int) -> list[Any] | None:
    """The addresses of a host that is itself an address, which needs no name service."""
    try:
        return socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        )
    except OSError:
        return None


class Connecting:
    """One attempt. `cancel` ends it silently."""

    def __init__(
        self, reactor: ConnectingReactor, host: str, port: int, timeout_s: float, done: Connected
    ) -> None:
        self._reactor = reactor
        self._deadline = reactor.now() + timeout_s
        self._done: Connected | None = done
        self._addresses: list[Any] = []
        self._socket: socket.socket | None = None
        self._failure: OSError = OSError(errno.EADDRNOTAVAIL, "the name has no address")
        self._timer: Timer | None = reactor.call_at(self._deadline, self._timed_out)
        reactor.resolve(host, port, self._resolved)

    def cancel(self) -> None:
        self._done = None
        self._drop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _resolved(self, addresses: list[Any] | None, error: OSError | None) -> None:
        if self._done is None:
            return
        if addresses is None:
            self._end(None, error or self._failure)
            return
        self._addresses = list(addresses)
        self._try_next()

    def _try_next(self) -> None:
        self._drop()
        if not self._addresses:
            self._end(None, self._failure)
            return
        family, kind, protocol, _, place = self._addresses.pop(0)
        now = self._reactor.now()
        share = (self._deadline - now) / (len(self._addresses) + 1)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._reactor.call_at(now + share, self._timed_out)
        try:
            opened = self._socket = socket.socket(family, kind, protocol)
            opened.setblocking(False)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = opened.connect_ex(place)
        except OSError as error:
            self._failed(error)
            return
        if code in _PENDING:
            self._reactor.add_writer(opened, self._writable)
        elif code:
            self._failed(OSError(code, os.strerror(code)))
        else:
            self._reactor.call_soon(self._writable)

    def _writable(self) -> None:
        opened = self._socket
        if opened is None:
            return
        code = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._failed(OSError(code, os.strerror(code)))
            return
        self._reactor.remove_writer(opened)
        try:
            stream = SocketStream(opened, self._reactor)
        except OSError as error:
            self._failed(error)
            return
        self._socket = None
        self._end(stream, None)

    def _failed(self, error: OSError) -> None:
        self._failure = error
        self._drop()
        self._reactor.call_soon(self._try_next_if_wanted)

    def _try_next_if_wanted(self) -> None:
        if self._done is not None:
            self._try_next()

    def _timed_out(self) -> None:
        self._failure = TimeoutError(errno.ETIMEDOUT, "the connection was not accepted in time")
        if self._reactor.now() >= self._deadline:
            self._addresses.clear()
        self._try_next()

    def _drop(self) -> None:
        dropped, self._socket = self._socket, None
        if dropped is not None:
            self._reactor.remove_writer(dropped)
            dropped.close()

    def _end(self, stream: SocketStream | None, error: OSError | None) -> None:
        done, self._done = self._done, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if done is not None:
            done(stream, error)
        elif stream is not None:
            stream.close()
