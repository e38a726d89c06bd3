"""What must hold inside the replicas of partitions, whatever happens.

One leader an epoch. While a node lives, its replica's leader epoch and high watermark never go back.
What is below a high watermark is the same record on every node and for ever. Nobody leads without
everything that was ever committed, and whoever the leader counts as in sync holds everything below
the leader's high watermark.

The rules are looked at after every event, of which few change anything: what did not change since the
last look is passed over.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.record.read import Record, read_records
from barnabas.sim.history import Place

if TYPE_CHECKING:
    from barnabas.log.log import Log
    from barnabas.replica.partition import Partition
    from barnabas.sim.machine import Machine

Topic = tuple[str, bytes, int]
"""A partition for ever: a topic of the same name that is made later is another one."""

_READ_BYTES = 1 << 20


@dataclass(slots=True)
class _Seen:
    """A replica at the last look. `compared` is how far its records have been compared."""

    log: Log
    epoch: int = -1
    leader: int = -1
    watermark: int = 0
    end: int = 0
    isr: Sequence[int] = ()
    compared: int = 0


class PartitionRules:
    def __init__(self, machines: Sequence[Machine], broken: Callable[[str], object]) -> None:
        self._machines = machines
        self._broken = broken
        self._seen: dict[str, tuple[int, dict[Place, _Seen]]] = {}
        self._leaders: dict[Topic, dict[int, str]] = {}
        self._ends: dict[Topic, int] = {}
        self._records: dict[Topic, dict[int, int]] = {}

    def check(self, machine: Machine) -> None:
        """After an event on this machine."""
        node = machine.node
        if node is None:
            return
        life, replicas = self._seen.get(machine.name, (0, {}))
        if life != machine.starts:
            replicas = {}
            self._seen[machine.name] = (machine.starts, replicas)
        for place, partition in node.replicas.partitions.items():
            log = partition.log
            if log is None:
                continue
            seen = replicas.get(place)
            if seen is None or seen.log is not log:
                seen = replicas[place] = _Seen(log)
            elif (
                seen.watermark == log.high_watermark
                and seen.end == log.log_end_offset
                and seen.isr is partition.isr
                and seen.epoch == partition.leader_epoch
                and seen.leader == partition.leader_id
            ):
                continue
            self._check(machine, partition, log, seen)
            seen.epoch, seen.leader, seen.isr = (
                partition.leader_epoch,
                partition.leader_id,
                partition.isr,
            )
            seen.watermark, seen.end = log.high_watermark, log.log_end_offset

    def is_committed(self, place: Place, offset: int) -> bool:
        """Some node has known the record at this offset to be committed."""
        return any(
            offset in records
            for (name, _, index), records in self._records.items()
            if (name, index) == place
        )

    def _check(self, machine: Machine, partition: Partition, log: Log, seen: _Seen) -> None:
        topic = (partition.topic, partition.topic_id, partition.index)
        where = f"{partition.key} on {machine.name}"
        epoch, watermark, end = partition.leader_epoch, log.high_watermark, log.log_end_offset
        if epoch < seen.epoch:
            self._broken(f"{where}: the leader epoch went from {seen.epoch} back to {epoch}")
        if watermark < seen.watermark:
            self._broken(f"{where}: the high watermark went from {seen.watermark} to {watermark}")
        if watermark > end:
            self._broken(f"{where}: the high watermark {watermark} is beyond the end of the log")
        if watermark > seen.compared:
            self._compare(machine, topic, where, log, seen)
        if partition.is_leader:
            self._check_leader(machine, partition, topic, where, log)
        elif end < seen.end:
            self._check_cut(machine, partition)

    def _compare(self, machine: Machine, topic: Topic, where: str, log: Log, seen: _Seen) -> None:
        """The records that this node has learned to be committed since the last look."""
        known = self._records.setdefault(topic, {})
        with machine.disk.well():
            for record in records_of(log, seen.compared, log.high_watermark):
                mark = zlib.crc32(record.value or b"", zlib.crc32(record.key or b""))
                if known.setdefault(record.offset, mark) != mark:
                    self._broken(
                        f"{where}: the committed record at offset {record.offset} is another one"
                    )
        seen.compared = log.high_watermark

    def _check_leader(
        self, machine: Machine, partition: Partition, topic: Topic, where: str, log: Log
    ) -> None:
        epoch = partition.leader_epoch
        leaders = self._leaders.setdefault(topic, {})
        leader = leaders.setdefault(epoch, machine.name)
        if leader != machine.name:
            self._broken(f"{partition.key}: {leader} and {machine.name} both lead in epoch {epoch}")
        committed = self._ends.get(topic, 0)
        if log.log_end_offset < committed and epoch == max(leaders):
            self._broken(
                f"{where} leads in epoch {epoch} up to offset {log.log_end_offset}, but "
                f"{committed} had been committed"
            )
        self._ends[topic] = max(committed, log.high_watermark)
        for other in self._machines:
            if other is not machine:
                self._check_in_sync(partition, log.high_watermark, other)

    def _check_cut(self, machine: Machine, partition: Partition) -> None:
        """A follower's log became shorter."""
        for other in self._machines:
            found = other.node and other.node.replicas.partitions.get(partition.key)
            if found and found.is_leader and found.log is not None:
                self._check_in_sync(found, found.log.high_watermark, machine)

    def _check_in_sync(self, leader: Partition, watermark: int, machine: Machine) -> None:
        """This machine's replica, if the leader counts it as in sync."""
        if machine.node is None or machine.config.node_id not in leader.isr:
            return
        replica = machine.node.replicas.partitions.get(leader.key)
        if replica is None or replica.log is None or replica.topic_id != leader.topic_id:
            return
        is_news = not machine.is_running or replica.partition_epoch > leader.partition_epoch
        if is_news and not leader.flush_before_ack:
            return  # it comes from a power cut, and the leader has not learned that yet
        if replica.leader_epoch <= leader.leader_epoch and replica.log.log_end_offset < watermark:
            self._broken(
                f"{leader.key}: {machine.name} is in sync with {replica.log.log_end_offset} records "
                f"while {watermark} are committed"
            )


def records_of(log: Log, start: int, end: int) -> Iterator[Record]:
    """What a log holds from `start` to before `end`; compaction leaves gaps."""
    offset = max(start, log.log_start_offset)
    while offset < end:
        data = log.read(offset, _READ_BYTES, end, True).records
        before = offset
        for record in read_records(data if isinstance(data, bytes) else data.read(), control=True):
            if record.offset >= offset:
                yield record
                offset = record.offset + 1
        if offset == before:
            return
