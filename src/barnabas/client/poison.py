"""What becomes of a record that no deserializer takes: raised, passed over, or sent elsewhere.

`raise` leaves the position in front of the record: polling again raises again, and the reader may seek
past it. `skip` passes over it and says so in the log. `dead-letter` first writes it to
`dead.letter.topic`, with its key, value and headers as they were and headers of its own that say where
it came from and why it is there, and passes over it only when that was acknowledged; if it cannot be
written, that error is raised and the position stays.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from barnabas.client.errors import PoisonRecordError
from barnabas.client.kernels_consumer import ConsumerRecord
from barnabas.client.settings import ConsumerSettings

logger = logging.getLogger(__name__)

HEADER_PREFIX: Final = "barnabas.dead-letter."
REASON_BYTES: Final = 1_000

Write = Callable[[str, ConsumerRecord, tuple[tuple[str, bytes | None], ...]], Awaitable[Any]]
"""Writes key, value and timestamp of a record to a topic, with these headers; waits for it."""


class PoisonPolicy:
    def __init__(self, settings: ConsumerSettings, write: Write) -> None:
        self._action = settings.poison_records
        self._topic = settings.dead_letter_topic
        self._write = write

    async def pass_over(self, error: PoisonRecordError) -> None:
        """Returns when the record may be passed over; else raises."""
        if self._action == "raise":
            raise error
        record = error.record
        assert record is not None
        if self._action == "dead-letter":
            assert self._topic is not None
            await self._write(self._topic, record, dead_letter_headers(record, error))
            logger.warning("%s It was sent to %s and passed over.", error.message, self._topic)
        else:
            logger.warning("%s It was passed over.", error.message)


def dead_letter_headers(
    record: ConsumerRecord, error: PoisonRecordError
) -> tuple[tuple[str, bytes | None], ...]:
    """The record's own headers, then where it was and what is wrong with it."""
    told = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "timestamp": str(record.timestamp),
        "field": error.field,
        "error": error.message[:REASON_BYTES],
    }
    return (
        *record.headers,
        *((HEADER_PREFIX + name, text.encode("utf-8", "replace")) for name, text in told.items()),
    )
