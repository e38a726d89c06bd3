"""Records on their way to the sender: a queue of batches for each partition, bounded memory.

No I/O and no clock of its own. A queue's batches are in the order of their creation; the last may be
open, and is where the partition's records go (its lane has it). A batch is due when it is full,
when it has lingered, when another follows it, or when somebody asked for it (`hurry`).

Queues that have something due are kept by the node that leads their partition, so that the sender
looks at a node's queues only when that node can take a request, and never at all partitions. A queue
whose first batch has to wait before it is sent again is in `_resting` until then.

The order of a partition is kept by these rules (`_blocked`):

1. What is in flight of a partition is in flight to one node. A new leader gets nothing before the old
   one has answered or its connection has ended.
2. A batch that has to be sent again goes back to its place, and the partition sends nothing until
   everything that was in flight has come back. Then it goes one at a time until all that was
   sent before is done.
3. With idempotence, nothing follows the first batch of a producer id and epoch until that batch is
   acknowledged: a broker that knows nothing of a producer takes any sequence number for the first,
   so a lost first batch would not be missed. With one request in flight a connection, the same holds
   for every batch.

Invariants: a batch is in exactly one of `waiting` and `in_flight` of its queue until it is done, and
in `incomplete` all the while; memory of `incomplete` batches is what the pool has given out.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from barnabas.client.core.batch import Owner, ProducerBatch
from barnabas.client.core.buffer_pool import BufferPool
from barnabas.client.core.metadata import TopicPartition
from barnabas.client.kernels_producer import AppendableBatch, TopicLane

NOWHERE = -1

NOTHING = AppendableBatch(0)
"""What a lane has for a partition without an open batch."""
NOTHING.closed = True


class PartitionQueue:
    """One partition. `producer_id` to `renewing` are what idempotence knows of it (`idempotence.py`)."""

    __slots__ = (
        "acknowledged",
        "draining",
        "in_flight",
        "in_flight_node",
        "lane",
        "missing_since",
        "next_sequence",
        "node",
        "partition",
        "producer_epoch",
        "producer_id",
        "renewing",
        "resting",
        "topic",
        "waiting",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.lane: TopicLane | None = None
        self.node = NOWHERE
        self.waiting: deque[ProducerBatch] = deque()
        self.in_flight: list[ProducerBatch] = []
        self.in_flight_node = NOWHERE
        self.draining = False
        self.resting = False
        self.missing_since: float | None = None
        self.producer_id = -1
        self.producer_epoch = -1
        self.next_sequence = 0
        self.acknowledged = False
        self.renewing = False

    def __repr__(self) -> str:
        return f"<queue {self.topic}-{self.partition}>"


class Accumulator:
    def __init__(
        self,
        *,
        batch_size: int,
        linger_s: float,
        buffer_memory: int,
        leader_of: Callable[[str, int], int],
        one_in_flight: bool = False,
        idempotent: bool = False,
        owner: Owner | None = None,
    ) -> None:
        self.batch_size = max(batch_size, 1)
        self.linger_s = linger_s
        self.pool = BufferPool(buffer_memory, self.batch_size)
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.incomplete: dict[ProducerBatch, None] = {}
        self.due: dict[int, dict[PartitionQueue, None]] = {}
        self._leader_of = leader_of
        self._one_in_flight = one_in_flight
        self._idempotent = idempotent
        self._owner = owner
        self._created = 0
        self._lingering: deque[ProducerBatch] = deque()
        self._resting: list[tuple[float, int, PartitionQueue]] = []
        self._rests = 0

    # -- filling

    def queue(self, topic: str, partition: int) -> PartitionQueue:
        found = self.queues.get((topic, partition))
        if found is None:
            found = self.queues[topic, partition] = PartitionQueue(topic, partition)
            found.node = self._leader_of(topic, partition)
        return found

    def room_for(self, record_size: int) -> int:
        """What a new batch that begins with this record reserves."""
        return max(self.batch_size, record_size)

    def open(self, lane: TopicLane, partition: int, reserved: int, now: float) -> ProducerBatch:
        """A new last batch of a partition, for which the caller has reserved memory."""
        queue = self.queue(lane.topic, partition)
        queue.lane = lane
        assert lane.batches[partition].closed
        self._created += 1
        batch = ProducerBatch(
            lane.topic,
            partition,
            (self._created,),
            reserved,
            now,
            self._owner,
            self.pool.buffer(reserved),
        )
        batch.reserved = reserved
        queue.waiting.append(batch)
        lane.batches[partition] = batch
        self.incomplete[batch] = None
        if len(queue.waiting) > 1:
            self._mark(queue)
        if self.linger_s <= 0:
            self._urge(queue, batch)
        else:
            self._lingering.append(batch)
            if len(self._lingering) > 64 + 2 * len(self.incomplete):
                self._lingering = deque(b for b in self._lingering if not b.closed)
        return batch

    def discard(self, batch: ProducerBatch) -> None:
        """Drop a batch that was opened and got no record, because the call was interrupted."""
        queue = self.queue(batch.topic, batch.partition)
        self._close(queue, batch)
        assert batch.record_count == 0
        queue.waiting.remove(batch)
        del self.incomplete[batch]
        batch.done = True
        self.pool.give_back(batch.reserved)

    def full(self, lane: TopicLane, partition: int) -> None:
        """A record did not fit into the open batch of a partition: that one is due."""
        batch = lane.batches[partition]
        if batch.closed:
            return
        assert isinstance(batch, ProducerBatch)
        queue = self.queue(lane.topic, partition)
        self._close(queue, batch)
        self._mark(queue)

    def _close(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        batch.close()
        lane = queue.lane
        if lane is not None and lane.batches[queue.partition] is batch:
            lane.batches[queue.partition] = NOTHING

    def hurry(self, batches: Iterable[ProducerBatch]) -> None:
        """These batches are due now, if they wait for others to linger."""
        for batch in batches:
            if not batch.closed:
                self._urge(self.queue(batch.topic, batch.partition), batch)

    # -- when

    def _urge(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        batch.urgent = True
        self._mark(queue)

    def _mark(self, queue: PartitionQueue) -> None:
        if not queue.resting:
            self.due.setdefault(queue.node, {})[queue] = None

    def _unmark(self, queue: PartitionQueue) -> None:
        found = self.due.get(queue.node)
        if found is not None:
            found.pop(queue, None)
            if not found:
                del self.due[queue.node]

    def wake(self, now: float) -> None:
        """Mark what has become due with time."""
        lingering = self._lingering
        while lingering:
            batch = lingering[0]
            if not batch.closed and batch.created_at + self.linger_s > now:
                break
            lingering.popleft()
            if not batch.closed:
                self._urge(self.queue(batch.topic, batch.partition), batch)
        while self._resting and self._resting[0][0] <= now:
            queue = heapq.heappop(self._resting)[2]
            queue.resting = False
            if queue.waiting:
                self._mark(queue)

    def next_wake(self) -> float:
        """When `wake` has something to do; infinity for never."""
        lingering = self._lingering
        while lingering and lingering[0].closed:
            lingering.popleft()
        first = lingering[0].created_at + self.linger_s if lingering else float("inf")
        return min(first, self._resting[0][0]) if self._resting else first

    def leaders_changed(self) -> None:
        """Metadata is new: keep what is due by the nodes that lead now."""
        moved: list[PartitionQueue] = []
        for queue in self.queues.values():
            node = self._leader_of(queue.topic, queue.partition)
            if node != queue.node:
                if queue in self.due.get(queue.node, ()):
                    self._unmark(queue)
                    moved.append(queue)
                queue.node = node
                if queue.resting and node != NOWHERE:
                    # A new leader knows nothing of what the old one refused: no reason to wait.
                    queue.resting = False
                    if queue.waiting:
                        queue.waiting[0].not_before = 0.0
                        moved.append(queue)
        for queue in moved:
            self._mark(queue)

    def forget(self, topic: str) -> None:
        """Drop the empty queues of a topic that nobody sends to any more."""
        for place in [place for place in self.queues if place[0] == topic]:
            queue = self.queues[place]
            if not queue.waiting and not queue.in_flight:
                self._unmark(queue)
                del self.queues[place]

    # -- draining

    def _sendable(self, queue: PartitionQueue) -> bool:
        waiting = queue.waiting
        return bool(waiting) and (waiting[0].closed or len(waiting) > 1 or waiting[0].urgent)

    def _blocked(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        flying = queue.in_flight
        if not flying:
            return False
        if queue.in_flight_node != queue.node or queue.draining:
            return True
        if batch.attempts or flying[0].attempts or self._one_in_flight:
            return True
        return self._idempotent and not queue.acknowledged

    def drain(
        self,
        node: int,
        now: float,
        max_size: int,
        ready: Callable[[PartitionQueue], bool],
    ) -> list[ProducerBatch]:
        """Batches for one request to a node: one of each partition, no more than `max_size` in all
        unless a single one is larger. `ready` says whether a partition may send at all.
        What a partition has beyond that stays due, behind the other partitions of the node."""
        marked = self.due.get(node)
        if not marked:
            return []
        taken: list[ProducerBatch] = []
        again: list[PartitionQueue] = []
        size = 0
        for queue in list(marked):
            if not queue.waiting:
                del marked[queue]
                continue
            batch = queue.waiting[0]
            if not self._sendable(queue):
                del marked[queue]
                continue
            if batch.not_before > now:
                del marked[queue]
                queue.resting = True
                self._rests += 1
                heapq.heappush(self._resting, (batch.not_before, self._rests, queue))
                continue
            if self._blocked(queue, batch) or not ready(queue):
                continue
            if not batch.closed:
                self._close(queue, batch)
            if not batch.record_count:
                self.discard(batch)
                continue
            if taken and size + batch.size > max_size:
                continue
            queue.waiting.popleft()
            queue.in_flight.append(batch)
            queue.in_flight_node = node
            queue.draining = False
            taken.append(batch)
            size += batch.size
            del marked[queue]
            if self._sendable(queue):
                again.append(queue)
        for queue in again:
            marked[queue] = None
        if not marked:
            del self.due[node]
        return taken

    # -- afterwards

    def put_back(self, batch: ProducerBatch, not_before: float) -> None:
        """After a failure that is worth another try: back to its place in the order."""
        queue = self.queue(batch.topic, batch.partition)
        queue.in_flight.remove(batch)
        batch.attempts += 1
        batch.not_before = not_before
        self._insert(queue, batch)
        queue.draining = bool(queue.in_flight)
        self._mark(queue)

    def _insert(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        waiting = queue.waiting
        at = 0
        while at < len(waiting) and waiting[at].order < batch.order:
            at += 1
        waiting.insert(at, batch)

    def finish(self, batch: ProducerBatch, *, recycle: bool = False) -> None:
        """The batch is done. `recycle`: nobody can still be reading its bytes."""
        queue = self.queue(batch.topic, batch.partition)
        if batch in queue.in_flight:
            queue.in_flight.remove(batch)
        elif batch in queue.waiting:
            self._close(queue, batch)
            queue.waiting.remove(batch)
        if self._sendable(queue):
            self._mark(queue)
        if batch in self.incomplete:
            del self.incomplete[batch]
            data, batch.data = batch.data, None
            batch.builder = None  # type: ignore[assignment]
            self.pool.give_back(batch.reserved, data if recycle else None)

    def release(self, batch: ProducerBatch) -> None:
        """A batch failed while it is in flight: its queue still waits for the answer."""
        assert batch.done
        del self.incomplete[batch]
        self.pool.give_back(batch.reserved)

    def split(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Put `parts` in the place of a batch that is in flight; they share what it reserved."""
        queue = self.queue(batch.topic, batch.partition)
        queue.in_flight.remove(batch)
        left = batch.reserved
        for part in parts:
            part.reserved = min(part.size, left)
            left -= part.reserved
            self._insert(queue, part)
            self.incomplete[part] = None
        parts[0].reserved += left
        del self.incomplete[batch]
        self.incomplete = dict.fromkeys(sorted(self.incomplete, key=lambda each: each.order))
        queue.draining = bool(queue.in_flight)
        self._mark(queue)

    def repair(self) -> None:
        """After an interruption anywhere in here: every batch that is not done is in its queue, once,
        in order; nothing is in flight; what a lane fills is the last of its queue or nothing."""
        for queue in self.queues.values():
            queue.in_flight.clear()
            queue.draining = queue.resting = False
            queue.waiting.clear()
        reserved = 0
        for batch in sorted(self.incomplete, key=lambda each: each.order):
            if batch.done:
                del self.incomplete[batch]
                continue
            reserved += batch.reserved
            queue = self.queues[batch.topic, batch.partition]
            lane = queue.lane
            if not batch.closed and (lane is None or lane.batches[queue.partition] is not batch):
                batch.close()
            queue.waiting.append(batch)
        self.pool.available = self.pool.total - reserved
        self._lingering = deque(batch for batch in self.incomplete if not batch.closed)
        self._resting.clear()
        self.due.clear()
        for queue in self.queues.values():
            lane = queue.lane
            if lane is not None and queue.partition < len(lane.batches):
                last = lane.batches[queue.partition]
                if last is not NOTHING and not (queue.waiting and queue.waiting[-1] is last):
                    lane.batches[queue.partition] = NOTHING
            if self._sendable(queue):
                self._mark(queue)

    def oldest(self) -> ProducerBatch | None:
        return next(iter(self.incomplete), None)

    def queued(self) -> list[PartitionQueue]:
        """The queues that have batches."""
        return [queue for queue in self.queues.values() if queue.waiting or queue.in_flight]

    def load_of(self, topic: str, partition_count: int) -> list[int]:
        """How many batches wait for each partition of a topic, for the partitioner."""
        found: list[Any] = [self.queues.get((topic, index)) for index in range(partition_count)]
        return [0 if queue is None else len(queue.waiting) for queue in found]
