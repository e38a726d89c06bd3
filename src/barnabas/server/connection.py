"""A connection: bytes in, frames out; chunks in, bytes out. It knows nothing of requests.

**Receiving.** Each frame is announced by its size in four bytes, which is checked before anything
is allocated. Complete frames are handed to the `Frames` of this connection where they lie in the
shared buffer; a frame that has not arrived in full gets memory that grows with it (`receive.py`
tells who may keep what). At most `FRAMES_PER_TURN` frames are handled before other connections have
their turn, and fewer when they take longer than `LONGEST_TURN_NS` together.

**Back-pressure.** Reading stops while any reason to hold exists: unsent bytes above a bound, too
many requests in flight (the owner says so), a quota's throttle, or the node's end. It goes on when
the first two have fallen to half. Frames that are received already wait in `_backlog`, which is
never larger than the shared buffer.

**Sending.** Chunks are bytes or ranges of files. Small ones leave together in one call; a large
range goes by sendfile, a small one is cheaper to read. Sending is tried at once, and only when the
socket is full does the connection ask to be told of room. `sent` names each answer whose last byte
was taken by the operating system.

**Ends.** End of stream: what is unsent is delivered, then the connection closes. A failed socket,
a bad frame or `close()` end it at once; `fail()` gives what is already answered one chance
to leave. `on_closed` is told exactly once; afterwards nothing is sent or handed on.
"""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Callable
from struct import Struct
from typing import Any, Protocol

from barnabas.delayed.timer import Timeout, TimingWheel
from barnabas.seams import Address, Buffer, Clock, Stream
from barnabas.server.receive import BUFFER_SIZE, ReceiveMemory
from barnabas.server.turn import Turn

logger = logging.getLogger(__name__)

FRAMES_PER_TURN = 64
LONGEST_TURN_NS = 20_000_000
RECEIVES_PER_TURN = 8
SENT_BYTES_PER_TURN = 8 * 1024 * 1024
SENDFILE_MIN_BYTES = 64 * 1024
GATHER_BYTES = 256 * 1024
GATHER_CHUNKS = 512

_SIZE = Struct(">i").unpack_from
_IN_MEMORY = frozenset({bytes, bytearray, memoryview})

HOLD_UNSENT = 1
HOLD_REQUESTS = 2
HOLD_THROTTLE = 4
HOLD_SHUTDOWN = 8


class FileChunk(Protocol):
    """A range of a file, as a Fetch response holds it."""

    position: int
    length: int

    def __len__(self) -> int: ...

    def fileno(self) -> int | None: ...

    def read(self) -> bytes: ...

    def slice(self, start: int, length: int) -> "FileChunk": ...


Chunk = Any


class Frames(Protocol):
    """What a connection tells its owner."""

    def on_frame(self, view: memoryview, start: int, end: int, received_ns: int) -> None: ...

    def on_bad_size(self, size: int, first_bytes: bytes) -> None:
        """The announced size is not acceptable; the connection closes after this call."""

    def on_cut_short(self, received: int, size: int | None) -> None:
        """The stream ended within a frame, or within its size; the connection closes."""

    def on_sent(self, answers: list[Any], now_ns: int) -> None: ...

    def on_closed(self, reason: str) -> None: ...

    @property
    def busy(self) -> bool:
        """True while requests are in flight, which keeps the connection from being idle."""


class ConnectionSettings:
    """Bounds of one listener's connections."""

    __slots__ = (
        "max_bytes_in_flight",
        "max_idle_ms",
        "max_request_bytes",
        "max_requests_in_flight",
        "max_unsent_bytes",
    )

    def __init__(
        self,
        *,
        max_request_bytes: int = 100 * 1024 * 1024,
        max_requests_in_flight: int = 500,
        max_bytes_in_flight: int = 64 * 1024 * 1024,
        max_unsent_bytes: int = 1024 * 1024,
        max_idle_ms: int = 600_000,
    ) -> None:
        self.max_request_bytes = max_request_bytes
        self.max_requests_in_flight = max_requests_in_flight
        self.max_bytes_in_flight = max_bytes_in_flight
        self.max_unsent_bytes = max_unsent_bytes
        self.max_idle_ms = max_idle_ms


