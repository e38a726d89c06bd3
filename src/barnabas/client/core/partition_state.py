"""One assigned partition: where its reader stands, and what must happen before more can be fetched.

    UNKNOWN     no position: a committed offset, or the reset policy, decides
    RESET       the position is that of a time (or the start or end), which the leader must tell
    VALIDATE    the leader changed, or the position came from outside with an epoch: the leader must
                tell whether its log has the record before the position (KIP-320)
    FETCH       may be fetched

Two offsets belong to a partition. `position` is what the reader gets next; `next_fetch` is what is
asked for next, ahead of it by what is buffered. A seek sets both and drops the buffer.

`version` counts the events after which an answer that is still on its way is about something else: a
seek, a reset, a validation. Whoever asks something remembers it, and drops the answer if it moved.
"""

from __future__ import annotations

import enum

from barnabas.client.core.metadata import TopicPartition
from barnabas.client.core.partition_buffer import PartitionBuffer
from barnabas.client.errors import ClientError
from barnabas.wire.uuids import ZERO


class Step(enum.Enum):
    UNKNOWN = enum.auto()
    RESET = enum.auto()
    VALIDATE = enum.auto()
    FETCH = enum.auto()


_ALLOWED: dict[Step, frozenset[Step]] = {
    Step.UNKNOWN: frozenset({Step.RESET, Step.VALIDATE, Step.FETCH}),
    Step.RESET: frozenset({Step.RESET, Step.VALIDATE, Step.FETCH}),
    Step.VALIDATE: frozenset({Step.VALIDATE, Step.FETCH, Step.RESET}),
    Step.FETCH: frozenset({Step.VALIDATE, Step.FETCH, Step.RESET}),
}


class PartitionState:
    __slots__ = (
        "attempts",
        "buffer",
        "failure",
        "high_watermark",
        "hold",
        "last_stable_offset",
        "leader_epoch",
        "leaderless",
        "least_bytes",
        "log_start_offset",
        "next_epoch",
        "next_fetch",
        "not_before",
        "partition",
        "paused",
        "preferred",
        "preferred_until",
        "queued",
        "reset_timestamp",
        "step",
        "topic_id",
        "version",
    )

    def __init__(
        self, partition: TopicPartition, *, read_committed: bool, check_crcs: bool
    ) -> None:
        self.partition = partition
        self.buffer = PartitionBuffer(
            *partition, read_committed=read_committed, check_crcs=check_crcs
        )
        self.step = Step.UNKNOWN
        self.version = 0
        self.next_fetch = -1
        self.next_epoch = -1  # of the record before next_fetch
        self.leader_epoch = -1
        self.topic_id = ZERO
        self.paused = False
        self.hold = False  # nothing more is fetched until the buffer is empty
        self.queued = False  # it is among those that have records
        self.least_bytes = 0  # what the next batch takes, if the last answer cut it off
        self.attempts = 0
        self.not_before = 0.0
        self.leaderless = False  # there was nobody to ask
        self.preferred = -1
        self.preferred_until = 0.0
        self.reset_timestamp: int | None = None
        self.failure: ClientError | None = None
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1

    @property
    def name(self) -> str:
        return f"{self.partition[0]}-{self.partition[1]}"

    @property
    def position(self) -> int:
        return self.buffer.position

    @property
    def has_position(self) -> bool:
        return self.step in (Step.FETCH, Step.VALIDATE)

    def become(self, step: Step) -> None:
        assert step in _ALLOWED[self.step], f"{self.name}: {self.step.name} to {step.name}"
        self.step = step

    def seek(self, offset: int, epoch: int = -1) -> None:
        """Read from here on. An epoch is that of the record before, to be validated."""
        assert offset >= 0
        self._restart()
        self.buffer.position = self.next_fetch = offset
        self.buffer.epoch = self.next_epoch = epoch
        self.reset_timestamp = None
        self.become(Step.VALIDATE if epoch >= 0 else Step.FETCH)

    def reset(self, timestamp: int | None) -> None:
        """Read from where the leader says this time is; None: as the reset policy says."""
        self._restart()
        self.reset_timestamp = timestamp
        self.become(Step.RESET)

    def validate(self) -> None:
        """The leader must be asked about `next_fetch` before anything else is fetched."""
        self.version += 1
        self.become(Step.VALIDATE)

    def validated(self) -> None:
        self.become(Step.FETCH)
        self.succeeded()

    def refetch(self) -> None:
        """Drop what is buffered and fetch it again."""
        self.version += 1
        self.buffer.clear()
        self.hold = False
        self.next_fetch = self.buffer.position
        self.next_epoch = self.buffer.epoch

    def _restart(self) -> None:
        self.version += 1
        self.buffer.clear()
        self.hold = False
        self.failure = None
        self.least_bytes = 0
        self.preferred = -1
        self.succeeded()

    def succeeded(self) -> None:
        self.attempts = 0
        self.not_before = 0.0
