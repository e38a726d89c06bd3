"""What a partition knows of its producers: idempotence, fencing, open transactions.

For every producer id the last five batches are remembered. A batch that repeats one of them is a
duplicate and is answered with the first one's offsets; one that does not continue the last sequence
number is refused; one of an older epoch is fenced. A producer nobody knows (its state expired, or
the records were deleted) may go on with any sequence number.

Appending is two steps, because a refusal or a failed write must leave no trace: `prepare` checks a
batch and gives a `Change`, `apply` makes it so after the bytes are written. Batches of one append
see the changes of those before them.

The first offset of every open transaction, and of every finished one whose marker is not yet below
the high watermark, bounds what a read-committed consumer may see (`first_unstable_offset`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from barnabas.log.transaction_index import AbortedTransaction
from barnabas.record.batch import CONTROL_MASK, TRANSACTIONAL_MASK, BatchHeader
from barnabas.wire.errors import ApiError, ErrorCode

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
BATCHES_REMEMBERED = 5
MAX_SEQUENCE = 0x7FFFFFFF
_TRANSACTIONAL_OR_CONTROL = TRANSACTIONAL_MASK | CONTROL_MASK


class BatchMetadata(NamedTuple):
    """One remembered batch."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return decrement_sequence(self.last_sequence, self.offset_delta)


def decrement_sequence(sequence: int, by: int) -> int:
    """Sequence numbers go round after 2^31 - 1."""
    return sequence - by if sequence >= by else MAX_SEQUENCE - (by - sequence) + 1


