"""The real disk: positional reads and writes on file descriptors, nothing buffered in Python.

`RealFile` keeps the file's logical size itself and writes at that position, so a write that fails
half way (a full disk) is undone by truncating and never leaves a torn batch behind a good one. A
file is closed when the last object that refers to it goes, because a `FileRange` may still be on
its way to a socket when retention removes the segment.
"""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, wait
from typing import ClassVar, TypeVar

from barnabas.seams import Background, Disk, DiskFile

__all__ = [
    "Background",
    "Disk",
    "DiskFile",
    "FileRange",
    "InlineBackground",
    "RealDisk",
    "RealFile",
    "ThreadBackground",
]

Result = TypeVar("Result")

MIN_OPEN_SEGMENTS = 16
MAX_OPEN_SEGMENTS = 2048
LONG_WORK_S = 0.1
WORKS_TO_JUDGE = 8


class FileRange:
    """Some bytes of a file. What a Fetch response carries in place of records.

    The connection sends it with sendfile when `fileno()` gives a descriptor, else through `read()`.
    """

    __slots__ = ("file", "length", "position")

    def __init__(self, file: DiskFile, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"FileRange(position={self.position}, length={self.length})"

    def fileno(self) -> int | None:
        return self.file.fileno()

    def read(self) -> bytes:
        return self.file.read_at(self.position, self.length)

    def slice(self, start: int, length: int) -> FileRange:
        """A part of this range; what a sender has left after `start` bytes."""
        return FileRange(self.file, self.position + start, min(length, self.length - start))


class RealFile:
    __slots__ = ("_fd", "path", "size")

    def __init__(self, path: str, fd: int, size: int) -> None:
        self.path = path
        self.size = size
        self._fd = fd

    def append(self, data: bytes | bytearray | memoryview) -> None:
        size = self.size
        length = len(data)
        try:
            written = os.pwrite(self._fd, data, size)
            if written != length:
                view = memoryview(data)
                while written < length:
                    written += os.pwrite(self._fd, view[written:], size + written)
        except OSError:
            self._undo(size)
            raise
        self.size = size + length

    def _undo(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, size)
        except OSError:
            return  # the write error that brought us here is the one to report

    def read_at(self, position: int, length: int) -> bytes:
        data = os.pread(self._fd, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        got = len(data)
        while got < length:
            more = os.pread(self._fd, length - got, position + got)
            if not more:
                break
            parts.append(more)
            got += len(more)
        return b"".join(parts)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self.size = size

    def preallocate(self, size: int) -> None:
        if size > self.size:
            os.posix_fallocate(self._fd, self.size, size - self.size)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class FileLock:
    """A POSIX lock, which Java's FileLock also takes: the two exclude one another.

    Such a lock belongs to the process: it keeps no second node of the same process out, and is lost
    when any other descriptor of its file is closed. So what this process holds is remembered.
    """

    _held: ClassVar[set[tuple[int, int]]] = set()

    def __init__(self, fd: int, file: tuple[int, int]) -> None:
        self._fd = fd
        self._file = file
        self._held.add(file)

    @classmethod
    def take(cls, path: str) -> FileLock | None:
        try:
            if _identity(os.stat(path)) in cls._held:
                return None
        except FileNotFoundError:
            pass
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return None
        return cls(fd, _identity(os.fstat(fd)))

    def __del__(self) -> None:
        self._held.discard(self._file)
        os.close(self._fd)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


class RealDisk:
    """The file system of this machine."""

    def open(self, path: str, *, create: bool = False) -> RealFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        fd = os.open(path, flags, 0o644)
        return RealFile(path, fd, os.fstat(fd).st_size)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size_of(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def list(self, directory: str) -> Sequence[str]:
        return sorted(os.listdir(directory))

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_tree(self, directory: str) -> None:
        shutil.rmtree(directory)

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def sync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def free_space(self, path: str) -> int:
        facts = os.statvfs(path)
        return facts.f_bavail * facts.f_frsize

    def total_space(self, path: str) -> int:
        facts = os.statvfs(path)
        return facts.f_blocks * facts.f_frsize

    def read_file(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        with open(temporary, "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
        if sync:
            self.sync_directory(os.path.dirname(path))

    def lock(self, path: str) -> object | None:
        return FileLock.take(path)


def open_segments_limit() -> int:
    """How many segments may be open at once: each has up to four files, and connections need
    descriptors too."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_OPEN_SEGMENTS
    return max(min(soft // 8, MAX_OPEN_SEGMENTS), MIN_OPEN_SEGMENTS)


class InlineBackground:
    """Runs long work at once, in the caller. For tools and tests."""

    def submit(
        self,
        work: Callable[[], Result],
        done: Callable[[Result | None, Exception | None], None],
    ) -> None:
        try:
            result = work()
        except Exception as error:
            done(None, error)
        else:
            done(result, None)

    def run_all(self, works: Sequence[Callable[[], None]]) -> None:
        for work in works:
            work()


class ThreadBackground:
    """Runs long work in an executor; `post` brings a callback back to the loop's thread."""

    def __init__(self, executor: Executor, post: Callable[[Callable[[], object]], object]) -> None:
        self._executor = executor
        self._post = post

    def submit(
        self,
        work: Callable[[], Result],
        done: Callable[[Result | None, Exception | None], None],
    ) -> None:
        def run() -> None:
            try:
                result = work()
            except Exception as error:
                failure = error
                self._post(lambda: done(None, failure))
            else:
                self._post(lambda: done(result, None))

        self._executor.submit(run)

    def run_all(self, works: Sequence[Callable[[], None]]) -> None:
        """Threads share one interpreter: thousands of short works are done sooner one by one. They
        help as soon as a work is long, or the disk makes us wait for most of the time."""
        began_s, began_cpu_s = time.monotonic(), time.thread_time()
        last_s = began_s
        for count, work in enumerate(works, 1):
            work()
            now_s = time.monotonic()
            waits = now_s - began_s > 2 * (time.thread_time() - began_cpu_s)
            if now_s - last_s > LONG_WORK_S or (waits and count >= WORKS_TO_JUDGE):
                wait([self._executor.submit(work) for work in works[count:]])
                return
            last_s = now_s
