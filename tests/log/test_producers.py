"""Idempotence: sequence numbers, duplicates, fencing, expiry, and all of that after a restart."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from barnabas.config.topic import LogConfig
from barnabas.log.log import Log
from barnabas.wire.errors import ApiError, ErrorCode
from tests.log.batches import DIRECTORY, NOW_MS, batch, open_log, write
from tests.log.simulated_disk import SimulatedDisk

MAX = 2**31 - 1
DAY_MS = 86_400_000


def send(log: Log, sequence: int, count: int = 1, *, epoch: int = 0) -> tuple[int, bool]:
    info = write(log, batch(*[b"x"] * count, producer=(7, epoch, sequence)))
    return info.first_offset, info.duplicate


def refusal(log: Log, sequence: int, *, epoch: int = 0) -> ErrorCode:
    end = log.log_end_offset
    with pytest.raises(ApiError) as refused:
        send(log, sequence, epoch=epoch)
    assert log.log_end_offset == end
    return refused.value.code


def test_the_last_five_batches_are_known() -> None:
    log = open_log(SimulatedDisk())
    for number in range(7):
        assert send(log, 2 * number, 2) == (2 * number, False)
    for number in range(2, 7):
        assert send(log, 2 * number, 2) == (2 * number, True)
    assert refusal(log, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 14


def test_part_of_a_batch_is_no_duplicate() -> None:
    log = open_log(SimulatedDisk())
    send(log, 0, 3)
    assert refusal(log, 0) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(log, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 3) == (3, False)


def test_a_duplicate_tells_when_it_was_written() -> None:
    log = open_log(SimulatedDisk(), LogConfig(message_timestamp_type="LogAppendTime"))
    log.append_as_leader(batch(b"x", producer=(7, 0, 0)), 0, NOW_MS + 5)
    again = log.append_as_leader(batch(b"x", producer=(7, 0, 0)), 0, NOW_MS + 90)
    assert again.duplicate
    assert again.log_append_time_ms == NOW_MS + 5


def test_gaps_are_refused() -> None:
    log = open_log(SimulatedDisk())
    send(log, 0)
    assert refusal(log, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 1) == (1, False)


def test_who_is_not_known_may_begin_anywhere() -> None:
    log = open_log(SimulatedDisk())
    assert send(log, 50) == (0, False)
    assert refusal(log, 0) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_older_epochs_are_fenced_and_newer_ones_begin_at_zero() -> None:
    log = open_log(SimulatedDisk())
    send(log, 0)
    assert refusal(log, 1, epoch=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 0, epoch=1) == (1, False)
    assert refusal(log, 1, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(log, 0, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert send(log, 0, epoch=1) == (1, True)
    assert send(log, 1, epoch=1) == (2, False)


def test_sequence_numbers_go_round() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    assert send(log, MAX - 1) == (0, False)
    assert send(log, MAX, 3) == (1, False), "MAX, 0, 1"
    assert log.producers.get(7).last_sequence == 1  # type: ignore[union-attr]
    assert send(log, MAX, 3) == (1, True)
    log.close()
    log = open_log(disk, clean=True)
    assert send(log, MAX, 3) == (1, True)
    assert send(log, 2, 2) == (4, False)
    assert refusal(log, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_exactly_at_the_end_of_sequence_numbers() -> None:
    log = open_log(SimulatedDisk())
    assert send(log, MAX) == (0, False)
    assert refusal(log, 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 0) == (1, False)


def test_expiry_is_by_the_time_of_the_last_record() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, producer_expiration_ms=1000)
    send(log, 0)
    assert log.producers.expire(NOW_MS + 999) == 0
    assert log.producers.expire(NOW_MS + 1000) == 1
    assert send(log, 70) == (1, False)
    log.close()
    log = open_log(disk, clean=True, producer_expiration_ms=1000, now_ms=NOW_MS + 1000)
    assert log.active_producers() == [], "a snapshot does not bring back who has expired"


def test_an_open_transaction_keeps_its_producer() -> None:
    log = open_log(SimulatedDisk(), producer_expiration_ms=1000)
    data = batch(b"x", producer=(7, 0, 0), transactional=True)
    log.append_as_leader(data, 0, NOW_MS)
    assert log.producers.expire(NOW_MS + DAY_MS) == 0


@pytest.mark.parametrize("orderly", [True, False])
def test_what_is_known_survives_a_restart(orderly: bool) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    for number in range(4):
        send(log, number)
    log.roll(NOW_MS)
    send(log, 4)
    if orderly:
        log.close()
    else:
        log.abandon()
    disk.kill()
    log = open_log(disk, clean=orderly)
    assert send(log, 4) == (4, True)
    assert refusal(log, 6) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 5) == (5, False)


def test_a_damaged_snapshot_is_passed_over() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    send(log, 0)
    log.roll(NOW_MS)
    send(log, 1)
    log.close()
    name = f"{DIRECTORY}/{2:020d}.snapshot"
    disk.write_atomically(name, disk.read_file(name)[:-1] + b"\xff")
    log = open_log(disk, clean=True)
    assert send(log, 1) == (1, True)
    assert send(log, 2) == (2, False)


def test_the_bytes_of_a_snapshot() -> None:
    """Field by field as Apache Kafka's ProducerSnapshot, version 1."""
    disk = SimulatedDisk()
    log = open_log(disk)
    write(log, batch(b"1", b"2", producer=(4000, 3, 10)))
    log.append_as_leader(batch(b"t", producer=(4001, 0, 0), transactional=True), 0, NOW_MS)
    log.close()
    entries = [
        struct.pack(">qhiqiqiq", 4000, 3, 11, 1, 1, NOW_MS, -1, -1),
        struct.pack(">qhiqiqiq", 4001, 0, 0, 2, 0, NOW_MS, -1, 2),
    ]
    body = struct.pack(">i", 2) + b"".join(entries)
    expected = struct.pack(">hI", 1, crc32c(body)) + body
    assert disk.read_file(f"{DIRECTORY}/{3:020d}.snapshot") == expected


def test_snapshots_go_with_their_segments() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, LogConfig(retention_bytes=0))
    for number in range(3):
        send(log, number)
        log.roll(NOW_MS)
    snapshots = [name for name in disk.list(DIRECTORY) if name.endswith(".snapshot")]
    assert snapshots == [f"{offset:020d}.snapshot" for offset in (1, 2, 3)]
    log.delete_old_segments(NOW_MS)
    snapshots = [name for name in disk.list(DIRECTORY) if name.endswith(".snapshot")]
    assert snapshots == [f"{3:020d}.snapshot"]
    assert send(log, 2) == (2, True), "the producer is known as long as it has not expired"
