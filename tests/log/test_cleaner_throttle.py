"""The cleaner keeps to its rate by pausing on a timer; nobody waits for it meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.delayed.timer import TimingWheel
from barnabas.log.io_throttle import LONGEST_PAUSE_MS, WORTH_A_PAUSE_MS, IoThrottle
from tests.log.test_compaction import CONFIG, Node

RATE = 100_000
SEGMENT_BYTES = 200_000


class Throttled(Node):
    """Its cleaner may move 100 kB a second, on a wheel that the test turns."""

    def __init__(self) -> None:
        super().__init__(replace(CONFIG, internal_segment_bytes=SEGMENT_BYTES))
        self.wheel = TimingWheel(self.clock.monotonic_ms)
        self.logs.cleaner.schedule = self.wheel.add
        self.logs.cleaner.throttle.bytes_per_second = RATE

    def fill(self) -> int:
        for number in range(100):
            self.append(b"k%d" % (number % 10), bytes(9_000))
        return self.log.size

    def next_timer(self) -> bool:
        deadline_ms = self.wheel.next_deadline_ms
        if deadline_ms is None:
            return False
        self.clock.ms = deadline_ms
        self.wheel.advance(deadline_ms)
        return True


def test_reading_and_writing_keep_to_the_rate() -> None:
    node = Throttled()
    before = node.fill()
    began_ms = node.clock.ms
    assert node.clean()
    assert node.logs.cleaner.busy, "it has moved a part and pauses"
    assert node.log.cleaning
    pauses = 0
    while node.logs.cleaner.busy:
        node.append(b"meanwhile", b"the log goes on")
        assert node.next_timer()
        pauses += 1
    moved = 2 * before + sum(segment.size for segment in node.log.segments[:-1])
    took_ms = node.clock.ms - began_ms
    assert moved <= (took_ms + WORTH_A_PAUSE_MS) * RATE / 1000 + SEGMENT_BYTES / 2
    assert took_ms <= moved * 1000 / RATE + 2 * pauses
    assert pauses > 20
    assert {key for key in node.contents() if key != b"meanwhile"} == {
        b"k%d" % number for number in range(10)
    }
    assert node.first_dirty() == 100


@pytest.mark.parametrize("what", ["deleted", "truncated"])
def test_a_log_that_changes_in_a_pause_is_left_alone(what: str) -> None:
    node = Throttled()
    node.fill()
    assert node.clean()
    if what == "deleted":
        node.logs.delete("t", 0)
        node.log = node.logs.get_or_create("t", 0, b"\2" * 16)
    else:
        node.log.truncate_to(50)
    offsets = node.offsets()
    assert node.next_timer()
    assert not node.logs.cleaner.busy
    assert node.offsets() == offsets
    assert node.first_dirty() is None
    node.append(b"a", b"1")
    node.append(b"a", b"2")
    node.logs.cleaner.throttle.bytes_per_second = 1e300
    assert node.clean()
    assert node.contents()[b"a"] == b"2"


def test_a_new_rate_holds_at_once() -> None:
    node = Throttled()
    node.fill()
    node.logs.cleaner.throttle.bytes_per_second = 1
    assert node.clean()
    for _ in range(3):
        before_ms = node.clock.ms
        assert node.next_timer()
        assert node.clock.ms - before_ms <= LONGEST_PAUSE_MS
    assert node.logs.cleaner.busy
    node.logs.cleaner.throttle.bytes_per_second = 1e300
    assert node.next_timer()
    assert not node.logs.cleaner.busy
    assert node.first_dirty() == 100


def test_a_rest_earns_nothing() -> None:
    throttle = IoThrottle(1000)
    throttle.moved(1000, 0)
    assert throttle.pause_ms(0) == LONGEST_PAUSE_MS
    assert throttle.pause_ms(1_001) == 0
    throttle.moved(100, 1_000_000)
    assert throttle.must_pause(1_000_000)
    assert throttle.pause_ms(1_000_000) == 101


@pytest.mark.parametrize("rate", [0.0, -1.0])
def test_a_senseless_rate_is_one_byte_a_second(rate: float) -> None:
    throttle = IoThrottle(rate)
    throttle.moved(10, 0)
    assert throttle.must_pause(9_000)
    assert not throttle.must_pause(10_000)
