"""A group coordinator in virtual time over a log in memory.

Time moves only with `advance`, the log commits at once unless it is held, and ids count up, so the same
calls always give the same answers.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.coordinator.group.config import DEFAULT_LIMITS, GroupCoordinatorConfig, Limits
from barnabas.coordinator.group.coordinator import GroupCoordinator
from barnabas.coordinator.group.records import Record, decode
from barnabas.coordinator.group.shard import GroupShard
from barnabas.coordinator.partition_log import Appended, Chunk
from barnabas.delayed.timer import TimingWheel
from barnabas.record.batch import read_header
from barnabas.record.read import read_records
from barnabas.wire.errors import ApiError, ErrorCode

START_MS = 1_700_000_000_000


class VirtualClock:
    def __init__(self) -> None:
        self.ms = START_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def monotonic_ns(self) -> int:
        return self.ms * 1_000_000


class CountingRandomness:
    """Ids that count up: 1, 2, 3."""

    def __init__(self) -> None:
        self.count = 0

    def random(self) -> float:
        return 0.5

    def randrange(self, stop: int, /) -> int:
        return 0

    def randbytes(self, n: int, /) -> bytes:
        self.count += 1
        return self.count.to_bytes(n, "big")


class MemoryPartition:
    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.end_offset = 0
        self.high_watermark = 0
        self.listener: Callable[[int], None] | None = None


class MemoryLog:
    """A `PartitionLog`. While `held`, nothing that is appended is committed."""

    def __init__(self) -> None:
        self.partitions: dict[int, MemoryPartition] = {}
        self.held = False
        self.failures: list[ErrorCode] = []
        self.on_append: Callable[[int, bytes], None] | None = None
        self.read_count = 0

    def of(self, partition: int) -> MemoryPartition:
        return self.partitions.setdefault(partition, MemoryPartition())

    def append(self, partition: int, batch: bytearray, now_ms: int) -> Appended:
        if self.failures:
            raise ApiError(self.failures.pop(0))
        return self.append_raw(partition, batch)

    def append_raw(self, partition: int, batch: bytearray) -> Appended:
        at = self.of(partition)
        batch = bytearray(batch)
        batch[:8] = at.end_offset.to_bytes(8, "big")
        header = read_header(batch, 0)
        at.batches.append(bytes(batch))
        at.end_offset = header.next_offset
        if not self.held:
            at.high_watermark = at.end_offset
        if self.on_append is not None:
            self.on_append(partition, bytes(batch))
        return Appended(header.last_offset, at.high_watermark)

    def start_offset(self, partition: int) -> int:
        at = self.of(partition)
        return read_header(at.batches[0], 0).base_offset if at.batches else at.end_offset

    def read(self, partition: int, offset: int, max_bytes: int) -> Chunk:
        self.read_count += 1
        at = self.of(partition)
        chosen = bytearray()
        for batch in at.batches:
            if read_header(batch, 0).last_offset < offset:
                continue
            if chosen and len(chosen) + len(batch) > max_bytes:
                chosen += batch[: max_bytes - len(chosen)]
                break
            chosen += batch
        return Chunk(bytes(chosen), at.end_offset, at.high_watermark)

    def listen(self, partition: int, listener: Callable[[int], None]) -> None:
        self.of(partition).listener = listener

    def unlisten(self, partition: int) -> None:
        self.of(partition).listener = None

    def release(self) -> None:
        """Commit everything."""
        self.held = False
        for at in self.partitions.values():
            at.high_watermark = at.end_offset
            if at.listener is not None:
                at.listener(at.high_watermark)

    def records(self, partition: int) -> list[Record | None]:
        return [
            decode(record.key, record.value)
            for batch in self.of(partition).batches
            for record in read_records(batch)
        ]

    def size_in_bytes(self, partition: int) -> int:
        return sum(map(len, self.of(partition).batches))


class VirtualCoordinator:
    """One coordinator, its clock, its timers and its log. Give it another's log to restart it."""

    def __init__(
        self,
        config: GroupCoordinatorConfig | None = None,
        *,
        limits: Limits = DEFAULT_LIMITS,
        log: MemoryLog | None = None,
        clock: VirtualClock | None = None,
        randomness: CountingRandomness | None = None,
    ) -> None:
        self.clock = clock or VirtualClock()
        self.wheel = TimingWheel(self.clock.monotonic_ms)
        self.log = log or MemoryLog()
        self.config = config or GroupCoordinatorConfig(offsets_topic_num_partitions=1)
        self.randomness = randomness or CountingRandomness()
        self.limits = limits
        self.groups = GroupCoordinator(
            log=self.log,
            clock=self.clock,
            schedule=self.wheel.add,
            randomness=self.randomness,
            config=self.config,
            limits=limits,
        )

    def start(self, leader_epoch: int = 0) -> VirtualCoordinator:
        self.groups.start()
        for partition in range(self.config.offsets_topic_num_partitions):
            self.groups.become_leader(partition, leader_epoch)
        return self

    def successor(self) -> VirtualCoordinator:
        """Another coordinator over the same log, at the same time, not started."""
        return VirtualCoordinator(
            self.config,
            limits=self.limits,
            log=self.log,
            clock=self.clock,
            randomness=self.randomness,
        )

    def advance(self, ms: int) -> None:
        """Let time pass, every timer at its own moment."""
        end_ms = self.clock.ms + ms
        while True:
            due_ms = self.wheel.next_deadline_ms
            if due_ms is None or due_ms > end_ms:
                break
            self.clock.ms = max(self.clock.ms, due_ms)
            self.wheel.advance(self.clock.ms)
        self.clock.ms = end_ms
        self.wheel.advance(end_ms)

    def shard(self, partition: int = 0) -> GroupShard:
        shard = self.groups.runtime.active(partition).shard
        assert isinstance(shard, GroupShard)
        return shard
