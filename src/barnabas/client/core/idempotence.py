"""Producer ids, epochs and sequence numbers: how a repeated batch is written once.

The producer has one id at a time. Each partition has its own epoch of it and numbers its records from
0; a broker takes a batch only if it follows the last one it has of that id and epoch, and knows its last
five again. As an id without transactions belongs to nobody else, a partition may go to its next epoch
by itself (KIP-360): brokers take sequence 0 of a newer epoch.

    the id:          NONE -> ASKING -> KNOWN -> NONE (refused or used up)
    a partition:     fresh -> numbered -> renewing -> fresh with the next epoch

A batch is numbered when it is first sent and keeps its number, because only with the same number is it
known again. When a numbered batch fails for good, there is, or may be, a gap: the partition is
`renewing`. What was numbered after the gap is then sent again, one batch at a time, for as long as its
fate is unknown: it is taken (the failed one had been written), known again, or refused as out of
sequence. What was refused and cannot have been written (`may_be_written`) gets a new number in the next
epoch. What may have been written fails: a broker that was restarted knows only the last batch of a
producer, and calls those before it out of sequence although it has them.

Invariant: a batch gets a new number only when it is certain that it was not written under the old one.
"""

from __future__ import annotations

from enum import Enum

from barnabas.client.core.accumulator import PartitionQueue
from barnabas.client.core.batch import ProducerBatch

SEQUENCE_MASK = 0x7FFFFFFF
LAST_EPOCH = 0x7FFF - 1


class IdState(Enum):
    NONE = "none"
    ASKING = "asking"
    KNOWN = "known"


STEPS = {
    IdState.NONE: {IdState.ASKING},
    IdState.ASKING: {IdState.NONE, IdState.KNOWN},
    IdState.KNOWN: {IdState.NONE},
}


class Idempotence:
    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.state = IdState.NONE
        self.producer_id = -1
        self.producer_epoch = -1

    def _become(self, state: IdState) -> None:
        assert state in STEPS[self.state], f"{self.state} cannot become {state}"
        self.state = state

    def asking(self) -> None:
        self._become(IdState.ASKING)

    def refused(self) -> None:
        """No id could be had this time."""
        self._become(IdState.NONE)

    def given(self, producer_id: int, producer_epoch: int) -> None:
        self._become(IdState.KNOWN)
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch

    def lose(self, queue: PartitionQueue) -> None:
        """A broker does not take the id of this partition any more: everybody gets another."""
        if self.state is IdState.KNOWN and queue.producer_id == self.producer_id:
            self._become(IdState.NONE)

    @property
    def wanted(self) -> bool:
        """Whether an id is needed before anything new can be sent, and nobody has asked for it."""
        return self.enabled and self.state is IdState.NONE

    # -- a partition

    def ready(self, queue: PartitionQueue) -> bool:
        """Whether the first waiting batch of a partition may be sent, as far as numbers go."""
        if not self.enabled:
            return True
        if queue.waiting[0].base_sequence >= 0:
            return True
        if self.state is not IdState.KNOWN:
            return False
        changes = queue.renewing or queue.producer_id != self.producer_id
        return not (changes and queue.in_flight)

    def number(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """A batch that was just taken is about to be sent."""
        if not self.enabled or batch.base_sequence >= 0:
            return
        assert self.producer_id >= 0
        if queue.producer_id != self.producer_id:
            self._begin(queue, self.producer_id, self.producer_epoch)
        elif queue.renewing:
            self._begin(queue, queue.producer_id, queue.producer_epoch + 1)
        batch.producer_id = queue.producer_id
        batch.producer_epoch = queue.producer_epoch
        batch.base_sequence = queue.next_sequence
        queue.next_sequence = (queue.next_sequence + batch.record_count) & SEQUENCE_MASK

    def _begin(self, queue: PartitionQueue, producer_id: int, producer_epoch: int) -> None:
        # Numbers that wait behind a batch without one are behind a gap: nothing of it was written.
        for waiting in queue.waiting:
            self._strip(waiting)
        queue.producer_id = producer_id
        queue.producer_epoch = producer_epoch
        queue.next_sequence = 0
        queue.acknowledged = False
        queue.renewing = False
        if producer_epoch >= LAST_EPOCH and self.state is IdState.KNOWN:
            self._become(IdState.NONE)

    @staticmethod
    def _strip(batch: ProducerBatch) -> None:
        batch.producer_id = batch.producer_epoch = batch.base_sequence = -1

    def acknowledged(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        if batch.base_sequence >= 0 and batch.producer_epoch == queue.producer_epoch:
            queue.acknowledged = True

    def failed(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """A batch failed for good: there may be a gap where it was."""
        if self.enabled and batch.base_sequence >= 0:
            queue.renewing = True

    def follows_others(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        """Whether one before it is still on its way. That is why a broker refused its number, and it
        is sent again after that one as it is."""
        return any(other.order < batch.order for other in queue.in_flight) or any(
            other.order < batch.order and other.base_sequence >= 0 for other in queue.waiting
        )

    def renumber(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """A batch was certainly not written under its number."""
        self._strip(batch)
        queue.renewing = True
