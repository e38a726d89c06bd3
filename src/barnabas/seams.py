"""What a node takes from the world, as interfaces that are handed to it.

Only types live here. The real implementations are thin (`log/disk.py` for files), the simulated
ones run the same node in virtual time from one seed. A module of the core names these types and
never opens a file, starts a thread or reads a clock by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class DiskFile(Protocol):
    """An append-only file with positional reads. `size` is what was appended, not what is synced.

    A file stays readable through this object after it is renamed or removed; it is closed by
    `close()` or when nobody refers to it any more.
    """

    size: int

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Write all of `data` at the end, or leave the file as it was and raise OSError."""

    def read_at(self, position: int, length: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""

    def truncate(self, size: int) -> None: ...

    def preallocate(self, size: int) -> None:
        """Reserve space without changing `size`; a later truncate gives it back."""

    def sync(self) -> None:
        """Make everything appended so far survive a power cut. May run in another thread."""

    def fileno(self) -> int | None:
        """A descriptor for sendfile, or None where there is none."""

    def close(self) -> None: ...


class Disk(Protocol):
    """A file system. All failures are OSError."""

    def open(self, path: str, *, create: bool = False) -> DiskFile: ...

    def exists(self, path: str) -> bool: ...

    def size_of(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None: ...

    def list(self, directory: str) -> Sequence[str]:
        """Names in a directory, sorted."""

    def rename(self, source: str, target: str) -> None:
        """Atomic; replaces `target`."""

    def remove(self, path: str) -> None: ...

    def remove_tree(self, directory: str) -> None: ...

    def make_directory(self, path: str) -> None:
        """With its parents; an existing one is fine."""

    def sync_directory(self, path: str) -> None: ...

    def free_space(self, path: str) -> int: ...

    def total_space(self, path: str) -> int: ...

    def read_file(self, path: str) -> bytes: ...

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Through `path + ".tmp"` and a rename: afterwards the file is the old one or the new one."""

    def lock(self, path: str) -> object | None:
        """Hold an exclusive lock until the result is dropped; None if another process has it."""


class Background(Protocol):
    """Where long work goes, so that the loop never waits for it."""

    def submit(
        self,
        work: Callable[[], Result],
        done: Callable[[Result | None, Exception | None], None],
    ) -> None:
        """Run `work` in a thread, then `done(result, error)` on the loop."""

    def run_all(self, works: Sequence[Callable[[], None]]) -> None:
        """Run all, possibly in parallel, and wait. For start-up only. The works never raise."""


class Clock(Protocol):
    """Time. Records and retention use the wall clock; deadlines and durations the monotonic one."""

    def now_ms(self) -> int:
        """Milliseconds since 1970; may jump."""

    def monotonic_ms(self) -> int:
        """Milliseconds of a clock that never goes back; the same clock as `monotonic_ns`."""

    def monotonic_ns(self) -> int: ...


class Randomness(Protocol):
    """Ids, jitter and choices. `random.Random(seed)` is one."""

    def random(self) -> float:
        """In [0, 1)."""

    def randrange(self, stop: int, /) -> int:
        """In [0, stop)."""

    def randbytes(self, n: int, /) -> bytes: ...


Address = tuple[str, int]
Buffer = bytes | bytearray | memoryview


class Stream(Protocol):
    """One connected stream of bytes. Nothing here waits: what would block raises BlockingIOError.

    Failures are OSError. TLS is a stream over a stream.
    """

    local_address: Address
    peer_address: Address

    def recv_into(self, buffer: memoryview, /) -> int:
        """How many bytes were received; 0 when the peer will send no more."""

    def send(self, data: Buffer, /) -> int: ...

    def sendmsg(self, buffers: Sequence[Buffer], more: bool, /) -> int:
        """Send several buffers; `more` says that further bytes follow at once."""

    def sendfile(self, fileno: int, position: int, count: int, /) -> int:
        """Send from a file without copying; 0 at the end of the file."""

    def on_readable(self, callback: Callable[[], object] | None, /) -> None:
        """Call back while there is something to receive; None stops it."""

    def on_writable(self, callback: Callable[[], object] | None, /) -> None:
        """Call back while there is room to send; None stops it."""

    def close(self) -> None:
        """Idempotent. What was sent before is still delivered."""


class Listening(Protocol):
    """A listening address. While paused, new peers wait in the backlog."""

    @property
    def addresses(self) -> Sequence[Address]: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None: ...


class Transport(Protocol):
    def listen(
        self,
        host: str,
        port: int,
        accepted: Callable[[Stream], object],
        *,
        backlog: int,
        send_buffer_bytes: int,
        receive_buffer_bytes: int,
    ) -> Listening:
        """Listen on every address of `host` (empty: all interfaces); port 0 picks a free one."""

    async def connect(self, host: str, port: int) -> Stream: ...
