"""Who votes, by offset: every set of voters that stands in the log, and the level of `kraft.version`.

A set counts from the moment it is in the log, committed or not, and no longer if the log is
truncated before it: then the one before it counts again. Before the first one, the voters are those
of the configuration.
"""

from __future__ import annotations

from barnabas.raft.log import LogBatch
from barnabas.raft.snapshot import Snapshot, SnapshotId
from barnabas.raft.voters import VoterSet
from barnabas.record.control import ControlType
from barnabas.wire.records.raft import KRaftVersionRecord, VotersRecord, decode_control_record

_BEFORE_ALL = -1


class VoterHistory:
    def __init__(self, static_voters: VoterSet) -> None:
        self._static = static_voters
        self._voters: list[tuple[int, VoterSet]] = []
        self._versions: list[tuple[int, int]] = []

    @property
    def last(self) -> VoterSet:
        return self._voters[-1][1] if self._voters else self._static

    @property
    def last_offset(self) -> int:
        """Where the last set stands; -1 if it is in no part of the log."""
        return self._voters[-1][0] if self._voters else _BEFORE_ALL

    @property
    def kraft_version(self) -> int:
        return self._versions[-1][1] if self._versions else 0

    @property
    def version_offset(self) -> int:
        return self._versions[-1][0] if self._versions else _BEFORE_ALL

    def at(self, offset: int) -> VoterSet:
        """The set that counts where the log ends at `offset`."""
        return next((each for at, each in reversed(self._voters) if at < offset), self._static)

    def kraft_version_at(self, offset: int) -> int:
        return next((each for at, each in reversed(self._versions) if at < offset), 0)

    def update_static(self, voters: VoterSet) -> None:
        """Something was learned of the voters of the configuration, such as their directories."""
        self._static = voters

    def load_snapshot(self, snapshot_id: SnapshotId, snapshot: Snapshot) -> None:
        """A snapshot replaces everything. The one at offset 0 is written by formatting."""
        self._voters = []
        self._versions = []
        offset = snapshot_id.offset - 1
        if snapshot.kraft_version is not None:
            self._versions.append((offset, snapshot.kraft_version))
        if snapshot.voters is not None:
            self._voters.append((offset, snapshot.voters))

    def observe(self, batch: LogBatch) -> bool:
        """True if the batch changes who votes."""
        changed = False
        for control in batch.controls:
            if control.type is ControlType.KRAFT_VERSION:
                level = decode_control_record(KRaftVersionRecord, control.value)
                self._versions.append((control.offset, level.kraft_version))
                changed = True
            elif control.type is ControlType.KRAFT_VOTERS:
                record = decode_control_record(VotersRecord, control.value)
                self._voters.append((control.offset, VoterSet.from_record(record)))
                changed = True
        return changed

    def truncate(self, end_offset: int) -> None:
        self._voters = [each for each in self._voters if each[0] < end_offset]
        self._versions = [each for each in self._versions if each[0] < end_offset]
