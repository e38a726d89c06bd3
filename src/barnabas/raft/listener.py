"""What a replica of the metadata log tells the node that it belongs to.

Everything committed is told once and in order: first the newest snapshot, then every batch after
it. A snapshot that comes later, because the replica had fallen too far behind, replaces all that
was told before it. Calls are never nested: what a listener does in one of them, such as appending,
is told after it has returned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Loaded:
    """Records of one snapshot or batch that count: they are in the log up to `last_offset`."""

    values: list[bytes]
    last_offset: int
    epoch: int
    timestamp_ms: int
    size: int
    is_snapshot: bool


class RaftListener(Protocol):
    def load_snapshot(self, loaded: Loaded) -> None:
        """Forget everything and start anew from this."""

    def committed(self, loaded: Loaded) -> None:
        """The next batch; one of control records has no values."""

    def began_leading(self, epoch: int) -> None:
        """This node leads, and everything of earlier epochs is committed and told."""

    def stopped_leading(self) -> None:
        """Told only after `began_leading`."""

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        """The leader is -1 while it is not known."""
