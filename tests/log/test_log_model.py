"""The log against a list: appends, truncations, retention, restarts, kills, power cuts."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from barnabas.config.topic import LogConfig
from barnabas.log.log import AppendOrigin, Log
from barnabas.record.build import build_batch
from barnabas.wire.errors import ApiError, ErrorCode
from tests.log.batches import NOW_MS, batch, read_all
from tests.log.simulated_disk import SimulatedDisk

DIRECTORY = "/data/t-0"


class LogAgainstList(RuleBasedStateMachine):
    """`records` is what the log must hold: offset -> (timestamp, value)."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk()
        self.disk.make_directory("/data")
        self.disk.sync_directory("")
        self.now_ms = NOW_MS
        self.counter = 0
        self.records: dict[int, tuple[int, bytes]] = {}
        self.end = 0
        self.start = 0
        self.epoch = 0
        self.epochs: list[tuple[int, int]] = []
        self.sequences: dict[int, int] = {}
        self.recovery_point = 0
        self.checkpointed_start = 0
        self.log: Log

    @initialize(
        segment_bytes=st.sampled_from([500, 900, 3000]),
        interval=st.sampled_from([0, 100, 4096]),
        index_bytes=st.sampled_from([36, 10_000]),
        seed=st.integers(0, 2**32),
    )
    def begin(self, segment_bytes: int, interval: int, index_bytes: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.config = LogConfig(
            internal_segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            segment_index_bytes=index_bytes,
            retention_ms=-1,
            file_delete_delay_ms=1000,
        )
        self.open(clean=False)

    def open(self, *, clean: bool) -> None:
        self.log = Log.open(
            self.disk,
            DIRECTORY,
            self.config,
            now_ms=self.now_ms,
            clean=clean,
            recovery_point=self.recovery_point,
            log_start_offset=self.checkpointed_start,
        )

    def value(self) -> bytes:
        self.counter += 1
        return b"%d" % self.counter + b"x" * self.rng.randrange(60)

    # -- writing

    @rule(count=st.integers(1, 4), step_ms=st.integers(0, 50))
    def append(self, count: int, step_ms: int) -> None:
        self.now_ms += step_ms
        values = [self.value() for _ in range(count)]
        info = self.log.append_as_leader(
            batch(*values, timestamp_ms=self.now_ms), self.epoch, self.now_ms
        )
        assert (info.first_offset, info.last_offset) == (self.end, self.end + count - 1)
        self.wrote(values)

    def wrote(self, values: list[bytes]) -> None:
        if not self.epochs or self.epochs[-1][0] != self.epoch:
            self.epochs.append((self.epoch, self.end))
        for value in values:
            self.records[self.end] = (self.now_ms, value)
            self.end += 1

    @rule(producer_id=st.integers(0, 2), again=st.booleans())
    def append_idempotent(self, producer_id: int, again: bool) -> None:
        sequence = self.sequences.get(producer_id, 0)
        value = self.value()
        data = batch(value, timestamp_ms=self.now_ms, producer=(producer_id, 0, sequence))
        copy = bytes(data)
        info = self.log.append_as_leader(data, self.epoch, self.now_ms)
        assert not info.duplicate
        assert info.first_offset == self.end
        self.sequences[producer_id] = sequence + 1
        self.wrote([value])
        if again:
            repeated = self.log.append_as_leader(memoryview(copy), self.epoch, self.now_ms)
            assert repeated.duplicate
            assert repeated.first_offset == info.first_offset
        late = batch(b"late", producer=(producer_id, 0, sequence + 7))
        with pytest.raises(ApiError) as refusal:
            self.log.append_as_leader(late, self.epoch, self.now_ms)
        assert refusal.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    @rule(count=st.integers(2, 3))
    def append_several_batches(self, count: int) -> None:
        values = [self.value() for _ in range(count)]
        data = b"".join(build_batch([(self.now_ms, b"k", value, ())]) for value in values)
        if len(data) > self.config.segment_size:
            return
        self.log.append_as_leader(
            memoryview(bytearray(data)), self.epoch, self.now_ms, AppendOrigin.COORDINATOR
        )
        self.wrote(values)

    @rule(gap=st.integers(0, 3))
    def replicate(self, gap: int) -> None:
        value = self.value()
        data = build_batch(
            [(self.now_ms, b"k", value, ())],
            base_offset=self.end + gap,
            partition_leader_epoch=self.epoch,
        )
        self.end += gap
        self.log.append_as_follower(data, self.now_ms)
        self.wrote([value])

    @rule()
    def new_epoch(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.flushed_offset == self.end

    @rule()
    def flush_sealed(self) -> None:
        self.log.flush_sealed()

    @rule()
    def checkpoint(self) -> None:
        self.recovery_point = self.log.recovery_point
        self.checkpointed_start = self.log.log_start_offset

    # -- taking away

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        self.log.update_high_watermark(self.end)
        offset = self.start + int((self.end - self.start) * share)
        self.log.increment_log_start_offset(offset)
        self.starts_at(offset)
        self.log.delete_old_segments(self.now_ms)

    @rule(share=st.floats(0, 1))
    def retention_by_size(self, share: float) -> None:
        self.log.update_high_watermark(self.end)
        limit = int(self.log.size * share)
        self.log.update_config(replace(self.config, retention_bytes=limit))
        self.log.delete_old_segments(self.now_ms)
        self.log.update_config(self.config)
        assert self.log.size - self.log.segments[0].size <= limit
        self.starts_at(self.log.log_start_offset)

    @rule(age_ms=st.integers(0, 100))
    def retention_by_time(self, age_ms: int) -> None:
        self.log.update_high_watermark(self.end)
        self.log.update_config(replace(self.config, retention_ms=age_ms))
        self.log.delete_old_segments(self.now_ms)
        self.log.update_config(self.config)
        self.starts_at(self.log.log_start_offset)
        for segment in self.log.take_doomed(self.now_ms + 1000):
            segment.remove_files()

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        offset = self.start + int((self.end - self.start) * share)
        kept = [each for each in self.records if each < offset]
        offset = kept[-1] + 1 if kept else self.start
        self.log.truncate_to(offset)
        self.ends_at(self.log.log_end_offset)
        assert self.end <= offset
        self.recovery_point = min(self.recovery_point, self.end)

    @rule()
    @precondition(lambda self: self.counter % 5 == 0)
    def truncate_fully(self) -> None:
        self.end += 3
        self.log.truncate_fully_and_start_at(self.end, self.now_ms)
        self.records.clear()
        self.epochs.clear()
        self.start = self.recovery_point = self.checkpointed_start = self.end
        self.sequences.clear()

    def starts_at(self, offset: int) -> None:
        self.start = max(self.start, offset)
        for old in [each for each in self.records if each < self.start]:
            del self.records[old]

    def ends_at(self, offset: int) -> None:
        """What is gone at the end is forgotten, and producers start again with a fresh id."""
        self.end = offset
        for gone in [each for each in self.records if each >= offset]:
            del self.records[gone]
        self.epochs = [(epoch, start) for epoch, start in self.epochs if start < offset]
        self.sequences = {
            state.producer_id: state.last_sequence + 1 for state in self.log.producers
        }

    # -- ends and beginnings

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.recovery_point = self.log.recovery_point
        self.checkpointed_start = self.start
        self.disk.kill()
        self.open(clean=True)
        self.reopened()

    @rule()
    def kill(self) -> None:
        self.disk.kill()
        self.log.abandon()
        self.open(clean=False)
        self.reopened()

    def reopened(self) -> None:
        if not self.records:
            self.end = self.log.log_end_offset  # a gap at the very end leaves no trace
        assert self.log.log_end_offset == self.end
        self.start = self.log.log_start_offset
        assert self.log.flushed_offset == self.end
        present = {state.producer_id: state.last_sequence + 1 for state in self.log.producers}
        for producer_id, sequence in self.sequences.items():
            assert present.get(producer_id, sequence) == sequence
        self.sequences = present
        self.log.epochs.truncate_from_end(self.end)
        self.starts_at_least()

    def starts_at_least(self) -> None:
        """A start offset that no checkpoint knew may come back to the start of its segment."""
        for offset in [each for each in self.records if each < self.start]:
            del self.records[offset]
        for record in read_all(self.log):
            self.records.setdefault(record.offset, (record.timestamp, record.value or b""))

    @rule(seed=st.integers(0, 2**32))
    def power_cut(self, seed: int) -> None:
        # A gap at the end of what was flushed leaves no trace, whatever was written behind it.
        flushed = max((o + 1 for o in self.records if o < self.log.flushed_offset), default=0)
        self.log.abandon()
        self.disk.power_cut(random.Random(seed))
        self.open(clean=False)
        assert flushed <= self.log.log_end_offset <= self.end
        self.start = self.log.log_start_offset
        self.ends_at(self.log.log_end_offset)
        self.starts_at_least()

    # -- what always holds

    @invariant()
    def the_log_is_the_list(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert log.flushed_offset <= log.log_end_offset
        found = {record.offset: (record.timestamp, record.value) for record in read_all(log)}
        expected: dict[int, Any] = self.records
        assert found == expected
        bases = [segment.base_offset for segment in log.segments]
        assert bases == sorted(set(bases))

    @invariant()
    def reads_begin_where_asked(self) -> None:
        if not hasattr(self, "log") or not self.records:
            return
        offset = self.rng.choice(sorted(self.records))
        found = read_all(self.log, offset, max_bytes=self.rng.choice([1, 100, 1000]))
        assert [record.offset for record in found] == [
            o for o in sorted(self.records) if o >= offset
        ]

    @invariant()
    def timestamps_find_the_first_record(self) -> None:
        if not hasattr(self, "log") or not self.records:
            return
        wanted = self.rng.choice(list(self.records.values()))[0] + self.rng.randint(-1, 1)
        found = self.log.find_offset_by_timestamp(wanted)
        expected = min(
            (offset for offset, (timestamp, _) in self.records.items() if timestamp >= wanted),
            default=None,
        )
        assert (found.offset if found else None) == expected

    @invariant()
    def epochs_are_known(self) -> None:
        if not hasattr(self, "log") or not self.records:
            return
        offset = self.rng.choice(list(self.records))
        expected = [epoch for epoch, start in self.epochs if start <= offset]
        entries = self.log.epochs.entries()
        # A start offset that came back after a crash does not bring back its epoch.
        if expected and entries and offset >= entries[0][1]:
            assert self.log.epoch_at(offset) == expected[-1]


LogAgainstList.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestLogAgainstList = LogAgainstList.TestCase


@pytest.fixture(autouse=True)
def examples_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypothesis tries constants of every module that was imported before; here the examples are
    the same whatever else ran. `make search` has the others too."""
    if os.environ.get("BARNABAS_EXAMPLES") != "search":
        monkeypatch.setattr(providers, "_get_local_constants", providers.Constants)
