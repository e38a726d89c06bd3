"""A batch that is too large for the broker becomes two.

That happens when `batch.size` is above the topic's `max.message.bytes`. The halves are batches like
others: they may be split again. A record that is too large by itself fails.
"""

from __future__ import annotations

from barnabas.client.core.batch import ProducerBatch
from barnabas.record.batch import read_header
from barnabas.record.read import batch_records

_SPARE = 64
"""A half begins with its own base timestamp, which may make its numbers longer by a little."""


def split(batch: ProducerBatch) -> list[tuple[int, ProducerBatch]]:
    """Pairs of the first record's index in `batch` and the batch that it went to."""
    assert batch.data is not None
    records = batch_records(batch.data, read_header(batch.data, 0), 0)
    half = (len(records) + 1) // 2
    parts: list[tuple[int, ProducerBatch]] = []
    for place, first in enumerate((0, half)):
        chosen = records[first : first + half]
        part = ProducerBatch(
            batch.topic,
            batch.partition,
            (*batch.order, place),
            _SPARE + sum(_room(record) for record in chosen),
            batch.created_at,
            batch.owner,
        )
        builder = part.builder
        for _offset, timestamp_ms, key, value, headers in chosen:
            builder.append(timestamp_ms, key, value, headers)
        part.close()
        part.urgent = True
        part.producer_id = batch.producer_id
        part.producer_epoch = batch.producer_epoch
        if batch.base_sequence >= 0:
            part.base_sequence = (batch.base_sequence + first) & 0x7FFFFFFF
        parts.append((first, part))
    return parts


def _room(
    record: tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]],
) -> int:
    _offset, _timestamp, key, value, headers = record
    size = 40 + len(key or b"") + len(value or b"")
    return size + sum(16 + len(name) * 3 + len(content or b"") for name, content in headers)
