"""The real clock, randomness and transport: thin covers over the operating system.

Everything is non-blocking; readiness comes from the event loop. Connected sockets are
`barnabas.streams.SocketStream`.
"""

import asyncio
import contextlib
import errno
import logging
import random
import socket
import sys
import time
from collections.abc import Callable

from barnabas.seams import Address, Stream
from barnabas.streams import SocketStream, plain_address

_ACCEPTS_PER_EVENT = 64
_PORT_ATTEMPTS = 20
_ACCEPT_RETRY_S = 1.0
_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_NO_SUCH_ADDRESS = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT})

logger = logging.getLogger(__name__)

SYSTEM_RANDOMNESS = random.SystemRandom()


class SystemClock:
    __slots__ = ("monotonic_ns",)

    def __init__(self) -> None:
        self.monotonic_ns = time.monotonic_ns

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class ListenFailure(Exception):
    """An address that cannot be listened on. The text is for the person who starts the node."""


class SocketListening:
    """Listening sockets of one listener, all on the same port."""

    def __init__(
        self,
        sockets: list[socket.socket],
        loop: asyncio.AbstractEventLoop,
        accepted: Callable[[Stream], object],
        prepare: Callable[[socket.socket], None],
    ) -> None:
        self._sockets = sockets
        self._loop = loop
        self._accepted = accepted
        self._prepare = prepare
        self._wanted = False
        self._starved = False
        self._active = False
        self._closed = False
        self.addresses: list[Address] = [plain_address(one.getsockname()) for one in sockets]
        self.resume()

    def pause(self) -> None:
        self._wanted = False
        self._update()

    def resume(self) -> None:
        self._wanted = True
        self._update()

    def _update(self) -> None:
        active = self._wanted and not self._starved and not self._closed
        if active and not self._active:
            for listening in self._sockets:
                self._loop.add_reader(listening, self._accept, listening)
        elif self._active and not active:
            for listening in self._sockets:
                self._loop.remove_reader(listening)
        self._active = active

    def _recover(self) -> None:
        self._starved = False
        self._update()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._update()
            for listening in self._sockets:
                listening.close()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_EVENT):
            if not self._active:
                return
            try:
                connected, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                logger.warning("Cannot accept connections: %s", error.strerror or error)
                if error.errno in _OUT_OF_RESOURCES:
                    self._starved = True
                    self._update()
                    self._loop.call_later(_ACCEPT_RETRY_S, self._recover)
                return
            try:
                self._prepare(connected)
                stream = SocketStream(connected, self._loop)
            except OSError:
                connected.close()
                continue
            self._accepted(stream)


class SocketTransport:
    """TCP over the operating system's sockets."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def listen(
        self,
        host: str,
        port: int,
        accepted: Callable[[Stream], object],
        *,
        backlog: int = 128,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
    ) -> SocketListening:
        def prepare(connected: socket.socket) -> None:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if send_buffer_bytes > 0:
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)

        sockets = _bind_all(host, port, receive_buffer_bytes)
        try:
            for listening in sockets:
                listening.listen(backlog)
        except OSError as error:
            for listening in sockets:
                listening.close()
            raise ListenFailure(_explain(host, port, error)) from error
        return SocketListening(sockets, self._loop, accepted, prepare)

    async def connect(self, host: str, port: int) -> SocketStream:
        failure: OSError | None = None
        for family, kind, protocol, _, address in await self._loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        ):
            connecting = socket.socket(family, kind, protocol)
            try:
                connecting.setblocking(False)
                connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await self._loop.sock_connect(connecting, address)
                return SocketStream(connecting, self._loop)
            except OSError as error:
                connecting.close()
                failure = error
            except BaseException:
                connecting.close()
                raise
        raise failure or OSError(f"{host} has no address")


def _bind_all(host: str, port: int, receive_buffer_bytes: int) -> list[socket.socket]:
    """Sockets bound to all addresses of `host` on one port."""
    try:
        candidates = _addresses(host, port)
    except OSError as error:
        raise ListenFailure(
            f"Cannot listen on {_shown(host, port)}: the host name {host!r} has no address "
            f"({error.strerror or error}). Use an address of this machine, or leave the host empty "
            "to listen on all interfaces."
        ) from error
    attempts = _PORT_ATTEMPTS if port == 0 and len(candidates) > 1 else 1
    while True:
        attempts -= 1
        bound: list[socket.socket] = []
        failure: OSError | None = None
        for family, address in candidates:
            chosen = port or (bound[0].getsockname()[1] if bound else 0)
            try:
                bound.append(_bind(family, address, chosen, receive_buffer_bytes))
            except OSError as error:
                failure = error
                if error.errno not in _NO_SUCH_ADDRESS:
                    break
        else:
            if bound:
                return bound
        for one in bound:
            one.close()
        assert failure is not None
        if attempts == 0 or failure.errno != errno.EADDRINUSE:
            raise ListenFailure(_explain(host, port, failure)) from failure


def _addresses(host: str, port: int) -> list[tuple[int, str]]:
    if not host:
        if socket.has_dualstack_ipv6():
            return [(socket.AF_INET6, "::")]
        return [(socket.AF_INET, "0.0.0.0")]
    if host.lower() == "localhost":
        # Some clients try ::1 first, whatever this machine's resolver says of the name.
        return [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
    found = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
    )
    return list(dict.fromkeys((int(family), str(address[0])) for family, _, _, _, address in found))


def addresses_of(host: str) -> list[str]:
    """What a host name resolves to; nothing if it does not."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _bind(family: int, host: str, port: int, receive_buffer_bytes: int) -> socket.socket:
    binding = socket.socket(family, socket.SOCK_STREAM)
    try:
        binding.setblocking(False)
        if sys.platform != "win32":
            binding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            with contextlib.suppress(OSError):
                binding.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        if receive_buffer_bytes > 0:
            binding.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        binding.bind((host, port))
    except BaseException:
        binding.close()
        raise
    return binding


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host or '*'}:{port}"


def _explain(host: str, port: int, error: OSError) -> str:
    where = _shown(host, port)
    if error.errno == errno.EADDRINUSE:
        return (
            f"Cannot listen on {where}: another process already uses this address. Stop it, or "
            "choose another port in `listeners` (`--port` on the command line; port 0 picks a "
            "free one)."
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return (
            f"Cannot listen on {where}: this user may not use port {port}. "
            "Choose a port from 1024 on."
        )
    if error.errno in _NO_SUCH_ADDRESS:
        return (
            f"Cannot listen on {where}: this machine has no such address. Use one of its own "
            "addresses, or leave the host empty to listen on all interfaces."
        )
    return f"Cannot listen on {where}: {error.strerror or error}."
