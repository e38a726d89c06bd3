"""A voter's view of its quorum: state, epoch, leader, voters.

Here it decides for a quorum of one: the voter raises the epoch, votes for itself, has thereby won,
and writes the beginning of its epoch into the log. Whatever is flushed is committed, since the
majority is this disk. Every step goes through the table of legal transitions, and what must not be
forgotten is on the disk before it counts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from barnabas.raft.errors import StorageError
from barnabas.raft.listener import Loaded
from barnabas.raft.log import LogBatch, MetadataLog
from barnabas.raft.quorum_state import NOBODY, Election, QuorumStateFile
from barnabas.raft.states import State, check_transition
from barnabas.raft.voters import VoterSet
from barnabas.record.control import ControlType
from barnabas.wire.records.raft import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
    VotersRecord,
    decode_control_record,
    encode_control_record,
)

__all__ = ["Loaded", "Quorum"]

logger = logging.getLogger(__name__)


class Quorum:
    def __init__(
        self,
        log: MetadataLog,
        state_file: QuorumStateFile,
        node_id: int,
        directory_id: bytes,
        static_voters: VoterSet,
    ) -> None:
        self.log = log
        self.node_id = node_id
        self.directory_id = directory_id
        self.kraft_version = 0
        self.voters = static_voters
        self._state_file = state_file
        self._voters_offset: int | None = None
        self._state = State.UNATTACHED
        self._election = Election(epoch=log.last_epoch)

    @property
    def state(self) -> State:
        return self._state

    @property
    def epoch(self) -> int:
        return self._election.epoch

    @property
    def leader_id(self) -> int:
        return self._election.leader_id

    @property
    def is_leader(self) -> bool:
        return self._state is State.LEADER

    # ---- loading

    def load(self) -> Iterator[Loaded]:
        """Everything that the newest snapshot and the log after it say, in order."""
        offset = self.log.start_offset
        newest = self.log.latest_snapshot
        if newest is not None:
            snapshot = self.log.read_snapshot(newest)
            if snapshot.kraft_version is not None:
                self.kraft_version = snapshot.kraft_version
            if snapshot.voters is not None:
                self.voters = snapshot.voters
                self._voters_offset = newest.offset - 1 if newest.offset > 0 else None
            offset = newest.offset
            self.log.last_timestamp_ms = snapshot.last_contained_timestamp_ms
            yield Loaded(
                snapshot.records,
                newest.offset - 1,
                newest.epoch,
                snapshot.last_contained_timestamp_ms,
                0,
                is_snapshot=True,
            )
        self.log.advance_high_watermark(self.log.end_offset)
        for batch in self.log.batches(offset):
            self._observe(batch)
            self.log.last_timestamp_ms = batch.timestamp_ms
            yield Loaded(
                list(batch.values),
                batch.last_offset,
                batch.epoch,
                batch.timestamp_ms,
                batch.size,
                is_snapshot=False,
            )

    def _observe(self, batch: LogBatch) -> None:
        for control in batch.controls:
            if control.type is ControlType.KRAFT_VERSION:
                level = decode_control_record(KRaftVersionRecord, control.value)
                self.kraft_version = level.kraft_version
            elif control.type is ControlType.KRAFT_VOTERS:
                self.voters = VoterSet.from_record(
                    decode_control_record(VotersRecord, control.value)
                )
                self._voters_offset = control.offset

    # ---- leading

    def lead(self, now_ms: int) -> int:
        """Become the leader of a new epoch; gives the offset of its first batch's end.

        Only after `load`, when the voters are known.
        """
        self._check_alone()
        stored = self._state_file.read()
        if stored is not None and stored.epoch >= self._election.epoch:
            self._election = stored
        epoch = self._election.epoch
        self._become(State.PROSPECTIVE, Election(epoch, self._election.leader_id), write=False)
        candidate = Election(epoch + 1, NOBODY, self.node_id, self.directory_id)
        self._become(State.CANDIDATE, candidate)
        self._become(State.LEADER, Election(epoch + 1, self.node_id))
        last_offset = self._begin_epoch(epoch + 1, now_ms)
        logger.info("node %d leads the metadata log in epoch %d", self.node_id, epoch + 1)
        return last_offset

    def _check_alone(self) -> None:
        if self.node_id not in self.voters.ids:
            raise StorageError(
                f"node {self.node_id} is not one of the voters {list(self.voters.ids)} of the "
                f"metadata log in {self.log.directory}"
            )
        if not self.voters.is_only(self.node_id):
            raise StorageError(
                f"the metadata log in {self.log.directory} has the voters {list(self.voters.ids)}; "
                "quorums of several controllers are not supported yet"
            )

    def _become(self, state: State, election: Election, *, write: bool = True) -> None:
        check_transition(self._state, self._election.epoch, state, election.epoch)
        if write:
            self._state_file.write(election, self.kraft_version, self.voters.ids)
        self._state = state
        self._election = election

    def _begin_epoch(self, epoch: int, now_ms: int) -> int:
        """The batch that every epoch begins with. Voters that so far stand in a snapshot before
        the log's beginning only, as after formatting, are repeated in the log."""
        change = LeaderChangeMessage(
            version=0,
            leader_id=self.node_id,
            voters=[LeaderChangeVoter(voter_id=voter_id) for voter_id in self.voters.ids],
            granting_voters=[LeaderChangeVoter(voter_id=self.node_id)],
        )
        controls = [(ControlType.LEADER_CHANGE, encode_control_record(change))]
        if self.kraft_version >= 1 and self._voters_offset is None:
            level = KRaftVersionRecord(version=0, kraft_version=self.kraft_version)
            controls += [
                (ControlType.KRAFT_VERSION, encode_control_record(level)),
                (ControlType.KRAFT_VOTERS, encode_control_record(self.voters.to_record())),
            ]
        last_offset = self.log.append_control(controls, epoch, now_ms)
        if len(controls) > 1:
            self._voters_offset = last_offset
        return last_offset

    def resign(self) -> None:
        """Lead no more; the next start begins a new epoch."""
        if self._state is State.LEADER:
            self._become(State.RESIGNED, self._election, write=False)
