"""Compaction against a dictionary, with crashes at every step of putting the result in place."""

from __future__ import annotations

import random

import pytest

from barnabas.config.topic import LogConfig
from barnabas.log.checkpoints import read_offsets
from barnabas.log.disk import InlineBackground
from barnabas.log.log import AppendOrigin, Log
from barnabas.log.manager import LogManager
from barnabas.record.batch import read_header
from barnabas.record.read import Record
from tests.log.batches import NOW_MS, batch, marker, read_all
from tests.log.simulated_disk import SimulatedDisk

TOPIC_ID = b"\1" * 16
DAY_MS = 86_400_000


class TestClock:
    __test__ = False

    def __init__(self) -> None:
        self.ms = NOW_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def monotonic_ns(self) -> int:
        return self.ms * 1_000_000


CONFIG = LogConfig(
    cleanup_policy=frozenset(("compact",)),
    internal_segment_bytes=1000,
    index_interval_bytes=100,
    min_cleanable_dirty_ratio=0.01,
    delete_retention_ms=1000,
)


class Node:
    """A log manager on a simulated disk, with one compacted partition."""

    def __init__(self, config: LogConfig = CONFIG) -> None:
        self.disk = SimulatedDisk()
        self.clock = TestClock()
        self.config = config
        self.start()

    def start(self) -> None:
        self.logs = LogManager(
            self.disk,
            InlineBackground(),
            ["/data"],
            config_of=lambda topic: self.config,
            clock=self.clock,
            randomness=random.Random(7),
        )
        self.logs.load()
        self.log = self.logs.get_or_create("t", 0, TOPIC_ID)

    def append(self, key: bytes | None, value: bytes | None) -> None:
        self.write(batch(value, key=key, timestamp_ms=self.clock.ms))

    def write(self, data: memoryview, origin: AppendOrigin = AppendOrigin.CLIENT) -> int:
        info = self.log.append_as_leader(data, 0, self.clock.ms, origin)
        self.log.update_high_watermark(self.log.log_end_offset)
        return info.first_offset

    def clean(self) -> bool:
        self.log.roll(self.clock.ms)
        return self.logs.clean_once(self.clock.ms)

    def contents(self) -> dict[bytes, bytes]:
        """What someone who reads everything ends up with."""
        state: dict[bytes, bytes] = {}
        for record in read_all(self.log):
            assert record.key is not None
            if record.value is None:
                state.pop(record.key, None)
            else:
                state[record.key] = record.value
        return state

    def offsets(self) -> list[int]:
        return [record.offset for record in read_all(self.log)]

    def first_dirty(self) -> int | None:
        offsets = read_offsets(self.disk, "/data/cleaner-offset-checkpoint")
        return offsets.get(("t", 0))


def test_only_the_last_record_of_a_key_stays_at_its_offset() -> None:
    node = Node()
    for round_number in range(5):
        for key in (b"a", b"b", b"c"):
            node.append(key, b"%d" % round_number)
    assert node.clean()
    assert node.offsets() == [12, 13, 14]
    assert node.contents() == {b"a": b"4", b"b": b"4", b"c": b"4"}
    assert node.first_dirty() == 15
    assert node.log.log_end_offset == 15
    assert not node.clean(), "nothing new"


def test_part_of_a_batch_can_go() -> None:
    node = Node()
    node.write(batch(b"1", b"2", b"3", keys=[b"a", b"b", b"c"]))
    node.append(b"b", b"4")
    node.clean()
    assert [(r.offset, r.key, r.value) for r in read_all(node.log)] == [
        (0, b"a", b"1"),
        (2, b"c", b"3"),
        (3, b"b", b"4"),
    ]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_compressed_batches_stay_compressed(codec: int) -> None:
    node = Node()
    node.write(batch(b"1" * 100, b"2" * 100, keys=[b"a", b"b"], codec=codec))
    node.append(b"a", b"3")
    node.clean()
    assert [(r.offset, r.value) for r in read_all(node.log)] == [(1, b"2" * 100), (2, b"3")]
    records = node.log.read(0, 1000, 3, True).records
    assert not isinstance(records, bytes)
    assert read_header(records.read()).compression == codec


def test_a_tombstone_goes_after_its_horizon_and_not_before() -> None:
    node = Node()
    node.append(b"a", b"1")
    node.append(b"a", None)
    node.append(b"b", b"1")
    node.clean()
    assert node.offsets() == [1, 2]
    node.clock.ms += 999
    node.append(b"c", b"1")
    node.clean()
    assert node.offsets() == [1, 2, 3], "the horizon counts from the first round"
    node.clock.ms += 1
    node.append(b"c", b"2")
    node.clean()
    assert node.offsets() == [2, 4]
    assert read_all(node.log)[0].timestamp == NOW_MS, "a horizon does not change timestamps"


