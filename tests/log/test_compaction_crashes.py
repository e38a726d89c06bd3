"""Compaction that ends at every step of its way, by a kill and by a power cut."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.log.batches import batch, read_all
from tests.log.test_compaction import CONFIG, Node

COUNT = 14
STEPS = ("append", "rename", "remove", "sync", "truncate", "open")


class Stopped(BaseException):
    """The process is gone: no handler of errors runs."""


def prepared() -> tuple[Node, dict[bytes, bytes]]:
    """Three segments, compacted once into smaller ones, and as much again on top."""
    node = Node(replace(CONFIG, internal_segment_bytes=600))
    node.disk.sync_directory("")
    expected: dict[bytes, bytes] = {}
    rng = random.Random(1)
    for part in range(2):
        for number in range(COUNT):
            key, value = b"k%d" % rng.randrange(9), b"%d %d" % (part, number) + b"x" * 20
            sent = None if number % 7 == 6 else value
            producer = (5, 0, number + COUNT * part)
            node.write(batch(sent, key=key, timestamp_ms=node.clock.ms, producer=producer))
            if sent is None:
                expected.pop(key, None)
            else:
                expected[key] = sent
        if not part:
            assert node.clean()
            node.clock.ms += 2000
            node.logs.remove_doomed(node.clock.ms + 100_000)
    node.log.roll(node.clock.ms)
    node.log.flush()
    node.logs.checkpoint()
    return node, expected


def run_until(node: Node, step: int) -> bool:
    """Compact until that step; False if it was over before."""
    left = step

    def fails(operation: str, path: str) -> bool:
        nonlocal left
        if operation in STEPS:
            left -= 1
            if left < 0:
                raise Stopped
        return False

    node.disk.fails = fails
    try:
        assert node.logs.clean_once(node.clock.ms)
        node.logs.remove_doomed(node.clock.ms + 100_000)
        node.log.flush()
    except Stopped:
        return True
    finally:
        node.disk.fails = lambda operation, path: False
    return False


@pytest.mark.parametrize("end", ["kill", "power cut"])
def test_nothing_is_lost_at_any_step(end: str) -> None:
    step = 0
    stopped = True
    while stopped:
        node, expected = prepared()
        stopped = run_until(node, step)
        node.log.abandon()
        if end == "kill":
            node.disk.kill()
        else:
            node.disk.power_cut(random.Random(step))
        node.start()
        node.log.update_high_watermark(node.log.log_end_offset)
        assert node.contents() == expected, f"step {step}"
        offsets = [record.offset for record in read_all(node.log)]
        assert offsets == sorted(set(offsets))
        assert node.log.log_end_offset == 2 * COUNT
        (producer,) = node.log.active_producers()
        assert producer.last_sequence == 2 * COUNT - 1
        names = node.disk.list("/data/t-0")
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
        node.append(b"after", b"1")
        node.clock.ms += 2000
        node.clean()
        assert node.contents() == {**expected, b"after": b"1"}
        step += 1
    assert step > 30
