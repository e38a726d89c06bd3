"""`barnabas.flush.before.ack`: nothing is acknowledged or shown that a power cut could take."""

from __future__ import annotations

import random

import pytest

from barnabas.config.topic import LogConfig
from barnabas.wire.errors import ErrorCode
from tests.log.batches import read_all
from tests.log.simulated_disk import SimulatedDisk
from tests.replica.replicas import Pending, Replicas, topic


def start(disk: SimulatedDisk | None = None, config: LogConfig | None = None) -> Replicas:
    node = Replicas(disk, flush_before_ack=True, config=config)
    node.replicas.apply_topic(topic("t"))
    return node


@pytest.mark.parametrize("acks", [1, -1])
def test_an_answer_waits_for_the_flush(acks: int) -> None:
    node = start()
    pending = node.produce(b"1", acks=acks)
    log = node.replicas.partition("t", 0).log
    assert log is not None
    node.turn()
    assert pending.answer is None
    assert (log.log_end_offset, log.high_watermark) == (1, 0), "nor does a consumer see it"
    node.flush()
    assert pending.answer == (ErrorCode.NONE, 0)
    assert log.high_watermark == 1


def test_requests_share_a_flush() -> None:
    node = start()
    first = node.produce(b"1")
    rest = [node.produce(b"%d" % number) for number in range(2, 6)]
    assert len(node.background.works) == 1
    node.flush()
    assert first.answer == (ErrorCode.NONE, 0)
    assert [pending.answer for pending in rest] == [
        (ErrorCode.NONE, offset) for offset in range(1, 5)
    ], "what was there when the flush began is covered by it"
    assert node.disk.syncs
    node.flush()
    assert not node.background.works


def test_what_comes_during_a_flush_waits_for_the_next() -> None:
    node = start()
    first = node.produce(b"1")
    later: list[Pending] = []
    node.background.run(between=lambda: later.append(node.produce(b"2")))
    node.turn()
    assert first.answer == (ErrorCode.NONE, 0)
    assert later[0].answer is None
    node.flush()
    assert later[0].answer == (ErrorCode.NONE, 1)


def test_a_duplicate_is_as_durable_as_the_first_before_it_is_answered() -> None:
    node = start()
    node.produce(b"1", producer=(5, 0, 0))
    again = node.produce(b"1", producer=(5, 0, 0))
    node.turn()
    assert again.answer is None
    node.flush()
    assert again.answer == (ErrorCode.NONE, 0)


def test_a_failed_flush_is_no_acknowledgement() -> None:
    node = start()
    pending = node.produce(b"1")
    node.disk.fails = lambda operation, path: operation == "sync"
    node.flush()
    assert pending.answer == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert node.all_failed == 1


def test_a_topic_deleted_during_the_flush_fails_no_directory() -> None:
    node = start()
    node.replicas.apply_topic(topic("other"))
    pending = node.produce(b"1")
    node.replicas.remove_topic(topic("t"))
    node.flush()
    assert pending.answer is not None
    assert pending.answer[0] != ErrorCode.NONE
    assert node.all_failed == 0
    other = node.produce(b"1", name="other")
    node.flush()
    assert other.answer == (ErrorCode.NONE, 0)


@pytest.mark.parametrize("seed", range(40))
def test_a_power_cut_loses_nothing_acknowledged(seed: int) -> None:
    """Produce, flush and cut in random order, over rolls, epochs and restarts."""
    rng = random.Random(seed)
    disk = SimulatedDisk()
    config = LogConfig(internal_segment_bytes=700, index_interval_bytes=100)
    acknowledged: dict[int, bytes] = {}
    sequence = 0
    for epoch in range(5):
        node = Replicas(disk, flush_before_ack=True, config=config)
        node.replicas.apply_topic(topic("t", epoch=epoch))
        log = node.replicas.partition("t", 0).log
        assert log is not None
        found = {record.offset: record.value for record in read_all(log)}
        assert {offset: found.get(offset) for offset in acknowledged} == acknowledged
        assert sorted(found) == list(range(len(found)))
        state = log.producers.get(9)
        sequence = 0 if state is None else state.last_sequence + 1
        waiting: list[tuple[Pending, bytes]] = []
        for _ in range(rng.randrange(1, 40)):
            step = rng.randrange(8)
            if step == 0:
                node.flush()
            elif step == 1:
                log.roll(node.clock.ms)
            elif step == 2:
                node.logs.checkpoint()
            else:
                value = rng.randbytes(rng.randrange(1, 120))
                pending = node.produce(value, acks=rng.choice([1, -1]), producer=(9, 0, sequence))
                waiting.append((pending, value))
                sequence += 1
            node.turn()
            for pending, value in waiting:
                if pending.answer is not None:
                    assert pending.answer[0] == ErrorCode.NONE
                    acknowledged[pending.answer[1]] = value
            if rng.randrange(30) == 0:
                break
        # The power goes while a sync is under way, or between two.
        if rng.random() < 0.5:
            left = rng.randrange(12)

            def fails(operation: str, path: str) -> bool:
                nonlocal left
                left -= 1
                return left < 0

            disk.fails = fails
            for work, _ in node.background.works:
                try:
                    work()
                except OSError:
                    continue
            disk.fails = lambda operation, path: False
        disk.power_cut(rng)
