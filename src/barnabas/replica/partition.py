"""One partition on this broker: its log, who leads it, and how far it is committed.

The high watermark is the first offset that is not yet committed: every in-sync replica has everything
below it. The leader's own position counts as well, and what that position is depends on the flush
policy. By default it is the log end, as the operating system has been given the bytes. With
`barnabas.flush.before.ack` it is the flushed offset, so nothing is acknowledged or shown to a consumer
before an fsync covered it.

Invariants: the high watermark never goes back while a leader epoch lasts, and
`log_start_offset <= high_watermark <= log_end_offset`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.log.log import AppendInfo, AppendOrigin, Log
    from barnabas.metadata.image import PartitionRegistration

NO_LEADER_EPOCH = -1


class Partition:
    __slots__ = (
        "flush_before_ack",
        "index",
        "isr",
        "key",
        "leader_epoch",
        "leader_id",
        "log",
        "node_id",
        "partition_epoch",
        "replicas",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        node_id: int,
        log: Log | None,
        *,
        flush_before_ack: bool = False,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.key = (topic, index)
        self.node_id = node_id
        self.log = log
        self.flush_before_ack = flush_before_ack
        self.leader_id = -1
        self.leader_epoch = NO_LEADER_EPOCH
        self.partition_epoch = -1
        self.isr: list[int] = []
        self.replicas: list[int] = []

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index}, leader {self.leader_id}@{self.leader_epoch})"

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self.node_id

    def apply(self, registration: PartitionRegistration) -> bool:
        """Take over what the metadata log says; True if this broker has just become the leader."""
        if registration.partition_epoch < self.partition_epoch:
            return False
        new_epoch = registration.leader_epoch > self.leader_epoch
        self.leader_id = registration.leader
        self.leader_epoch = registration.leader_epoch
        self.partition_epoch = registration.partition_epoch
        self.isr = list(registration.isr)
        self.replicas = list(registration.replicas)
        became_leader = new_epoch and self.is_leader
        if became_leader and self.log is not None:
            self.log.start_leader_epoch(self.leader_epoch)
            self.maybe_advance_high_watermark()
        return became_leader

    def online_log(self) -> Log:
        if self.log is None:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Replica {self.node_id} of partition {self.topic}-{self.index} "
                "is in an offline log directory.",
            )
        return self.log

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """A client that knows a leader epoch must know the present one (KIP-320)."""
        if current_leader_epoch == NO_LEADER_EPOCH or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def leader_log(self, current_leader_epoch: int = NO_LEADER_EPOCH) -> Log:
        """The log, provided that this broker leads the partition in the epoch the peer knows."""
        if current_leader_epoch != NO_LEADER_EPOCH:
            self.check_leader_epoch(current_leader_epoch)
        if self.leader_id != self.node_id:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.online_log()

    def append(
        self, records: memoryview, now_ms: int, origin: AppendOrigin, *, acks_all: bool
    ) -> AppendInfo:
        log = self.leader_log()
        if acks_all:
            minimum = min(log.config.min_insync_replicas, len(self.replicas))
            if len(self.isr) < minimum:
                raise ApiError(
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    f"The size of the current ISR {self.isr} is insufficient to satisfy the "
                    f"min.isr requirement of {minimum} for partition {self.topic}-{self.index}",
                )
        return log.append_as_leader(records, self.leader_epoch, now_ms, origin)

    def maybe_advance_high_watermark(self) -> bool:
        """Raise the high watermark to what every in-sync replica has; True if it moved."""
        log = self.log
        if log is None or self.leader_id != self.node_id:
            return False
        position = log.flushed_offset if self.flush_before_ack else log.log_end_offset
        if position <= log.high_watermark:
            return False
        log.update_high_watermark(position)
        return True
