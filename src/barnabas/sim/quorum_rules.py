"""What must hold inside the quorum, whatever happens.

One leader an epoch. On a node epochs never go back, not even over a restart; its high watermark and
what it knows of the metadata never go back while it lives. What is committed at an offset is the
same on every node and for ever.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.raft.raft import Raft
    from barnabas.sim.machine import Machine


@dataclass(slots=True)
class _Seen:
    """A node at the last look. `compared` is how far its committed log has been compared."""

    life: int = 0
    epoch: int = 0
    is_leader: bool = False
    high_watermark: int = 0
    image_offset: int = -1
    compared: int = 0


class QuorumRules:
    def __init__(self, broken: Callable[[str], object]) -> None:
        self._broken = broken
        self._leaders: dict[int, str] = {}
        self._committed: dict[int, int] = {}
        self._seen: dict[str, _Seen] = {}

    def check(self, machine: Machine) -> None:
        raft = machine.raft
        if raft is None:
            return
        seen = self._seen.get(machine.name)
        if seen is None:
            seen = self._seen[machine.name] = _Seen()
        if seen.life != machine.starts:
            self._seen[machine.name] = seen = _Seen(life=machine.starts, epoch=seen.epoch)
        epoch, watermark, image = raft.epoch, raft.high_watermark, machine.image_offset
        for what, before, now in (
            ("epoch", seen.epoch, epoch),
            ("high watermark", seen.high_watermark, watermark),
            ("image", seen.image_offset, image),
        ):
            if now < before:
                self._broken(f"the quorum's {what} on {machine.name} went from {before} to {now}")
        if raft.is_leader and not (seen.is_leader and seen.epoch == epoch):
            leader = self._leaders.setdefault(epoch, machine.name)
            if leader != machine.name:
                self._broken(f"{leader} and {machine.name} both lead the quorum in epoch {epoch}")
        if watermark > seen.compared:
            self._compare(machine, raft, seen)
        seen.epoch, seen.high_watermark, seen.image_offset = epoch, watermark, image
        seen.is_leader = raft.is_leader

    def _compare(self, machine: Machine, raft: Raft, seen: _Seen) -> None:
        """The batches that this node has learned to be committed since the last look."""
        log, end = raft.log, raft.high_watermark
        with machine.disk.well():
            for batch in log.batches(max(seen.compared, log.start_offset), end):
                mark = zlib.crc32(b"\0".join(batch.values), batch.epoch)
                if self._committed.setdefault(batch.last_offset, mark) != mark:
                    self._broken(
                        f"committed metadata up to offset {batch.last_offset} differs on {machine.name}"
                    )
        seen.compared = end
