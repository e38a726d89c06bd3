"""auto.offset.reset: where a consumer goes that has no position, or one the partition does not hold.

    earliest               the oldest record
    latest                 only what comes after
    none                   nowhere: the consumer raises, and its user seeks
    by_duration:PnDTnHnMnS the first record not older than so long (KIP-1106); the end if all are older

The result is a timestamp as ListOffsets takes it: a real one, or one of its special values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from barnabas.client.errors import OptionError

LATEST = -1
EARLIEST = -2
_BY_DURATION = "by_duration:"
_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{0,9})?)S)?)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ResetPolicy:
    """`text` is the option as it was given; `duration_ms` is set for by_duration only."""

    text: str
    duration_ms: int | None = None

    @property
    def is_none(self) -> bool:
        return self.text == "none"

    def timestamp(self, wall_ms: int) -> int:
        """What to ask ListOffsets for. There must be a policy."""
        assert not self.is_none
        if self.duration_ms is not None:
            return max(wall_ms - self.duration_ms, 0)
        return EARLIEST if self.text == "earliest" else LATEST


def parse_reset_policy(text: str) -> ResetPolicy:
    found = text.strip()
    if found.lower() in ("earliest", "latest", "none"):
        return ResetPolicy(found.lower())
    if found.lower().startswith(_BY_DURATION):
        duration_ms = parse_duration_ms(found[len(_BY_DURATION) :])
        if duration_ms is not None:
            return ResetPolicy(found, duration_ms)
    raise OptionError(
        f"auto.offset.reset={text!r} is not earliest, latest, none or by_duration:DURATION.",
        next_step="A duration is written as ISO 8601 has it, for example by_duration:P1DT12H30M.",
    )


def parse_duration_ms(text: str) -> int | None:
    """Milliseconds of an ISO 8601 duration of days, hours, minutes and seconds; None if it is not
    one. Years and months have no fixed length, so they are not taken."""
    matched = _DURATION.fullmatch(text.strip())
    if matched is None or not any(matched.groupdict().values()):
        return None
    seconds = (
        int(matched["days"] or 0) * 86_400
        + int(matched["hours"] or 0) * 3_600
        + int(matched["minutes"] or 0) * 60
    )
    return seconds * 1000 + int(float(matched["seconds"] or 0) * 1000)
