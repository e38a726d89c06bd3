"""What a batch does to a partition's producers, for an append, a replica and a replay alike."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.log.producer_state import BatchMetadata, Change, Producers
from barnabas.record.batch import BatchHeader, Buffer
from barnabas.record.control import (
    ControlType,
    read_control_records,
    read_end_transaction_marker,
)


def prepare_batch(
    producers: Producers,
    change: Change,
    header: BatchHeader,
    buffer: Buffer,
    start: int,
    *,
    check_sequence: bool = False,
    check_epoch: bool = False,
) -> None:
    """Add the batch at `buffer[start:]` to `change`. Batches without a producer id do nothing."""
    if header.producer_id < 0:
        return
    if not header.is_control:
        producers.prepare_data(
            change,
            producer_id=header.producer_id,
            epoch=header.producer_epoch,
            first_sequence=header.base_sequence,
            last_sequence=header.last_sequence,
            timestamp=header.max_timestamp,
            first_offset=header.base_offset,
            last_offset=header.last_offset,
            transactional=header.is_transactional,
            check_sequence=check_sequence,
            check_epoch=check_epoch,
        )
        return
    for record in read_control_records(buffer, header, start)[:1]:
        if record.type not in (ControlType.COMMIT, ControlType.ABORT):
            continue
        producers.prepare_marker(
            change,
            producer_id=header.producer_id,
            epoch=header.producer_epoch,
            coordinator_epoch=read_end_transaction_marker(record).coordinator_epoch,
            aborted=record.type is ControlType.ABORT,
            timestamp=record.timestamp,
            offset=header.last_offset,
            check_epoch=check_epoch,
        )


def prepare_batches(
    producers: Producers,
    headers: Sequence[BatchHeader],
    buffer: Buffer,
    *,
    check_sequence: bool = False,
    check_epoch: bool = False,
) -> Change | None:
    """What all batches of `buffer` do together; None if none of them has a producer."""
    change: Change | None = None
    position = 0
    for header in headers:
        if header.producer_id >= 0:
            if change is None:
                change = Change()
            prepare_batch(
                producers,
                change,
                header,
                buffer,
                position,
                check_sequence=check_sequence,
                check_epoch=check_epoch,
            )
        position += header.size_in_bytes
    return change


def find_duplicate(producers: Producers, headers: Sequence[BatchHeader]) -> BatchMetadata | None:
    """The first of the batches that is in the log already, as it was then."""
    for header in headers:
        if header.producer_id >= 0:
            found = producers.find_duplicate(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.last_sequence,
            )
            if found is not None:
                return found
    return None
