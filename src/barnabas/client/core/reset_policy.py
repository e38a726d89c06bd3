"""auto.offset.reset: where a consumer goes that has no position, or one the partition does not hold.

    earliest               the oldest record
    latest                 only what comes after
    none                   nowhere: the consumer raises, and its user seeks
    by_duration:PnDTnHnMnS the first record not older than so long (KIP-1106); the end if all are older

The result is a timestamp as ListOffsets takes it: a real one, or one of its special values.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.client.settings import ConsumerSettings

LATEST = -1
EARLIEST = -2


@dataclass(frozen=True, slots=True)
class ResetPolicy:
    """`text` is the option as it was given; `duration_ms` is set for by_duration only."""

    text: str
    duration_ms: int | None = None

    @classmethod
    def of(cls, settings: ConsumerSettings) -> ResetPolicy:
        return cls(settings.auto_offset_reset, settings.reset_duration_ms)

    @property
    def is_none(self) -> bool:
        return self.text == "none"

    def timestamp(self, wall_ms: int) -> int:
        """What to ask ListOffsets for. There must be a policy."""
        assert not self.is_none
        if self.duration_ms is not None:
            return max(wall_ms - self.duration_ms, 0)
        return EARLIEST if self.text == "earliest" else LATEST