class ProducerState:
    """One producer's entry. `batches` are oldest first."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "epoch",
        "last_timestamp",
        "producer_id",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = NO_EPOCH
        self.coordinator_epoch = -1
        self.last_timestamp = NO_TIMESTAMP
        self.current_txn_first_offset: int | None = None
        self.batches: list[BatchMetadata] = []

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def find_duplicate(self, epoch: int, first: int, last: int) -> BatchMetadata | None:
        if epoch == self.epoch:
            for batch in self.batches:
                if batch.last_sequence == last and batch.first_sequence == first:
                    return batch
        return None

    def add(self, header: BatchHeader) -> None:
        """Remember a batch that was appended."""
        batches = self.batches
        delta = header.last_offset_delta
        timestamp = header.max_timestamp
        batches.append(
            BatchMetadata(
                (header.base_sequence + delta) & MAX_SEQUENCE,
                header.base_offset + delta,
                delta,
                timestamp,
            )
        )
        if len(batches) > BATCHES_REMEMBERED:
            del batches[0]
        self.last_timestamp = timestamp

    def copy(self) -> ProducerState:
        twin = ProducerState(self.producer_id)
        twin.epoch = self.epoch
        twin.coordinator_epoch = self.coordinator_epoch
        twin.last_timestamp = self.last_timestamp
        twin.current_txn_first_offset = self.current_txn_first_offset
        twin.batches = self.batches.copy()
        return twin

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProducerState) and all(
            getattr(self, name) == getattr(other, name) for name in self.__slots__
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={getattr(self, name)}" for name in self.__slots__)
        return f"ProducerState({facts})"


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class Change:
    """What one append does to the producers, decided but not yet done."""

    __slots__ = ("completed", "started", "states")

    def __init__(self) -> None:
        self.states: dict[int, ProducerState] = {}
        self.started: list[tuple[int, int]] = []  # (first offset, producer id)
        self.completed: list[CompletedTransaction] = []


class Producers:
    """All producers of one partition."""

    __slots__ = ("_name", "_ongoing", "_states", "_unreplicated", "expiration_ms")

    def __init__(self, name: str, expiration_ms: int) -> None:
        self._name = name
        self.expiration_ms = expiration_ms
        self._states: dict[int, ProducerState] = {}
        self._ongoing: dict[int, int] = {}  # first offset -> producer id, ascending
        self._unreplicated: dict[int, int] = {}  # first offset -> marker's offset, ascending

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[ProducerState]:
        return iter(self._states.values())

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    # -- deciding

    def find_duplicate(
        self, producer_id: int, epoch: int, first_sequence: int, last_sequence: int
    ) -> BatchMetadata | None:
        state = self._states.get(producer_id)
        return None if state is None else state.find_duplicate(epoch, first_sequence, last_sequence)

    def continued_by(self, header: BatchHeader) -> ProducerState | None:
        """The producer, if the batch is what it was expected to send next and nothing else needs a
        look: the usual case, decided without a `Change`. `ProducerState.add` makes it so."""
        state = self._states.get(header.producer_id)
        if (
            state is None
            or header.producer_epoch != state.epoch
            or header.attributes & _TRANSACTIONAL_OR_CONTROL
            or state.current_txn_first_offset is not None
            or not state.batches
        ):
            return None
        expected = (state.batches[-1].last_sequence + 1) & MAX_SEQUENCE
        return state if header.base_sequence == expected else None

    def _state_in(self, change: Change, producer_id: int) -> ProducerState:
        state = change.states.get(producer_id)
        if state is None:
            known = self._states.get(producer_id)
            state = ProducerState(producer_id) if known is None else known.copy()
            change.states[producer_id] = state
        return state

    def prepare_data(
        self,
        change: Change,
        *,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        last_sequence: int,
        timestamp: int,
        first_offset: int,
        last_offset: int,
        transactional: bool,
        check_sequence: bool,
        check_epoch: bool,
    ) -> None:
        """Check a data batch. `check_epoch` is off for replicas, who take what the leader took;
        `check_sequence` is off for everybody but clients."""
        state = self._state_in(change, producer_id)
        if epoch < state.epoch and check_epoch:
            raise self._stale_epoch(producer_id, epoch, state.epoch, first_offset)
        if check_sequence:
            self._check_sequence(state, epoch, first_sequence, first_offset)
        first_txn_offset = state.current_txn_first_offset
        if first_txn_offset is not None and not transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {producer_id} at offset "
                f"{first_offset} in partition {self._name}",
            )
        self._move_epoch(state, epoch)
        batches = state.batches
        batches.append(
            BatchMetadata(last_sequence, last_offset, last_offset - first_offset, timestamp)
        )
        if len(batches) > BATCHES_REMEMBERED:
            del batches[0]
        state.last_timestamp = timestamp
        if transactional and first_txn_offset is None:
            state.current_txn_first_offset = first_offset
            change.started.append((first_offset, producer_id))

    def prepare_marker(
        self,
        change: Change,
        *,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        aborted: bool,
        timestamp: int,
        offset: int,
        check_epoch: bool,
    ) -> None:
        """Check the marker that ends a transaction."""
        state = self._state_in(change, producer_id)
        if check_epoch:
            if epoch < state.epoch:
                raise self._stale_epoch(producer_id, epoch, state.epoch, offset)
            if coordinator_epoch < state.coordinator_epoch:
                raise ApiError(
                    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                    f"Invalid coordinator epoch for producerId {producer_id} at offset {offset} "
                    f"in partition {self._name}: {coordinator_epoch} (zombie), "
                    f"{state.coordinator_epoch} (current)",
                )
        self._move_epoch(state, epoch)
        if state.current_txn_first_offset is not None:
            change.completed.append(
                CompletedTransaction(producer_id, state.current_txn_first_offset, offset, aborted)
            )
            state.current_txn_first_offset = None
        state.coordinator_epoch = coordinator_epoch
        state.last_timestamp = timestamp

    @staticmethod
    def _move_epoch(state: ProducerState, epoch: int) -> None:
        if epoch != state.epoch:
            state.epoch = epoch
            state.batches.clear()

    def _check_sequence(
        self, state: ProducerState, epoch: int, first_sequence: int, offset: int
    ) -> None:
        if state.epoch == NO_EPOCH:
            return
        if epoch != state.epoch:
            if first_sequence != 0:
                raise ApiError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Invalid sequence number for new epoch of producer {state.producer_id} at "
                    f"offset {offset} in partition {self._name}: {epoch} (request epoch), "
                    f"{first_sequence} (seq. number), {state.epoch} (current producer epoch)",
                )
            return
        last = state.last_sequence
        if first_sequence != (0 if last == MAX_SEQUENCE else last + 1):
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {state.producer_id} at offset {offset} "
                f"in partition {self._name}: {first_sequence} (incoming seq. number), "
                f"{last} (current end sequence number)",
            )

    def _stale_epoch(self, producer_id: int, epoch: int, current: int, offset: int) -> ApiError:
        return ApiError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {producer_id} at offset {offset} in {self._name} is {epoch}, "
            f"which is smaller than the last seen epoch {current}",
        )

    # -- doing

    def apply(self, change: Change) -> list[AbortedTransaction]:
        """Make a prepared change so; gives the entries for the transaction index."""
        self._states.update(change.states)
        for first_offset, producer_id in change.started:
            self._ongoing[first_offset] = producer_id
        if not change.completed:
            return []
        aborted = []
        for transaction in change.completed:
            if transaction.aborted:
                aborted.append(
                    AbortedTransaction(
                        transaction.producer_id,
                        transaction.first_offset,
                        transaction.last_offset,
                        self._stable_offset_after(transaction),
                    )
                )
            self._ongoing.pop(transaction.first_offset, None)
            self._unreplicated[transaction.first_offset] = transaction.last_offset
        self._unreplicated = dict(sorted(self._unreplicated.items()))
        return aborted

    def _stable_offset_after(self, completed: CompletedTransaction) -> int:
        for first_offset, producer_id in self._ongoing.items():
            if producer_id != completed.producer_id:
                return min(first_offset, completed.last_offset + 1)
        return completed.last_offset + 1

    # -- transactions

    @property
    def first_unstable_offset(self) -> int | None:
        """Nothing at or above this offset is decided for read-committed consumers."""
        ongoing, unreplicated = self._ongoing, self._unreplicated
        if ongoing:
            first = next(iter(ongoing))
            return min(first, next(iter(unreplicated))) if unreplicated else first
        return next(iter(unreplicated)) if unreplicated else None

    @property
    def first_undecided_offset(self) -> int | None:
        """The start of the oldest transaction without a marker."""
        return next(iter(self._ongoing)) if self._ongoing else None

    def on_high_watermark(self, high_watermark: int) -> None:
        """Transactions whose marker is below the high watermark are decided."""
        if self._unreplicated:
            for first_offset in list(self._unreplicated):
                if self._unreplicated[first_offset] < high_watermark:
                    del self._unreplicated[first_offset]

    def on_log_start(self, log_start_offset: int) -> None:
        for first_offset in list(self._unreplicated):
            if self._unreplicated[first_offset] < log_start_offset:
                del self._unreplicated[first_offset]

    def has_late_transaction(self, now_ms: int, max_transaction_timeout_ms: int) -> bool:
        """Is a transaction open for longer than any may be? Then it hangs."""
        for producer_id in self._ongoing.values():
            state = self._states.get(producer_id)
            if state is not None and now_ms - state.last_timestamp > max_transaction_timeout_ms:
                return True
        return False

    # -- life

    def load(self, state: ProducerState) -> None:
        self._states[state.producer_id] = state
        if state.current_txn_first_offset is not None:
            self._ongoing[state.current_txn_first_offset] = state.producer_id
            self._ongoing = dict(sorted(self._ongoing.items()))

    def clear(self) -> None:
        self._states.clear()
        self._ongoing.clear()
        self._unreplicated.clear()

    def is_expired(self, state: ProducerState, now_ms: int) -> bool:
        return (
            state.current_txn_first_offset is None
            and now_ms - state.last_timestamp >= self.expiration_ms
        )

    def expire(self, now_ms: int) -> int:
        """Forget who has been silent for `producer.id.expiration.ms`; how many there were."""
        expired = [state for state in self._states.values() if self.is_expired(state, now_ms)]
        for state in expired:
            del self._states[state.producer_id]
        return len(expired)