def test_segments_are_joined_and_their_files_go_later() -> None:
    node = Node()
    for number in range(60):
        node.append(b"k%d" % (number % 3), b"x" * 50)
    node.log.roll(node.clock.ms)
    assert len(node.log.segments) > 5
    assert node.clean()
    node.append(b"k0", b"y")
    assert node.clean(), "what has become small is joined in the round after"
    assert len(node.log.segments) == 2
    assert node.offsets() == [58, 59, 60]
    names = node.disk.list("/data/t-0")
    assert any(name.endswith(".deleted") for name in names)
    assert not any(name.endswith((".swap", ".cleaned")) for name in names)
    node.logs.remove_doomed(node.clock.ms + 60_000)
    assert not any(name.endswith(".deleted") for name in node.disk.list("/data/t-0"))


def test_a_full_map_compacts_what_it_can() -> None:
    node = Node()
    node.logs.cleaner.map_bytes = 160 * 5
    for number in range(20):
        node.append(b"k%d" % (number % 10), b"%d" % number)
    assert node.clean()
    first = node.first_dirty()
    assert first is not None
    assert first < 20
    rounds = 0
    while node.logs.clean_once(node.clock.ms):
        rounds += 1
        assert rounds < 20
    assert node.first_dirty() == 20
    assert node.contents() == {b"k%d" % n: b"%d" % (n + 10) for n in range(10)}


def test_records_younger_than_the_lag_stay() -> None:
    node = Node(
        LogConfig(
            cleanup_policy=frozenset(("compact",)),
            min_compaction_lag_ms=1000,
            min_cleanable_dirty_ratio=0.01,
        )
    )
    node.append(b"a", b"1")
    node.append(b"a", b"2")
    assert not node.clean()
    node.clock.ms += 1000
    assert node.clean()
    assert node.offsets() == [1]


def test_a_record_that_waited_too_long_makes_its_log_due() -> None:
    node = Node(
        LogConfig(
            cleanup_policy=frozenset(("compact",)),
            max_compaction_lag_ms=1000,
            min_cleanable_dirty_ratio=1.0,
        )
    )
    node.append(b"a", b"1")
    node.append(b"a", b"2")
    assert not node.clean()
    node.clock.ms += 1001
    assert node.clean()
    node.append(b"a", b"3")
    node.clock.ms += 1001
    node.append(b"a", b"4")
    assert len(node.log.segments) == 3, "the active segment ends in time to be compacted"


def test_too_clean_a_log_is_left_alone() -> None:
    node = Node(LogConfig(cleanup_policy=frozenset(("compact",)), min_cleanable_dirty_ratio=0.5))
    for number in range(10):
        node.append(b"k%d" % number, b"x")
    assert node.clean()
    node.append(b"k0", b"y")
    assert not node.clean()
    for number in range(12):
        node.append(b"k%d" % number, b"z")
    assert node.clean()


class TestTransactions:
    def open_transaction(self, node: Node, *values: bytes, sequence: int = 0) -> None:
        node.write(
            batch(
                *values,
                keys=[b"t%d" % n for n in range(len(values))],
                producer=(9, 0, sequence),
                transactional=True,
            ),
            AppendOrigin.COORDINATOR,
        )

    def end_transaction(self, node: Node, *, commit: bool) -> None:
        node.write(marker(9, 0, commit=commit), AppendOrigin.COORDINATOR)

    def test_what_is_undecided_is_not_touched(self) -> None:
        node = Node()
        node.append(b"a", b"1")
        self.open_transaction(node, b"1")
        node.append(b"a", b"2")
        node.log.roll(node.clock.ms)
        assert node.log.last_stable_offset == 1
        node.logs.clean_once(node.clock.ms)
        assert node.offsets() == [0, 1, 2]

    def test_aborted_records_go_at_once_and_do_not_replace_others(self) -> None:
        node = Node()
        node.write(batch(b"kept", key=b"t0"))
        self.open_transaction(node, b"1")
        self.end_transaction(node, commit=False)
        node.append(b"a", b"1")
        node.log.update_high_watermark(node.log.log_end_offset)
        assert node.clean()
        assert node.contents() == {b"t0": b"kept", b"a": b"1"}

    def test_an_abort_whose_marker_comes_after_what_is_compacted_counts(self) -> None:
        """Another open transaction keeps the end of compaction before the marker."""
        node = Node()
        node.write(batch(b"kept", key=b"t0"))
        self.open_transaction(node, b"aborted")
        node.log.roll(node.clock.ms)
        node.write(
            batch(b"open", key=b"o", producer=(8, 0, 0), transactional=True),
            AppendOrigin.COORDINATOR,
        )
        node.log.roll(node.clock.ms)
        self.end_transaction(node, commit=False)
        assert node.log.last_stable_offset == 2
        assert node.clean()
        assert node.first_dirty() == 2
        assert [(r.offset, r.value) for r in read_all(node.log)] == [(0, b"kept"), (2, b"open")]

    def test_an_abort_marker_stays_while_its_records_do(self) -> None:
        """The active segment is not compacted: what it holds still needs its marker's entry."""
        node = Node()
        self.open_transaction(node, b"1")
        self.end_transaction(node, commit=False)
        assert node.clean()
        assert node.offsets() == []
        node.append(b"z", b"1")
        assert node.log.aborted_transactions(0, 3) != []
        found = node.log.read(0, 1000, 3, True, with_aborted=True)
        assert len(found.aborted_transactions) == 1

    def test_a_marker_goes_when_its_records_have_gone_and_a_horizon_has_passed(self) -> None:
        node = Node()
        self.open_transaction(node, b"1")
        self.end_transaction(node, commit=True)
        node.write(batch(b"2", key=b"t0", producer=(9, 0, 1)), AppendOrigin.COORDINATOR)
        markers: list[list[int]] = []
        for _ in range(4):
            assert node.clean()
            found = read_all(node.log, control=True)
            markers.append([r.offset for r in found if r.key == b"\0\0\0\1"])
            node.clock.ms += 1000
            node.append(b"z", b"%d" % node.clock.ms)
        assert markers[0] == [1]
        assert markers[-1] == []

    def test_the_last_batch_of_a_producer_stays_for_its_sequence(self) -> None:
        node = Node()
        node.write(batch(b"1", key=b"a", producer=(5, 0, 0)))
        node.write(batch(b"2", key=b"a", producer=(5, 0, 1)))
        node.append(b"a", b"3")
        assert node.clean()
        assert node.offsets() == [2]
        for name in node.disk.list("/data/t-0"):
            if name.endswith(".snapshot"):
                node.disk.remove(f"/data/t-0/{name}")
        reopened = Log.open(node.disk, "/data/t-0", CONFIG, now_ms=NOW_MS, clean=False)
        (producer,) = reopened.active_producers()
        assert producer.last_sequence == 1
        assert [record.offset for record in read_all(reopened)] == [2]


