"""Reading for a Fetch: now if there is enough, else when there is.

A fetch that finds fewer than `min_bytes` waits in the purgatory until an append, a leadership change
or a deletion touches one of its partitions, or `max_wait_ms` is over. While it waits it keeps, for each
partition, the bound it last saw and the bytes below it, so that a wake-up looks only at partitions that
moved. When it completes it reads everything once more, since what it saw first may be old by then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.delayed.purgatory import DelayedOperation
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.fetch import AbortedTransaction, EpochEndOffset, PartitionData

if TYPE_CHECKING:
    from barnabas.log.log import Log
    from barnabas.replica.fetch_session import FetchTarget
    from barnabas.replica.manager import ReplicaManager
    from barnabas.replica.partition import Partition

READ_COMMITTED = 1
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

Results = list[tuple["FetchTarget", PartitionData]]


class Fetch(DelayedOperation):
    __slots__ = (
        "_done",
        "_seen",
        "client_rack",
        "max_bytes",
        "min_bytes",
        "read_committed",
        "replicas",
        "targets",
    )

    def __init__(
        self,
        replicas: ReplicaManager,
        targets: list[FetchTarget],
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation_level: int,
        client_rack: str | None,
        done: Callable[[Results], None],
    ) -> None:
        super().__init__(max_wait_ms)
        self.replicas = replicas
        self.targets = targets
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.read_committed = isolation_level == READ_COMMITTED
        # None: a client too old to be sent to a follower, or to be answered by one.
        self.client_rack = client_rack
        self._done = done
        self._seen: list[list[int]] = []

    def read(self) -> tuple[Results, int, bool]:
        """Read every target: results, their bytes, and whether one of them cannot wait."""
        results: Results = []
        left = self.max_bytes
        total = 0
        urgent = False
        read_one = self.read_one
        for target in self.targets:
            data = read_one(target, left, total == 0)
            if (
                data.error_code
                or data.diverging_epoch.epoch >= 0
                or data.preferred_read_replica >= 0
            ):
                urgent = True
            size = len(data.records)
            total += size
            left = left - size if left > size else 0
            results.append((target, data))
        return results, total, urgent

    def read_one(self, target: FetchTarget, left: int, at_least_one: bool) -> PartitionData:
        try:
            partition = self.replicas.partition_of(target.topic, target.topic_id, target.index)
            if self.client_rack is None:
                log = partition.leader_log(target.leader_epoch)
            else:
                log = partition.replica_log(target.leader_epoch)
                if self.client_rack and self.replicas.rack_aware:
                    nearest = self.replicas.nearest(partition, self.client_rack, target)
                    if nearest is not None:
                        data = _nothing(target, log)
                        data.preferred_read_replica = nearest
                        return data
            if target.last_fetched_epoch >= 0:
                diverging = _divergence(partition, target)
                if diverging is not None:
                    data = _nothing(target, log)
                    data.diverging_epoch = diverging
                    return data
            limit = target.max_bytes if target.max_bytes < left else left
            bound = log.last_stable_offset if self.read_committed else log.high_watermark
            result = log.read(
                target.fetch_offset,
                limit if limit > 0 else 0,
                bound,
                at_least_one,
                with_aborted=self.read_committed,
            )
            aborted = None
            if self.read_committed:
                aborted = [
                    AbortedTransaction(
                        producer_id=entry.producer_id, first_offset=entry.first_offset
                    )
                    for entry in result.aborted_transactions
                ]
            return PartitionData(
                partition_index=target.index,
                high_watermark=log.high_watermark,
                last_stable_offset=log.last_stable_offset,
                log_start_offset=log.log_start_offset,
                aborted_transactions=aborted,
                records=result.records,
            )
        except ApiError as error:
            return self._refused(target, error.code)
        except OSError as error:
            self.replicas.log_failed(target.topic, target.index, error)
            return self._refused(target, ErrorCode.KAFKA_STORAGE_ERROR)

    def _refused(self, target: FetchTarget, code: ErrorCode) -> PartitionData:
        data = PartitionData(
            partition_index=target.index,
            error_code=code,
            high_watermark=-1,
            aborted_transactions=[] if code in _UNKNOWN else None,
            records=b"",
        )
        if code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            leader_id, leader_epoch = self.replicas.leader_of(target.topic, target.index)
            data.current_leader.leader_id = leader_id
            data.current_leader.leader_epoch = leader_epoch
        return data

    def watch(self, results: Results) -> list[tuple[str, int]]:
        """Remember what the first read saw; gives the keys to watch."""
        keys: list[tuple[str, int]] = []
        for target, data in results:
            bound = data.last_stable_offset if self.read_committed else data.high_watermark
            self._seen.append([bound, len(data.records)])
            keys.append((target.topic or "", target.index))
        return keys

    def try_complete(self) -> bool:
        total = 0
        for target, seen in zip(self.targets, self._seen, strict=True):
            partition = self.replicas.find(target.topic, target.index)
            if partition is None or partition.log is None:
                return self.force_complete()
            if self.client_rack is None and not partition.is_leader:
                return self.force_complete()
            if target.leader_epoch >= 0 and target.leader_epoch != partition.leader_epoch:
                return self.force_complete()
            log = partition.log
            bound = log.last_stable_offset if self.read_committed else log.high_watermark
            if bound != seen[0]:
                if target.fetch_offset < log.log_start_offset or bound < target.fetch_offset:
                    return self.force_complete()
                if bound > target.fetch_offset and self.min_bytes <= 1:
                    return self.force_complete()
                seen[0] = bound
                seen[1] = len(self.read_one(target, target.max_bytes, True).records)
            total += seen[1]
        return total >= self.min_bytes and self.force_complete()

    def on_complete(self) -> None:
        self._done(self.read()[0])


class FollowerFetch(Fetch):
    """A follower's Fetch: it reads to the end of the log, and what it asks for tells what it has.

    While the leader's quota is exceeded, partitions of throttled replicas that are not in sync have
    nothing for it."""

    __slots__ = ("now_ms", "replica_epoch", "replica_id")

    def __init__(
        self,
        replicas: ReplicaManager,
        targets: list[FetchTarget],
        *,
        replica_id: int,
        replica_epoch: int,
        now_ms: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        done: Callable[[Results], None],
    ) -> None:
        super().__init__(
            replicas,
            targets,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=0,
            client_rack=None,
            done=done,
        )
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch
        self.now_ms = now_ms

    def read_one(self, target: FetchTarget, left: int, at_least_one: bool) -> PartitionData:
        try:
            partition = self.replicas.partition_of(target.topic, target.topic_id, target.index)
            log = partition.leader_log(target.leader_epoch)
            follower = partition.follower(self.replica_id, target.leader_epoch)
            data = _nothing(target, log)
            if target.last_fetched_epoch >= 0:
                diverging = _divergence(partition, target)
                if diverging is not None:
                    data.diverging_epoch = diverging
                    return data
            limit = max(min(target.max_bytes, left), 0)
            data.records = log.read(
                target.fetch_offset, limit, log.log_end_offset, at_least_one
            ).records
            if partition.follower_fetched(
                follower,
                target.fetch_offset,
                target.log_start_offset,
                self.replica_epoch,
                self.now_ms,
            ):
                self.replicas.moved(partition)
            if self._is_held_back(partition):
                data.records = b""
            return data
        except ApiError as error:
            return self._refused(target, error.code)
        except OSError as error:
            self.replicas.log_failed(target.topic, target.index, error)
            return self._refused(target, ErrorCode.KAFKA_STORAGE_ERROR)

    def _is_held_back(self, partition: Partition) -> bool:
        return self.replica_id not in partition.isr and self.replicas.leader_quota.holds_back(
            partition.topic, partition.index, self.replicas.logs.now_ms()
        )

    def count(self, results: Results) -> None:
        """These results are sent: what throttled replicas get of them counts."""
        quota = self.replicas.leader_quota
        size = sum(
            len(data.records)
            for target, data in results
            if data.records and target.topic and quota.is_throttled(target.topic, target.index)
        )
        if size:
            quota.record(size, self.replicas.logs.now_ms())

    def on_complete(self) -> None:
        results = self.read()[0]
        self.count(results)
        self._done(results)

    def watch(self, results: Results) -> list[tuple[str, int]]:
        return [(target.topic or "", target.index) for target in self.targets]

    def try_complete(self) -> bool:
        total = 0
        for target in self.targets:
            partition = self.replicas.find(target.topic, target.index)
            if partition is None or partition.log is None or not partition.is_leader:
                return self.force_complete()
            if target.leader_epoch >= 0 and target.leader_epoch != partition.leader_epoch:
                return self.force_complete()
            log = partition.log
            if not log.log_start_offset <= target.fetch_offset <= log.log_end_offset:
                return self.force_complete()
            if target.fetch_offset < log.log_end_offset and not self._is_held_back(partition):
                if self.min_bytes <= 1:
                    return self.force_complete()
                limit = target.max_bytes
                found = log.read(target.fetch_offset, limit, log.log_end_offset, True).records
                total += len(found)
        return total >= self.min_bytes and self.force_complete()


def _nothing(target: FetchTarget, log: Log) -> PartitionData:
    return PartitionData(
        partition_index=target.index,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        records=b"",
    )


def _divergence(partition: Partition, target: FetchTarget) -> EpochEndOffset | None:
    """Where the reader's history and ours part ways, if they do (KIP-595)."""
    epoch, end_offset = partition.online_log().epoch_end_offset(target.last_fetched_epoch)
    if end_offset < 0 or epoch < 0:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < target.last_fetched_epoch or end_offset < target.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None
