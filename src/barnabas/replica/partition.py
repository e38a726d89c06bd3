"""One partition on this broker: its log, who leads it, and how far it is committed.

The high watermark is the first offset that is not yet committed: every in-sync replica has everything
below it. The leader's own position counts as well, and what that position is depends on the flush
policy. By default it is the log end, as the operating system has been given the bytes. With
`barnabas.flush.before.ack` it is the flushed offset, so nothing is acknowledged or shown to a consumer
before an fsync covered it.

A leader with followers keeps the position of each. It waits for all of the maximal ISR (those in sync,
and those proposed to be) and for followers that are about to join, so that none of them can miss what
a client was told is safe. While fewer replicas are in sync than `min.insync.replicas` asks for, nothing
becomes committed. A follower joins once it reaches the high watermark and the start of this leader's
epoch; it is dropped when it has not been caught up for `replica.lag.time.max.ms`.

Invariants: the high watermark never goes back while a leader epoch lasts, and
`log_start_offset <= high_watermark <= log_end_offset`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.log.log import UnexpectedOffset
from barnabas.replica.followers import UNKNOWN_EPOCH, Follower
from barnabas.replica.isr import Proposal
from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.log.log import AppendInfo, AppendOrigin, Log
    from barnabas.metadata.image import PartitionRegistration
    from barnabas.replica.isr import IsrManager

NO_LEADER_EPOCH = -1


def append_replicated(
    log: Log, records: memoryview | bytes, now_ms: int, leader_epoch: int | None = None
) -> None:
    """Append batches of another replica. A log may begin inside a batch, from which records were
    deleted; the copy of an empty one then begins with that batch."""
    try:
        log.append_as_follower(records, now_ms, leader_epoch)
    except UnexpectedOffset as error:
        end_offset = log.log_end_offset
        if log.log_start_offset != end_offset or not error.first < end_offset <= error.last:
            raise
        log.truncate_fully_and_start_at(error.first, now_ms)
        log.append_as_follower(records, now_ms, leader_epoch)


class Partition:
    __slots__ = (
        "assigned_directory",
        "fetcher",
        "flush_before_ack",
        "followers",
        "index",
        "isr",
        "isr_manager",
        "key",
        "leader_epoch",
        "leader_epoch_start_offset",
        "leader_id",
        "log",
        "lost_directory",
        "maximal_isr",
        "node_id",
        "partition_epoch",
        "pending",
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
        isr_manager: IsrManager,
        *,
        flush_before_ack: bool = False,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.key = (topic, index)
        self.node_id = node_id
        self.log = log
        # The path of a directory that failed and had the log.
        self.lost_directory: str | None = None
        # The id of the log directory that the metadata has the replica in; None: it does not say.
        self.assigned_directory: bytes | None = None
        self.isr_manager = isr_manager
        self.flush_before_ack = flush_before_ack
        self.leader_id = -1
        self.leader_epoch = NO_LEADER_EPOCH
        self.leader_epoch_start_offset = -1
        self.partition_epoch = -1
        self.isr: list[int] = []
        self.maximal_isr: frozenset[int] = frozenset()
        self.pending: Proposal | None = None
        self.replicas: list[int] = []
        # As leader, all other replicas; as follower, none.
        self.followers: dict[int, Follower] = {}
        # As follower, which fetcher has it: the leader and the fetcher's number.
        self.fetcher: tuple[int, int] | None = None

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index}, leader {self.leader_id}@{self.leader_epoch})"

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self.node_id

    # ---- following the metadata

    def apply(self, registration: PartitionRegistration, now_ms: int = 0) -> bool:
        """Take over what the metadata log says; True if it was news."""
        self.assigned_directory = registration.directory(self.node_id)
        if registration.partition_epoch < self.partition_epoch:
            return False
        if (
            registration.partition_epoch == self.partition_epoch
            and registration.leader_epoch == self.leader_epoch
        ):
            return False  # the answer to our own proposal told it already
        new_epoch = registration.leader_epoch > self.leader_epoch
        self.leader_id = registration.leader
        self.leader_epoch = registration.leader_epoch
        self.partition_epoch = registration.partition_epoch
        self.isr = list(registration.isr)
        self.replicas = list(registration.replicas)
        self.forget_proposal()
        if self.is_leader:
            self._lead(new_epoch, now_ms)
        else:
            self.followers = {}
            self.leader_epoch_start_offset = -1
        return True

    def _lead(self, new_epoch: bool, now_ms: int) -> None:
        known = self.followers
        self.followers = {
            replica: known.get(replica) or Follower(replica)
            for replica in self.replicas
            if replica != self.node_id
        }
        if new_epoch:
            for follower in self.followers.values():
                follower.reset(now_ms, in_sync=follower.broker_id in self.isr)
            if self.log is not None:
                self.leader_epoch_start_offset = self.log.log_end_offset
                self.log.start_leader_epoch(self.leader_epoch)
        if self.log is not None:
            self.maybe_advance_high_watermark(now_ms)

    # ---- finding the log

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

    def replica_log(self, current_leader_epoch: int = NO_LEADER_EPOCH) -> Log:
        """The log, also of a follower: for readers that may go to the replica next to them."""
        if current_leader_epoch != NO_LEADER_EPOCH:
            self.check_leader_epoch(current_leader_epoch)
        return self.online_log()

    # ---- leading: appending

    @property
    def min_insync_replicas(self) -> int:
        """How many must be in sync; never more than there are replicas."""
        return min(self.online_log().config.min_insync_replicas, len(self.replicas))

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

    def maybe_advance_high_watermark(self, now_ms: int = 0) -> bool:
        """Raise the high watermark to what every in-sync replica has; True if it moved."""
        log = self.log
        if log is None or self.leader_id != self.node_id:
            return False
        position = log.flushed_offset if self.flush_before_ack else log.log_end_offset
        if position <= log.high_watermark:
            return False
        if self.followers:
            position = self._replicated_below(position, log, now_ms)
            if position <= log.high_watermark:
                return False
        log.update_high_watermark(position)
        return True

    def _replicated_below(self, position: int, log: Log, now_ms: int) -> int:
        if len(self.isr) < min(log.config.min_insync_replicas, len(self.replicas)):
            return log.high_watermark
        end = log.log_end_offset
        manager = self.isr_manager
        for follower in self.followers.values():
            if follower.log_end_offset < position and (
                follower.broker_id in self.maximal_isr
                or (
                    follower.is_caught_up(end, now_ms, manager.settings.lag_time_max_ms)
                    and manager.is_eligible(follower.broker_id, follower.broker_epoch)
                )
            ):
                position = follower.log_end_offset
        return position

    # ---- leading: followers

    def follower(self, replica_id: int, current_leader_epoch: int) -> Follower:
        found = self.followers.get(replica_id)
        if found is None:
            # One that knows this epoch will learn of its assignment, or that it has none, later.
            raise ApiError(
                ErrorCode.UNKNOWN_LEADER_EPOCH
                if current_leader_epoch != NO_LEADER_EPOCH
                else ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Broker {replica_id} is not a replica of {self.topic}-{self.index}.",
            )
        return found

    def follower_fetched(
        self,
        follower: Follower,
        fetch_offset: int,
        log_start_offset: int,
        broker_epoch: int,
        now_ms: int,
    ) -> bool:
        """A follower asked for `fetch_offset`, so it has all below; True if something moved."""
        log = self.online_log()
        before_end = follower.log_end_offset
        before_start = follower.log_start_offset
        follower.fetched(fetch_offset, log_start_offset, broker_epoch, log.log_end_offset, now_ms)
        if follower.broker_id not in self.maximal_isr:
            self._maybe_expand(follower, log)
        moved = log_start_offset != before_start
        if fetch_offset != before_end and self.maybe_advance_high_watermark(now_ms):
            moved = True
        return moved

    def _maybe_expand(self, follower: Follower, log: Log) -> None:
        if (
            self.pending is None
            and follower.log_end_offset >= log.high_watermark
            and follower.log_end_offset >= self.leader_epoch_start_offset
            and self.isr_manager.is_eligible(follower.broker_id, follower.broker_epoch)
        ):
            self._propose([*self.isr, follower.broker_id])

    def maybe_shrink(self, now_ms: int) -> bool:
        """Propose to drop followers that have been behind for too long; True if there are any."""
        log = self.log
        if self.pending is not None or log is None or not self.is_leader:
            return False
        end = log.log_end_offset
        limit_ms = self.isr_manager.settings.lag_time_max_ms
        late = {
            follower.broker_id
            for follower in self.followers.values()
            if follower.broker_id in self.isr and not follower.is_caught_up(end, now_ms, limit_ms)
        }
        if not late:
            return False
        self._propose([replica for replica in self.isr if replica not in late])
        return True

    def _propose(self, isr: list[int]) -> None:
        assert self.pending is None
        assert self.node_id in isr
        members: list[tuple[int, int]] = []
        for replica in isr:
            if replica == self.node_id:
                epoch: int | None = self.isr_manager.broker_epoch()
            else:
                epoch = self.followers[replica].broker_epoch if replica in self.followers else None
            members.append((replica, UNKNOWN_EPOCH if epoch is None else epoch))
        self.pending = Proposal(tuple(members), self.leader_epoch, self.partition_epoch)
        self.maximal_isr = frozenset(self.isr) | frozenset(isr)
        self.isr_manager.submit(self)

    def isr_committed(self, leader_epoch: int, partition_epoch: int, isr: Sequence[int]) -> bool:
        """The controller took our proposal; False if that is old news."""
        if leader_epoch != self.leader_epoch or partition_epoch < self.partition_epoch:
            return False
        self.partition_epoch = partition_epoch
        self.isr = list(isr)
        self.forget_proposal()
        return True

    def forget_proposal(self) -> None:
        self.pending = None
        self.maximal_isr = frozenset(self.isr)

    @property
    def low_watermark(self) -> int:
        """The highest start of all live replicas' logs: what lies below can be read nowhere."""
        start = self.leader_log().log_start_offset
        for follower in self.followers.values():
            if self.isr_manager.is_alive(follower.broker_id):
                start = min(start, follower.log_start_offset)
        return start

    @property
    def is_under_replicated(self) -> bool:
        return self.is_leader and len(self.isr) < len(self.replicas)

    @property
    def is_under_min_isr(self) -> bool:
        return self.is_leader and self.log is not None and len(self.isr) < self.min_insync_replicas

    # ---- following

    def replicate(
        self,
        records: memoryview | bytes | None,
        leader_high_watermark: int,
        leader_log_start_offset: int,
        now_ms: int,
    ) -> bool:
        """Append what the leader sent and learn how far it is committed; True if that moved."""
        log = self.online_log()
        if records:
            append_replicated(log, records, now_ms, self.leader_epoch)
        before = log.high_watermark
        if leader_high_watermark > before:
            log.update_high_watermark(leader_high_watermark)
        if leader_log_start_offset > log.log_start_offset:
            log.increment_log_start_offset(min(leader_log_start_offset, log.high_watermark))
        return log.high_watermark != before
