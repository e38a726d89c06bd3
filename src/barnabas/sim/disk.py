"""A disk in memory that can lose power.

Every file has what readers see and what has been synced; every directory has the names that are
visible and those that have been synced, with the changes in between in order. After a power cut a
file keeps its synced bytes and any part of what was appended since (perhaps with zeros or garbage
at the end, or with a page of zeros in the middle), a directory keeps its synced names and any first
few of the changes since. A kill of the process loses nothing. Chosen paths can be made to fail, and
the disk can run full.
"""

from __future__ import annotations

import contextlib
import errno
import random
from collections.abc import Callable, Iterator, Sequence

PAGE = 4096
ENDLESS = 1 << 30


class Inode:
    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = b""
        self.modified_ms = 0

    def cut(self, rng: random.Random) -> None:
        data, synced = bytes(self.data), self.synced
        if data == synced:
            return
        if data.startswith(synced):
            kept = data[: rng.randint(len(synced), len(data))]
            lost = len(data) - len(kept)
            damage = rng.randrange(4)
            if damage == 0:
                kept += bytes(lost)
            elif damage == 1 and lost:
                kept += rng.randbytes(rng.randint(1, lost))
            elif damage == 2 and len(kept) > len(synced):
                hole = rng.randrange(len(synced), len(kept))
                end = min(hole + PAGE - hole % PAGE, len(kept))
                kept = kept[:hole] + bytes(end - hole) + kept[end:]
            data = kept
        else:
            data = rng.choice([synced, data])
        self.data = bytearray(data)
        self.synced = data


class SimulatedFile:
    """An open file. `size` is the writer's own idea of where the file ends."""

    def __init__(self, disk: SimulatedDisk, path: str, inode: Inode) -> None:
        self.path = path
        self.size = len(inode.data)
        self._disk = disk
        self._inode = inode

    def append(self, data: bytes | bytearray | memoryview) -> None:
        self._disk.check("append", self.path)
        self._disk.take_space(len(data), self.path)
        self._inode.data[self.size : self.size + len(data)] = data
        self.size += len(data)
        self._inode.modified_ms = self._disk.now_ms

    def read_at(self, position: int, length: int) -> bytes:
        self._disk.check("read", self.path)
        return bytes(self._inode.data[position : position + length])

    def truncate(self, size: int) -> None:
        self._disk.check("truncate", self.path)
        data = self._inode.data
        if size < len(data):
            del data[size:]
        else:
            data.extend(bytes(size - len(data)))
        self.size = size

    def preallocate(self, size: int) -> None:
        self._inode.data.extend(bytes(max(size - len(self._inode.data), 0)))

    def sync(self) -> None:
        self._disk.check("sync", self.path)
        self._inode.synced = bytes(self._inode.data)
        self._disk.syncs += 1

    def fileno(self) -> int | None:
        return None

    def close(self) -> None:
        return


Change = Callable[[dict[str, "Inode | None"]], None]