def test_compact_and_delete_removes_what_is_old_as_well() -> None:
    node = Node(
        LogConfig(
            cleanup_policy=frozenset(("compact", "delete")),
            min_cleanable_dirty_ratio=0.01,
            retention_ms=1000,
        )
    )
    node.append(b"a", b"1")
    node.clean()
    node.clock.ms += 2000
    node.append(b"b", b"1")
    assert node.logs.run_retention(node.clock.ms) == 1
    assert node.contents() == {b"b": b"1"}
    assert node.log.log_start_offset == 1


def test_a_truncation_meanwhile_makes_the_round_void() -> None:
    node = Node()
    for number in range(20):
        node.append(b"k", b"%d" % number)
    node.log.roll(node.clock.ms)

    class Later(InlineBackground):
        def submit(self, work, done):  # type: ignore[no-untyped-def]
            result = work()
            node.log.truncate_to(5)
            done(result, None)

    node.logs.cleaner._background = Later()
    assert node.logs.clean_once(node.clock.ms)
    assert node.offsets() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("seed", range(40))
def test_against_a_dictionary_with_crashes(seed: int) -> None:
    rng = random.Random(seed)
    node = Node()
    expected: dict[bytes, bytes] = {}
    for _ in range(12):
        for _ in range(rng.randrange(1, 40)):
            keys = [b"k%d" % rng.randrange(12) for _ in range(rng.randrange(1, 4))]
            values = [
                None if rng.random() < 0.2 else rng.randbytes(rng.randrange(1, 60)) for _ in keys
            ]
            node.write(
                batch(*values, keys=keys, timestamp_ms=node.clock.ms, codec=rng.choice([0, 0, 3]))
            )
            for key, value in zip(keys, values, strict=True):
                if value is None:
                    expected.pop(key, None)
                else:
                    expected[key] = value
        node.clock.ms += rng.randrange(1500)
        crash = rng.randrange(4)
        if crash == 0:
            # The process dies at some rename of the replacement.
            left = rng.randrange(1, 30)

            def fails(operation: str, path: str) -> bool:
                nonlocal left
                if operation in ("rename", "remove") and "t-0/" in path:
                    left -= 1
                return left <= 0

            node.disk.fails = fails
            try:
                node.clean()
            except OSError:
                pass
            node.disk.fails = lambda operation, path: False
            node.disk.kill()
            node.start()
        elif crash == 1:
            node.log.flush()
            node.clean()
            node.log.flush()
            node.disk.power_cut(rng)
            node.start()
        else:
            node.clean()
        node.log.update_high_watermark(node.log.log_end_offset)
        assert node.contents() == expected
        offsets = node.offsets()
        assert offsets == sorted(set(offsets))
    node.clean()
    kept: list[Record] = read_all(node.log)
    live = [record for record in kept if record.value is not None]
    assert len({record.key for record in live}) == len(expected)
