"""Which leader epoch began at which offset: the file `leader-epoch-checkpoint` and its lookups.

Followers and consumers ask where an epoch ended to find the point up to which their log agrees with
the leader's (KIP-101, KIP-320). Entries ascend strictly in both columns; an epoch ends where the
next one starts. The file is written whenever the cache changes: a new epoch, a truncation, or a
start offset that moved. It is synced together with the log, so that becoming leader of a thousand
partitions does not wait for a thousand disk writes; what a power cut takes from it, recovery finds
again in the batches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from barnabas.log.checkpoints import CorruptCheckpoint, read_epochs, write_epochs
from barnabas.seams import Disk

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class LeaderEpochs:
    __slots__ = ("_disk", "_epochs", "_offsets", "latest", "path", "synced_version", "version")

    def __init__(
        self, disk: Disk, path: str, entries_at_start: Sequence[tuple[int, int]] = ()
    ) -> None:
        self.path = path
        self.version = self.synced_version = 0  # counts the changes
        self._disk = disk
        entries = entries_at_start
        self._epochs = [epoch for epoch, _ in entries]
        self._offsets = [offset for _, offset in entries]
        self.latest = self._epochs[-1] if entries else UNDEFINED_EPOCH

    @classmethod
    def load(cls, disk: Disk, path: str) -> LeaderEpochs | None:
        """None if there is no usable file: then the batches must tell."""
        try:
            if disk.size_of(path) == 0:
                return None
            return cls(disk, path, read_epochs(disk, path))
        except (FileNotFoundError, CorruptCheckpoint):
            return None

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._offsets, strict=True))

    def __len__(self) -> int:
        return len(self._epochs)

    def assign(self, epoch: int, start_offset: int) -> None:
        """`epoch` begins at `start_offset`; entries that contradict it are dropped."""
        if epoch < 0 or epoch == self.latest:
            return
        keep = len(self._epochs)
        while keep and (self._epochs[keep - 1] >= epoch or self._offsets[keep - 1] >= start_offset):
            keep -= 1
        del self._epochs[keep:]
        del self._offsets[keep:]
        self._epochs.append(epoch)
        self._offsets.append(start_offset)
        self._changed()

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """`(epoch, end offset)` of the largest epoch not above `epoch`; -1, -1 if unknown."""
        if epoch < 0 or not self._epochs:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        slot = bisect_right(self._epochs, epoch)
        if slot == len(self._epochs):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET  # newer than anything here
        if slot == 0:
            # Older than all we know: what begins our log is the best answer.
            return epoch, self._offsets[0]
        return self._epochs[slot - 1], self._offsets[slot]

    def epoch_of(self, offset: int) -> int:
        """The epoch in which the record at `offset` was written, or -1."""
        slot = bisect_right(self._offsets, offset)
        return self._epochs[slot - 1] if slot else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """The log now ends at `end_offset`."""
        if end_offset >= 0 and self._offsets and self._offsets[-1] >= end_offset:
            while self._offsets and self._offsets[-1] >= end_offset:
                self._offsets.pop()
                self._epochs.pop()
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now starts at `start_offset`; the epoch that holds it starts there too."""
        slot = bisect_right(self._offsets, start_offset) - 1
        if slot >= 0 and self._offsets[slot] < start_offset:
            del self._epochs[:slot]
            del self._offsets[:slot]
            self._offsets[0] = start_offset
            self._changed()

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._offsets.clear()
            self._changed()

    def _changed(self) -> None:
        self.latest = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH
        write_epochs(self._disk, self.path, self.entries())
        self.version += 1

    def sync(self) -> None:
        """Make the file durable, except for its name. Safe in another thread."""
        if self.version:
            self._disk.open(self.path).sync()

    def moved(self, path: str) -> None:
        self.path = path
