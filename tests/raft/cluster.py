"""Replicas of the metadata log on simulated disks, with a network and a clock made by hand.

Messages go through the codec both ways, in the version that both would choose. Nothing happens by
itself: the caller decides what is delivered, lost, flushed, and when.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from barnabas.log.disk import FileRange
from barnabas.raft.connections import Send
from barnabas.raft.listener import Loaded
from barnabas.raft.log import LogSettings, MetadataLog
from barnabas.raft.quorum_state import QuorumStateFile
from barnabas.raft.raft import Raft
from barnabas.raft.settings import RaftSettings
from barnabas.raft.snapshot import SnapshotId, write_snapshot
from barnabas.raft.voters import VoterEndpoint, VoterNode, VoterSet
from barnabas.wire.codec import decode, encode
from barnabas.wire.message import Message
from barnabas.wire.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from barnabas.wire.messages.fetch import FetchResponse
from barnabas.wire.messages.fetch_snapshot import FetchSnapshotResponse
from tests.log.simulated_disk import SimulatedDisk

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
PORT = 9093


def directory_of(node_id: int, generation: int = 0) -> bytes:
    return bytes([generation] * 8 + [node_id + 100] * 8)


def endpoint_of(node_id: int) -> VoterEndpoint:
    return VoterEndpoint("CONTROLLER", f"n{node_id}", PORT)


def static_voters(ids: Sequence[int]) -> VoterSet:
    return VoterSet(tuple(VoterNode(each, endpoints=(endpoint_of(each),)) for each in ids))


def dynamic_voters(ids: Sequence[int]) -> VoterSet:
    return VoterSet(
        tuple(VoterNode(each, directory_of(each), (endpoint_of(each),)) for each in ids)
    )


@dataclass
class Recorder:
    """A listener that keeps what it is told."""

    told: list[tuple[int, int, tuple[bytes, ...]]] = field(default_factory=list)
    snapshot_offset: int = 0
    snapshot_values: tuple[bytes, ...] = ()
    leading: int | None = None
    events: list[str] = field(default_factory=list)
    checked: int = 0

    @property
    def values(self) -> list[bytes]:
        return [*self.snapshot_values, *(value for _, _, each in self.told for value in each)]

    @property
    def next_offset(self) -> int:
        return self.told[-1][0] + 1 if self.told else self.snapshot_offset

    def load_snapshot(self, loaded: Loaded) -> None:
        assert loaded.is_snapshot
        self.told = []
        self.checked = 0
        self.snapshot_offset = loaded.last_offset + 1
        self.snapshot_values = tuple(loaded.values)
        self.events.append(f"load_snapshot {loaded.last_offset + 1} {len(loaded.values)} records")

    def committed(self, loaded: Loaded) -> None:
        expected = self.next_offset + max(len(loaded.values), 1) - 1
        if loaded.values:
            assert loaded.last_offset == expected, "every batch once and in order"
        else:
            assert loaded.last_offset >= expected
        self.told.append((loaded.last_offset, loaded.epoch, tuple(loaded.values)))
        what = " ".join(value.decode() for value in loaded.values) or "control"
        self.events.append(f"committed {loaded.last_offset} epoch {loaded.epoch}: {what}")

    def began_leading(self, epoch: int) -> None:
        assert self.leading is None
        self.leading = epoch
        self.events.append(f"began_leading {epoch}")

    def stopped_leading(self) -> None:
        assert self.leading is not None
        self.leading = None
        self.events.append("stopped_leading")

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        self.events.append(f"leader_changed {leader_id} epoch {epoch}")


class Node:
    """One replica, its disk, and the part of the driver that is not the network."""

    def __init__(
        self,
        node_id: int,
        *,
        voters: VoterSet | None = None,
        initial: VoterSet | None = None,
        can_vote: bool = True,
        bootstrap: Sequence[int] = (),
        settings: RaftSettings | None = None,
        seed: int = 0,
        generation: int = 0,
    ) -> None:
        self.node_id = node_id
        self.disk = SimulatedDisk()
        self.disk.make_directory("/d")
        self.disk.sync_directory("")
        self.disk.sync_directory("/d")
        self.voters = voters
        self.can_vote = can_vote
        self.bootstrap = [(f"n{each}", PORT) for each in bootstrap]
        self.settings = settings or RaftSettings()
        self.random = random.Random(f"{seed} {node_id}")
        self.directory_id = directory_of(node_id, generation)
        self.raft: Raft | None = None
        self.recorder = Recorder()
        if initial is not None:
            self._format(initial)

    def _format(self, voters: VoterSet) -> None:
        directory = "/d/__cluster_metadata-0"
        self.disk.make_directory(directory)
        data = write_snapshot(
            [], epoch=0, now_ms=0, last_contained_timestamp_ms=0, kraft_version=1, voters=voters
        )
        self.disk.write_atomically(f"{directory}/{SnapshotId(0, 0).file_name}", data)
        self.disk.sync_directory("/d")

    def start(self, now_ms: int) -> Raft:
        assert self.raft is None
        self.recorder = Recorder()
        log = MetadataLog.open(self.disk, "/d", LogSettings(), now_ms)
        self.raft = Raft(
            log=log,
            state_file=QuorumStateFile(self.disk, "/d"),
            node_id=self.node_id,
            directory_id=self.directory_id,
            cluster_id=CLUSTER_ID,
            can_vote=self.can_vote,
            static_voters=self.voters,
            bootstrap_servers=self.bootstrap,
            own_endpoints=[endpoint_of(self.node_id)] if self.can_vote else [],
            settings=self.settings,
            randomness=self.random,
            listener=self.recorder,
        )
        self.raft.start(now_ms)
        return self.raft

    def crash(self, *, power: bool) -> None:
        assert self.raft is not None
        self.raft.log.abandon()
        self.raft = None
        if power:
            self.disk.power_cut(self.random)
        else:
            self.disk.kill()

    def flush(self, now_ms: int) -> bool:
        raft = self.raft
        if raft is None or not raft.wants_flush:
            return False
        raft.flushed(raft.log.sync(), now_ms)
        return True

    def snapshot(self) -> SnapshotId | None:
        """Write a snapshot of everything that was told."""
        raft = self.raft
        assert raft is not None
        recorder = self.recorder
        if not recorder.told:
            return None
        found = SnapshotId(recorder.next_offset, recorder.told[-1][1])
        version, voters = raft.voters_at(found.offset)
        data = write_snapshot(
            recorder.values,
            epoch=found.epoch,
            now_ms=0,
            last_contained_timestamp_ms=0,
            kraft_version=version,
            voters=voters,
        )
        raft.log.store_snapshot(found, data)
        raft.snapshot_stored(found)
        return found

    def forget_log(self) -> None:
        """As `MetadataLog.clean` does when the log has become too large."""
        raft = self.raft
        assert raft is not None
        log = raft.log
        newest = log.snapshots[-1]
        for old in log.snapshots[:-1]:
            self.disk.remove(f"{log.directory}/{old.file_name}")
        log.snapshots = [newest]
        log._log.increment_log_start_offset(newest.offset)


def through_the_wire(message: Message, version: int) -> Message:
    """Encoded and decoded again, as the peer sees it."""
    if isinstance(message, FetchResponse):
        for topic in message.responses:
            for each in topic.partitions:
                each.records = _content(each.records)
    elif isinstance(message, FetchSnapshotResponse):
        for snapshot_topic in message.topics:
            for part in snapshot_topic.partitions:
                part.unaligned_records = _content(part.unaligned_records)
    return decode(type(message), version, encode(message, version))


def _content(records: object) -> object:
    return records.read() if isinstance(records, FileRange) else records


def versions_response() -> ApiVersionsResponse:
    feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    return ApiVersionsResponse(supported_features=[feature])


def version_of(send: Send) -> int:
    return type(send.request).VERSIONS[1]


def is_api_versions(send: Send) -> bool:
    return isinstance(send.request, ApiVersionsRequest)