class Environment:
    """What all connections of a node share."""

    __slots__ = ("clock", "loop", "memory", "turn", "wheel")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, wheel: TimingWheel) -> None:
        self.loop = loop
        self.clock = clock
        self.wheel = wheel
        self.memory = ReceiveMemory()
        self.turn = Turn()


class Connection:
    __slots__ = (
        "_answer_ends",
        "_answers",
        "_backlog",
        "_clock_ns",
        "_draining",
        "_environment",
        "_filled",
        "_frame",
        "_frame_size",
        "_frames",
        "_holds",
        "_idle",
        "_max_request_bytes",
        "_memory",
        "_on_frame",
        "_out",
        "_prefix",
        "_queued_for_flush",
        "_send",
        "_settings",
        "_stream",
        "_throttle",
        "_turn",
        "_turn_is_due",
        "_waiting_for_room",
        "_yielding",
        "closed",
        "last_active_ns",
        "local_address",
        "peer_address",
        "received_bytes",
        "sent_bytes",
        "unsent_bytes",
        "when_closed",
    )

    def __init__(
        self, stream: Stream, environment: Environment, settings: ConnectionSettings
    ) -> None:
        self._stream = stream
        self._environment = environment
        self._settings = settings
        self._max_request_bytes = settings.max_request_bytes
        self._memory = environment.memory
        self._turn = environment.turn
        self._clock_ns: Callable[[], int] = environment.clock.monotonic_ns
        self._send = stream.send
        self.local_address: Address = stream.local_address
        self.peer_address: Address = stream.peer_address
        self.closed = False
        self.last_active_ns = self._clock_ns()
        self.received_bytes = 0
        self.sent_bytes = 0
        self.unsent_bytes = 0
        self._prefix = b""
        self._frame: bytearray | None = None
        self._frame_size = 0
        self._filled = 0
        self._backlog: memoryview | None = None
        self._turn_is_due = False
        self._holds = 0
        self._yielding = False
        self._out: list[Chunk] = []
        self._answers: list[Any] = []
        self._answer_ends: list[int] = []
        self._queued_for_flush = False
        self._waiting_for_room = False
        self._draining = False
        self._idle: Timeout | None = None
        self._throttle: Timeout | None = None
        self.when_closed: Callable[[Connection], object] | None = None

    def start(self, frames: Frames) -> None:
        """Begin to receive."""
        self._frames = frames
        self._on_frame = frames.on_frame
        if self._settings.max_idle_ms > 0:
            self._arm_idle(self._settings.max_idle_ms)
        self._stream.on_readable(self._on_readable)

    # Receiving

    def _on_readable(self) -> None:
        turn = self._turn
        turn.active = True
        try:
            self._receive()
        except Exception:
            logger.exception("Closing %s:%d: receiving failed", *self.peer_address)
            self.close("internal error")
        finally:
            if self._queued_for_flush:
                self.flush()
            turn.end()

    def _receive(self) -> None:
        if self._backlog is not None:
            if not self._turn_is_due and not self._holds and not self.closed:
                backlog, self._backlog = self._backlog, None
                self._parse(backlog, 0, len(backlog), self._clock_ns())
            return
        for _ in range(RECEIVES_PER_TURN):
            if self._frame is not None:
                if not self._receive_frame(self._frame):
                    return
            else:
                view = self._memory.shared()
                got = len(self._prefix)
                try:
                    if got:
                        view[:got] = self._prefix
                        received = self._stream.recv_into(view[got:])
                    else:
                        received = self._stream.recv_into(view)
                except (BlockingIOError, InterruptedError):
                    return
                except OSError as error:
                    self._lost(error)
                    return
                if not received:
                    self._end_of_stream()
                    return
                self.received_bytes += received
                got += received
                self._prefix = b""
                self.last_active_ns = now_ns = self._clock_ns()
                self._parse(view, 0, got, now_ns)
                del view
                if got < BUFFER_SIZE:
                    return
            if self._holds or self.closed or self._backlog is not None:
                return

    def _parse(self, view: memoryview, position: int, end: int, now_ns: int) -> None:
        """Hand on the complete frames in `view`, and keep what is left."""
        on_frame = self._on_frame
        self._yielding = False
        frames_left = FRAMES_PER_TURN
        while True:
            left = end - position
            if left < 4:
                if left:
                    self._prefix = bytes(view[position:end])
                return
            (size,) = _SIZE(view, position)
            if not 0 < size <= self._max_request_bytes:
                self._frames.on_bad_size(size, bytes(view[position : min(end, position + 64)]))
                self.fail("bad frame size")
                return
            stop = position + 4 + size
            if stop > end:
                self._begin_frame(size, view[position + 4 : end])
                return
            on_frame(view, position + 4, stop, now_ns)
            position = stop
            if self.closed:
                return
            frames_left -= 1
            if position < end and (
                self._holds
                or self._yielding
                or not frames_left
                or self._clock_ns() - now_ns > LONGEST_TURN_NS
            ):
                self._backlog = memoryview(bytearray(view[position:end]))
                if not self._holds:
                    self._go_on_soon()
                return

    def _begin_frame(self, size: int, arrived: memoryview) -> None:
        frame = self._memory.frame(size)
        filled = len(arrived)
        frame[:filled] = arrived
        self._frame = frame
        self._frame_size = size
        self._filled = filled

    def _receive_frame(self, frame: bytearray) -> bool:
        """Receive a part of a large frame; False when there is nothing more for now."""
        size = self._frame_size
        filled = self._filled
        if filled == len(frame):
            self._memory.grow(frame, size)
        with memoryview(frame) as view, view[filled : min(len(frame), size)] as room:
            try:
                received = self._stream.recv_into(room)
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as error:
                self._lost(error)
                return False
            more = received == len(room)
        if not received:
            self._end_of_stream()
            return False
        self.received_bytes += received
        self.last_active_ns = now_ns = self._clock_ns()
        self._filled = filled = filled + received
        if filled < size:
            return more
        self._frame = None
        self._on_frame(memoryview(frame), 0, size, now_ns)
        self._memory.give_back(frame)
        return not self.closed

    def _go_on_soon(self) -> None:
        """The backlog's next turn: one, however often it is asked for."""
        if not self._turn_is_due:
            self._turn_is_due = True
            self._environment.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._turn_is_due = False
        if self._backlog is not None and not self._holds and not self.closed:
            self._on_readable()

    def yield_turn(self) -> None:
        """Let whatever was scheduled before run ahead of the next frame."""
        self._yielding = True

    # Back-pressure

    def hold(self, reason: int) -> None:
        """Stop reading for `reason`, one of the HOLD constants."""
        if not self._holds and not self.closed and not self._draining:
            self._stream.on_readable(None)
        self._holds |= reason

    def release(self, reason: int) -> None:
        """Read on, unless there are other reasons not to."""
        if not self._holds & reason:
            return
        self._holds &= ~reason
        if not self._holds and not self.closed and not self._draining:
            self._stream.on_readable(self._on_readable)
            if self._backlog is not None:
                self._go_on_soon()

    def throttle(self, delay_ms: int) -> None:
        """Read nothing for `delay_ms`: how a quota slows a client down."""
        if self._throttle is not None:
            self._throttle.cancel()
        self.hold(HOLD_THROTTLE)
        self._throttle = self._environment.wheel.add(delay_ms, self._end_throttle)

    def _end_throttle(self) -> None:
        self._throttle = None
        self.release(HOLD_THROTTLE)

    @property
    def held(self) -> bool:
        """True while back-pressure stops reading."""
        return self._holds != 0

    # Sending

    def write(self, chunks: list[Chunk], size: int, answer: Any) -> None:
        """Queue one answer of `size` bytes; `answer` is named to `on_sent` when it has left."""
        if self.closed:
            return
        self._out += chunks
        self.unsent_bytes = unsent = self.unsent_bytes + size
        self._answers.append(answer)
        self._answer_ends.append(self.sent_bytes + unsent)
        if self._waiting_for_room:
            if unsent > self._settings.max_unsent_bytes:
                self.hold(HOLD_UNSENT)
        elif not self._turn.active:
            self.flush()
        elif not self._queued_for_flush:
            self._queued_for_flush = True
            self._turn.unflushed.append(self)
            if unsent > self._settings.max_unsent_bytes:
                self.flush()
        elif unsent > self._settings.max_unsent_bytes:
            self.flush()

    def flush(self) -> None:
        """Send as much as the socket takes. Never raises."""
        self._queued_for_flush = False
        if self.closed or self._waiting_for_room or not self._out:
            return
        try:
            if self.unsent_bytes <= GATHER_BYTES and self._send_joined():
                return
            self._send_chunks()
        except OSError as error:
            self._lost(error)
        except Exception:
            logger.exception("Closing %s:%d: sending failed", *self.peer_address)
            self.close("internal error")

    def _send_joined(self) -> bool:
        """The common case: a few small chunks in memory, and room for them. True when done."""
        out = self._out
        data: Buffer
        if len(out) == 1 and type(out[0]) is bytes:
            data = out[0]
        else:
            try:
                data = b"".join(out)
            except TypeError:
                return False
        try:
            sent = self._send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent == len(data):
            out.clear()
            self.unsent_bytes = 0
            self.sent_bytes += sent
            answers, self._answers = self._answers, []
            self._answer_ends.clear()
            self._frames.on_sent(answers, self._clock_ns())
            if self._draining or self._holds:
                self._has_room()
            return True
        self._out = [memoryview(data)[sent:]]
        self._sent(sent)
        self._wait_for_room()
        return True

    def _send_chunks(self) -> None:
        out = self._out
        head = 0
        budget = SENT_BYTES_PER_TURN
        try:
            while head < len(out):
                if budget <= 0:
                    self._wait_for_room()
                    return
                chunk = out[head]
                try:
                    if type(chunk) not in _IN_MEMORY and len(chunk) >= SENDFILE_MIN_BYTES:
                        sent = self._send_file(out, head, chunk, budget)
                        head += out[head] is None
                    else:
                        sent, head = self._send_gathered(out, head)
                except (BlockingIOError, InterruptedError):
                    self._wait_for_room()
                    return
                budget -= sent
                self._sent(sent)
        finally:
            del out[:head]
        if self._draining or self._holds:
            self._has_room()

    def _send_file(self, out: list[Chunk], head: int, chunk: FileChunk, budget: int) -> int:
        """Send a part of a file; what is left stays in its place, None if nothing is."""
        length = len(chunk)
        fileno = chunk.fileno()
        if fileno is None:
            out[head] = _read(chunk.slice(0, min(length, GATHER_BYTES)))
            if length > GATHER_BYTES:
                out.insert(head + 1, chunk.slice(GATHER_BYTES, length - GATHER_BYTES))
            return 0
        sent = self._stream.sendfile(fileno, chunk.position, min(length, budget))
        if sent == 0:
            raise EOFError(f"{chunk!r} is shorter than it was")
        out[head] = chunk.slice(sent, length - sent) if sent < length else None
        return sent

    def _send_gathered(self, out: list[Chunk], head: int) -> tuple[int, int]:
        """Send chunks in memory and small ranges in one call; gives bytes sent and the new head."""
        buffers: list[Buffer] = []
        gathered = 0
        index = head
        more = False
        while index < len(out) and gathered < GATHER_BYTES and len(buffers) < GATHER_CHUNKS:
            chunk = out[index]
            if type(chunk) not in _IN_MEMORY:
                if len(chunk) >= SENDFILE_MIN_BYTES:
                    more = True
                    break
                out[index] = chunk = _read(chunk)
            buffers.append(chunk)
            gathered += len(chunk)
            index += 1
        sent = left = self._stream.sendmsg(buffers, more) if gathered else 0
        if sent == gathered:
            return sent, index
        for chunk in buffers:
            if left < len(chunk):
                out[head] = memoryview(chunk)[left:]
                break
            left -= len(chunk)
            head += 1
        return sent, head

    def _sent(self, count: int) -> None:
        self.unsent_bytes -= count
        self.sent_bytes = total = self.sent_bytes + count
        done = bisect_right(self._answer_ends, total)
        if done:
            answers = self._answers[:done]
            del self._answers[:done], self._answer_ends[:done]
            self._frames.on_sent(answers, self._clock_ns())

    def _wait_for_room(self) -> None:
        if not self._waiting_for_room:
            self._waiting_for_room = True
            self._stream.on_writable(self._on_writable)
        if self.unsent_bytes > self._settings.max_unsent_bytes:
            self.hold(HOLD_UNSENT)

    def _on_writable(self) -> None:
        self._waiting_for_room = False
        self.last_active_ns = self._clock_ns()
        self.flush()
        if self.closed:
            return
        if not self._waiting_for_room:
            self._stream.on_writable(None)
        self._has_room()

    def _has_room(self) -> None:
        if self._holds & HOLD_UNSENT and self.unsent_bytes <= self._settings.max_unsent_bytes // 2:
            self.release(HOLD_UNSENT)
        if self._draining and not self.unsent_bytes:
            self.close("closed by the client")

    # Ends

    def _end_of_stream(self) -> None:
        if self._frame is not None:
            self._frames.on_cut_short(self._filled, self._frame_size)
        elif self._prefix:
            self._frames.on_cut_short(len(self._prefix), None)
        if self.unsent_bytes and not self._draining:
            self._stream.on_readable(None)
            self._draining = True
            self.flush()
        else:
            self.close("closed by the client")

    def _lost(self, error: OSError) -> None:
        self.close(error.strerror or type(error).__name__)

    def fail(self, reason: str) -> None:
        """End the connection because of what the peer sent; earlier answers may still leave."""
        self.flush()
        self.close(reason)

    def close(self, reason: str) -> None:
        """End the connection now. Idempotent."""
        if self.closed:
            return
        self.closed = True
        for timer in (self._idle, self._throttle):
            if timer is not None:
                timer.cancel()
        self._stream.close()
        self._out = []
        self._answers = []
        self._answer_ends = []
        self._backlog = None
        self._frame = None
        self._prefix = b""
        self.unsent_bytes = 0
        self._frames.on_closed(reason)
        if self.when_closed is not None:
            self.when_closed(self)

    def _arm_idle(self, delay_ms: int) -> None:
        self._idle = self._environment.wheel.add(delay_ms, self._check_idle)

    def _check_idle(self) -> None:
        max_idle_ms = self._settings.max_idle_ms
        idle_ms = (self._clock_ns() - self.last_active_ns) // 1_000_000
        if self._frames.busy and not self.unsent_bytes:
            idle_ms = 0
        if idle_ms >= max_idle_ms:
            self.close("idle for too long")
        else:
            self._arm_idle(max_idle_ms - idle_ms)


def _read(chunk: FileChunk) -> bytes:
    data = chunk.read()
    if len(data) != len(chunk):
        raise EOFError(f"{chunk!r} is shorter than it was")
    return data
