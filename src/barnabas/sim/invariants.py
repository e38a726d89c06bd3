"""Rules about the inside of the nodes, looked at from above, where everything is visible at once.

Of the quorum: one leader an epoch; epochs never go back, not even over a restart; what is committed at
an offset is the same on every node and for ever.

Of partitions: one leader an epoch; the high watermark never goes back while a node leads or follows in
one epoch; nobody leads without everything that was ever committed; whoever the leader counts as
in sync holds everything below the high watermark.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from barnabas.record.read import read_records
from barnabas.sim.history import Place

if TYPE_CHECKING:
    from barnabas.log.log import Log
    from barnabas.raft.raft import Raft
    from barnabas.replica.partition import Partition
    from barnabas.sim.machine import Machine
    from barnabas.sim.simulation import Simulation

EVERY = 20


class Invariants:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._countdown = EVERY
        self._quorum_leaders: dict[int, str] = {}
        self._epochs: dict[str, int] = {}
        self._metadata: dict[int, int] = {}
        self._metadata_read: dict[str, tuple[int, int]] = {}
        self._leaders: dict[tuple[Place, int], str] = {}
        self._watermarks: dict[tuple[str, Place], tuple[int, int, int]] = {}
        self._committed: dict[Place, int] = {}

    def after_event(self) -> None:
        """Called very often: most of the time it only counts."""
        self._countdown -= 1
        if self._countdown > 0:
            return
        self._countdown = EVERY
        for machine in self._simulation.machines:
            raft = machine.raft
            if raft is not None:
                with machine.disk.well():
                    self._check_quorum(machine, raft)
        for machine in self._simulation.machines:
            if machine.node is not None:
                for place, partition in machine.node.replicas.partitions.items():
                    if partition.log is not None:
                        self._check_partition(machine, place, partition, partition.log)

    def _broken(self, rule: str) -> None:
        self._simulation.fail(rule)

    # ---- the quorum

    def _check_quorum(self, machine: Machine, raft: Raft) -> None:
        epoch = raft.epoch
        if raft.is_leader:
            leader = self._quorum_leaders.setdefault(epoch, machine.name)
            if leader != machine.name:
                self._broken(f"{leader} and {machine.name} both lead the quorum in epoch {epoch}")
        if epoch < self._epochs.get(machine.name, 0):
            self._broken(
                f"the quorum's epoch on {machine.name} went from {self._epochs[machine.name]} "
                f"back to {epoch}"
            )
        self._epochs[machine.name] = epoch
        self._check_metadata(machine, raft)

    def _check_metadata(self, machine: Machine, raft: Raft) -> None:
        """The committed batches that this node has got since the last look."""
        log, end = raft.log, raft.high_watermark
        life, position = self._metadata_read.get(machine.name, (0, 0))
        if life != machine.starts:
            position = 0
        position = max(position, log.start_offset)
        if end <= position:
            return
        for batch in log.batches(position, end):
            mark = zlib.crc32(b"\0".join(batch.values), batch.epoch)
            known = self._metadata.setdefault(batch.last_offset, mark)
            if known != mark:
                self._broken(
                    f"committed metadata up to offset {batch.last_offset} differs on {machine.name}"
                )
        self._metadata_read[machine.name] = (machine.starts, end)

    # ---- partitions

    def _check_partition(
        self, machine: Machine, place: Place, partition: Partition, log: Log
    ) -> None:
        epoch, watermark = partition.leader_epoch, log.high_watermark
        where = f"{place} on {machine.name}"
        life, known_epoch, known = self._watermarks.get((machine.name, place), (0, 0, 0))
        if (life, known_epoch) == (machine.starts, epoch) and watermark < known:
            self._broken(f"{where}: the high watermark went from {known} back to {watermark}")
        if watermark > log.log_end_offset:
            self._broken(f"{where}: the high watermark {watermark} is beyond the end of the log")
        self._watermarks[machine.name, place] = (machine.starts, epoch, watermark)
        if partition.is_leader:
            leader = self._leaders.setdefault((place, epoch), machine.name)
            if leader != machine.name:
                self._broken(f"{place}: {leader} and {machine.name} both lead in epoch {epoch}")
            committed = self._committed.get(place, 0)
            if log.log_end_offset < committed and self._is_newest(place, epoch):
                self._broken(
                    f"{where} leads in epoch {epoch} up to offset {log.log_end_offset}, but "
                    f"{committed} had been committed"
                )
            self._committed[place] = max(committed, watermark)
            self._check_isr(place, partition, watermark)

    def _is_newest(self, place: Place, epoch: int) -> bool:
        return not any(other == place and later > epoch for other, later in self._leaders)

    def _check_isr(self, place: Place, partition: Partition, watermark: int) -> None:
        for machine in self._simulation.machines:
            if machine.node is None or machine.config.node_id not in partition.isr:
                continue
            replica = machine.node.replicas.partitions.get(place)
            if not partition.flush_before_ack and not machine.is_running:
                continue  # the controller learns only now that it comes from a power cut
            if (
                replica is None
                or replica.log is None
                or replica.leader_epoch > partition.leader_epoch
            ):
                continue
            if replica.log.log_end_offset < watermark:
                self._broken(
                    f"{place}: {machine.name} is in sync with {replica.log.log_end_offset} records "
                    f"while {watermark} are committed"
                )

    # ---- the end

    def waits_for(self) -> str | None:
        machines = self._simulation.machines
        for machine in machines:
            if not machine.is_running:
                return f"{machine.name}, which does not run"
        offsets = {machine.name: machine.image_offset for machine in machines}
        if len(set(offsets.values())) > 1:
            return f"the metadata, which the nodes know up to {offsets}"
        for machine in machines:
            assert machine.node is not None
            for place, partition in machine.node.replicas.partitions.items():
                if partition.is_leader and len(partition.isr) < len(partition.replicas):
                    return f"{place}, in sync are {partition.isr} of {partition.replicas}"
        return None

    def check_end(self) -> None:
        """Every replica holds what was read, and everybody knows the same metadata."""
        machines = self._simulation.machines
        images = {machine.image_mark for machine in machines}
        if len(images) > 1:
            self._broken("the nodes' images of the metadata differ")
        known = {name: topic.topic_id for name, topic in machines[0].topics.items()}
        for name, topic_id in self._simulation.history.topics.items():
            if known.get(name) != topic_id:
                self._broken(f"topic {name} was made and is not there")
        for place, records in self._simulation.history.records.items():
            for machine in machines:
                assert machine.node is not None
                partition = machine.node.replicas.partitions.get(place)
                if partition is None or partition.log is None:
                    continue
                found = _values(partition.log)
                if any(
                    found[offset] != value for offset, value in records.items() if offset in found
                ):
                    self._broken(f"{place} on {machine.name} holds other records than were read")
                if partition.is_leader and len(found) < len(records):
                    self._broken(
                        f"{place} on {machine.name} holds {len(found)} records, {len(records)} were read"
                    )


def _values(log: Log) -> dict[int, bytes]:
    found = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20, log.log_end_offset, True).records
        for record in read_records(data if isinstance(data, bytes) else data.read(), control=True):
            found[record.offset] = bytes(record.value or b"")
            offset = record.offset + 1
    return found