class SimulatedDisk:
    """Paths to inodes; a directory is a name whose inode is None."""

    def __init__(self) -> None:
        self.names: dict[str, Inode | None] = {"": None}
        self.synced_names: dict[str, Inode | None] = {"": None}
        self.changes: dict[str, list[Change]] = {}
        self.clock: Callable[[], int] = lambda: 0
        self.space = ENDLESS
        self.syncs = 0
        self.fails: Callable[[str, str], bool] = lambda operation, path: False
        self._locks: dict[str, object] = {}

    @property
    def now_ms(self) -> int:
        return self.clock()

    @now_ms.setter
    def now_ms(self, now_ms: int) -> None:
        self.clock = lambda: now_ms

    def check(self, operation: str, path: str) -> None:
        if self.fails(operation, path):
            raise OSError(errno.EIO, f"simulated failure to {operation}", path)

    @contextlib.contextmanager
    def well(self) -> Iterator[None]:
        """For onlookers: nothing fails meanwhile."""
        fails, self.fails = self.fails, lambda operation, path: False
        try:
            yield
        finally:
            self.fails = fails

    def take_space(self, size: int, path: str) -> None:
        """`space` is what is left until the disk is full; what is removed gives nothing back."""
        if self.space < size:
            raise OSError(errno.ENOSPC, "no space left on the simulated disk", path)
        if self.space < ENDLESS:
            self.space -= size

    # -- the worst

    def power_cut(self, rng: random.Random) -> None:
        for changes in self.changes.values():
            for change in changes[: rng.randint(0, len(changes))]:
                change(self.synced_names)
        self.changes.clear()
        # A name below a directory that did not survive is gone with it.
        self.names = {"": None}
        for path in sorted(self.synced_names):
            if path.rpartition("/")[0] in self.names:
                self.names[path] = self.synced_names[path]
        self.synced_names = dict(self.names)
        for inode in self.names.values():
            if inode is not None:
                inode.cut(rng)
        self._locks.clear()

    def sync_everything(self) -> None:
        for directory in list(self.changes):
            self.sync_directory(directory)

    def kill(self) -> None:
        self._locks.clear()

    # -- the interface

    def _change(self, path: str, change: Change) -> None:
        change(self.names)
        self.changes.setdefault(path.rpartition("/")[0], []).append(change)

    def _inode(self, path: str) -> Inode:
        inode = self.names.get(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return inode

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        self.check("open", path)
        if path not in self.names and create:
            if path.rpartition("/")[0] not in self.names:
                raise FileNotFoundError(errno.ENOENT, "no such directory", path)
            inode = Inode()
            inode.modified_ms = self.now_ms
            self._change(path, lambda names: names.__setitem__(path, inode))
        return SimulatedFile(self, path, self._inode(path))

    def exists(self, path: str) -> bool:
        return path in self.names

    def size_of(self, path: str) -> int:
        return len(self._inode(path).data)

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._inode(path).modified_ms = modified_ms

    def list(self, directory: str) -> Sequence[str]:
        self.check("list", directory)
        if directory not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such directory", directory)
        start = directory + "/"
        return sorted(
            path[len(start) :]
            for path in self.names
            if path.startswith(start) and "/" not in path[len(start) :]
        )

    def rename(self, source: str, target: str) -> None:
        self.check("rename", source)
        if source not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        below = source + "/"

        def change(names: dict[str, Inode | None]) -> None:
            for path in [path for path in names if path == source or path.startswith(below)]:
                names[target + path[len(source) :]] = names.pop(path)

        self._change(source, change)
        moved = self.changes.pop(source, None)
        if moved is not None:
            # What had not been synced in a renamed directory counts as synced: simpler, and kinder.
            for each in moved:
                each(self.synced_names)

    def remove(self, path: str) -> None:
        self.check("remove", path)
        self._inode(path)

        def change(names: dict[str, Inode | None]) -> None:
            names.pop(path, None)

        self._change(path, change)

    def remove_tree(self, directory: str) -> None:
        self.check("remove", directory)
        if directory not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such directory", directory)
        below = directory + "/"

        def change(names: dict[str, Inode | None]) -> None:
            for path in [path for path in names if path == directory or path.startswith(below)]:
                del names[path]

        self.changes.pop(directory, None)
        self._change(directory, change)

    def make_directory(self, path: str) -> None:
        self.check("mkdir", path)
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            name = "/".join(parts[:count])
            if name not in self.names:
                self._change(name, lambda names, name=name: names.__setitem__(name, None))  # type: ignore[misc]

    def sync_directory(self, path: str) -> None:
        self.check("sync", path)
        for change in self.changes.pop("" if path == "/" else path, []):
            change(self.synced_names)
        self.syncs += 1

    def free_space(self, path: str) -> int:
        self.check("statfs", path)
        return self.space

    def total_space(self, path: str) -> int:
        self.check("statfs", path)
        return 1 << 31

    def read_file(self, path: str) -> bytes:
        self.check("read", path)
        return bytes(self._inode(path).data)

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        file = self.open(path + ".tmp", create=True)
        file.truncate(0)
        file.append(data)
        if sync:
            file.sync()
        self.rename(path + ".tmp", path)
        if sync:
            self.sync_directory(path.rpartition("/")[0])

    def lock(self, path: str) -> object | None:
        self.open(path, create=True)
        return object()
