"""One connection of the virtual network: two streams, and what is between them.

Bytes that were sent travel as segments, one behind the other. A sender has room for so many bytes that
the other side has not read yet; a reader is told again and again while there is something to read,
as an event loop does for a socket.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import TYPE_CHECKING

from barnabas.seams import Address, Buffer, Stream
from barnabas.sim.loop import VirtualLoop
from barnabas.wire.api_keys import ApiKey

if TYPE_CHECKING:
    from barnabas.sim.network import VirtualNetwork

WINDOW_BYTES = 128 * 1024

_END = None
_RESET = "reset"

_FRONT = Struct(">ihhi")

Segment = bytes | str | None


def seen(segment: bytes, is_request: bool) -> str:
    """What a segment seems to be, from its first bytes."""
    size = f"{len(segment)} bytes"
    if len(segment) < _FRONT.size:
        return size
    _, key, version, correlation_id = _FRONT.unpack_from(segment)
    if not is_request:
        return f"answers #{int.from_bytes(segment[4:8], 'big')}, {size}"
    try:
        return f"asks {ApiKey(key).name} v{version} #{correlation_id}, {size}"
    except ValueError:
        return size


class VirtualStream:
    """One side. Implements `barnabas.seams.Stream`."""

    def __init__(self, wire: Wire, loop: VirtualLoop, local: Address, peer: Address) -> None:
        self.wire = wire
        self.local_address = local
        self.peer_address = peer
        self.gone = False
        self._loop = loop
        self._received = bytearray()
        self._ended = False
        self._error: OSError | None = None
        self._closed = False
        self._unread = 0
        self._on_way: deque[Segment] = deque()
        self._last_arrival_ns = 0
        self._reader: Callable[[], object] | None = None
        self._writer: Callable[[], object] | None = None
        self._reader_called = False
        self._writer_called = False

    @property
    def other(self) -> VirtualStream:
        wire = self.wire
        return wire.accepting if wire.connecting is self else wire.connecting

    # ---- the seam

    def recv_into(self, buffer: memoryview, /) -> int:
        if self._closed:
            raise OSError(errno.EBADF, "the stream is closed")
        received = self._received
        if received:
            count = min(len(buffer), len(received))
            buffer[:count] = received[:count]
            del received[:count]
            self.other._was_read(count)
            return count
        if self._error is not None:
            raise self._error
        if self._ended:
            return 0
        raise BlockingIOError(errno.EAGAIN, "nothing to receive")

    def send(self, data: Buffer, /) -> int:
        if self._closed:
            raise OSError(errno.EBADF, "the stream is closed")
        if self._error is not None:
            raise self._error
        room = WINDOW_BYTES - self._unread
        if room <= 0:
            raise BlockingIOError(errno.EAGAIN, "no room to send")
        taken = bytes(memoryview(data)[:room])
        if taken:
            self._unread += len(taken)
            cut = self.wire.network.is_cut_somewhere(len(taken))
            if cut:
                self._travel(taken[:cut])
            self._travel(taken[cut:])
        return len(taken)

    def sendmsg(self, buffers: Sequence[Buffer], more: bool, /) -> int:
        return self.send(b"".join(buffers))

    def sendfile(self, fileno: int, position: int, count: int, /) -> int:
        raise OSError(errno.EINVAL, "a simulated file has no descriptor")

    def on_readable(self, callback: Callable[[], object] | None, /) -> None:
        self._reader = callback
        self._call_reader()

    def on_writable(self, callback: Callable[[], object] | None, /) -> None:
        self._writer = callback
        self._call_writer()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._reader = self._writer = None
        self.wire.network.host(self.local_address[0]).streams.pop(self.wire.number, None)
        self._travel(_RESET if self._received else _END)

    # ---- ends that are not the peer's wish

    def abort(self) -> None:
        """The system closes the connection: what is on its way is lost, the other side is reset."""
        self._closed = True
        self._reader = self._writer = None
        self.wire.network.host(self.local_address[0]).streams.pop(self.wire.number, None)
        self._on_way.clear()
        self._travel(_RESET)

    def vanish(self) -> None:
        """The power is cut: nothing is said any more."""
        self.gone = self._closed = True
        self._reader = self._writer = None
        self._on_way.clear()

    def break_off(self) -> None:
        """Something between the two resets both."""
        other = self.other
        for side in (self, other):
            side._on_way.clear()
            side._fail()

    def _fail(self) -> None:
        if not self._closed and self._error is None:
            self._error = ConnectionResetError(errno.ECONNRESET, "connection reset by peer")
            self._received.clear()
            self._call_reader()
            self._call_writer()

    # ---- the way

    def _travel(self, segment: Segment) -> None:
        """Segments never overtake one another."""
        self._on_way.append(segment)
        network = self.wire.network
        now_ns = network.scheduler.now_ns
        delay_ns = network.delay_ns(self.local_address[0], self.peer_address[0])
        self._last_arrival_ns = max(now_ns + delay_ns, self._last_arrival_ns)
        network.loop.after_ns(self._last_arrival_ns - now_ns, self._arrive)

    def _arrive(self) -> None:
        network = self.wire.network
        if not network.passes(self.local_address[0], self.peer_address[0], self._arrive):
            return
        if not self._on_way:
            return
        segment = self._on_way.popleft()
        other = self.other
        if other.gone:
            # The host is back and has never heard of this connection.
            self._on_way.clear()
            self._fail_later()
            return
        other._receive(segment)

    def _receive(self, segment: Segment) -> None:
        network = self.wire.network
        name = self.wire.name
        if isinstance(segment, bytes):
            network.trace.bytes(name, segment)
            if network.trace.verbose:
                network.trace.line(name, seen(segment, self.wire.accepting is self))
            if self._closed:
                self.other._fail_later()
                return
            self._received += segment
        elif segment is _RESET:
            network.trace.bytes(name, b"reset")
            self._fail()
        else:
            network.trace.bytes(name, b"end")
            self._ended = True
        self._call_reader()

    def _fail_later(self) -> None:
        network = self.wire.network
        delay_ns = network.delay_ns(self.peer_address[0], self.local_address[0])
        network.loop.after_ns(delay_ns, self._fail)

    def _was_read(self, count: int) -> None:
        self._unread -= count
        self._call_writer()

    # ---- readiness

    def _is_readable(self) -> bool:
        return bool(self._received) or self._ended or self._error is not None

    def _call_reader(self) -> None:
        if self._reader is not None and not self._reader_called and self._is_readable():
            self._reader_called = True
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._reader_called = False
        if self._reader is not None and self._is_readable():
            self._reader()
            self._call_reader()

    def _is_writable(self) -> bool:
        return self._unread < WINDOW_BYTES or self._error is not None

    def _call_writer(self) -> None:
        if self._writer is not None and not self._writer_called and self._is_writable():
            self._writer_called = True
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._writer_called = False
        if self._writer is not None and self._is_writable():
            self._writer()
            self._call_writer()


class Wire:
    """Both sides of one connection."""

    def __init__(
        self, network: VirtualNetwork, number: int, source: Address, target: Address
    ) -> None:
        self.network = network
        self.number = number
        self.source = source
        self.target = target
        self.name = f"{source[0]}:{source[1]}>{target[0]}:{target[1]}"

    def open(self, connecting: VirtualLoop, accepting: VirtualLoop) -> None:
        self.connecting = VirtualStream(self, connecting, self.source, self.target)
        self.accepting = VirtualStream(self, accepting, self.target, self.source)


class Listener:
    """A listening port. Implements `barnabas.seams.Listening`."""

    def __init__(
        self,
        network: VirtualNetwork,
        loop: VirtualLoop,
        address: Address,
        accepted: Callable[[Stream], object],
        backlog: int,
    ) -> None:
        self.loop = loop
        self.addresses: Sequence[Address] = [address]
        self._network = network
        self._accepted = accepted
        self._backlog = backlog
        self._waiting: deque[VirtualStream] = deque()
        self._paused = False
        self._closed = False

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        if self._waiting:
            self.loop.call_soon(self._accept)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        host, port = self.addresses[0]
        listeners = self._network.host(host).listeners
        if listeners.get(port) is self:
            del listeners[port]
        for stream in self._waiting:
            stream.abort()
        self._waiting.clear()

    def has_room(self) -> bool:
        return len(self._waiting) < self._backlog

    def offer(self, stream: VirtualStream) -> None:
        self._waiting.append(stream)
        self.loop.call_soon(self._accept)

    def _accept(self) -> None:
        while self._waiting and not self._paused and not self._closed:
            self._accepted(self._waiting.popleft())


class VirtualTransport:
    """What one process has of the network. Implements `barnabas.seams.Transport`."""

    def __init__(self, network: VirtualNetwork, host: str, loop: VirtualLoop) -> None:
        self._network = network
        self._host = host
        self._loop = loop

    def listen(
        self,
        host: str,
        port: int,
        accepted: Callable[[Stream], object],
        *,
        backlog: int,
        send_buffer_bytes: int,
        receive_buffer_bytes: int,
    ) -> Listener:
        own = self._network.host(self._host)
        if port == 0:
            own.next_port += 1
            port = own.next_port
        if port in own.listeners:
            raise OSError(errno.EADDRINUSE, f"port {port} of {self._host} is in use")
        listener = Listener(self._network, self._loop, (self._host, port), accepted, backlog)
        own.listeners[port] = listener
        return listener

    async def connect(self, host: str, port: int) -> VirtualStream:
        future: asyncio.Future[VirtualStream] = self._loop.create_future()

        def done(stream: VirtualStream | None, error: OSError | None) -> None:
            if future.done():
                if stream is not None:
                    stream.abort()
            elif stream is not None:
                future.set_result(stream)
            elif error is not None:
                future.set_exception(error)

        self._network.connect(self._loop, self._host, host, port, done)
        return await future
