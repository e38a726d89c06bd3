"""A fetcher against model brokers: whatever happens, its reader sees the log.

Each seed is a run of random events in virtual time: records and transactions are written, leaders move
cleanly and uncleanly, old records are deleted, sessions and answers are lost, metadata comes late,
partitions are paused, sought, given away and taken back, and records are handed out as objects and as
columns. After every hand-out the records must be those that the log has from the position on: none
lost, none doubled, none out of order, none of an aborted transaction.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from barnabas.client.columns import record_batch
from barnabas.client.core.fetcher import Fetcher, NodeFetch
from barnabas.client.core.metadata import ClusterMetadata
from barnabas.client.core.partition_state import PartitionState, Step
from barnabas.client.core.reset_policy import ResetPolicy
from barnabas.client.errors import ConnectionLost, LogTruncationError, OffsetOutOfRangeError
from barnabas.client.kernels_consumer import ConsumerRecord
from barnabas.client.settings import ConsumerSettings
from barnabas.record.kernels import ColumnsBuilder
from tests.client.model_brokers import ModelBrokers, Place

NODES = 3
PLACES: list[Place] = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]
EVENTS = 400


class Run:
    def __init__(self, seed: int, *, columns: bool, reset: str, unclean: bool) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.columns = columns
        self.unclean = unclean
        self.brokers = ModelBrokers(PLACES, NODES, self.random)
        self.metadata = ClusterMetadata()
        self.brokers.publish(self.metadata)
        settings = ConsumerSettings(
            fetch_max_bytes=4_000, max_partition_fetch_bytes=600, isolation_level="read_committed"
        )
        self.fetcher = Fetcher(settings, self.metadata, ResetPolicy(reset), self.random.random)
        self.flights: list[tuple[NodeFetch, Any]] = []
        self.expected: dict[Place, int] = {}
        self.received: dict[Place, list[tuple[int, bytes]]] = {place: [] for place in PLACES}
        self.assign(PLACES)
        for place in PLACES:
            self.brokers.logs[place].append(self.random.randrange(1, 5))

    # -- what the reader does

    def assign(self, places: list[Place]) -> None:
        self.fetcher.assign(places)
        for state in self.fetcher.in_step(Step.UNKNOWN, self.now):
            offset = self.expected.setdefault(state.partition, 0)
            self.fetcher.positioned(state, state.version, offset, -1)

    def seek(self) -> None:
        place = self.any_assigned()
        if place is not None:
            log = self.brokers.logs[place]
            offset = self.random.randint(log.start, log.end)
            self.fetcher.seek(place, offset)
            self.expected[place] = offset

    def any_assigned(self) -> Place | None:
        assigned = list(self.fetcher.partitions)
        return self.random.choice(assigned) if assigned else None

    def rebalance(self) -> None:
        self.assign([place for place in PLACES if self.random.random() < 0.7])

    def pause(self) -> None:
        place = self.any_assigned()
        if place is not None:
            self.fetcher.pause(place)

    def resume(self) -> None:
        place = self.any_assigned()
        if place is not None:
            self.fetcher.resume(place)

    def take(self) -> int:
        limit = self.random.choice((1, 3, 7, 100))
        paused = {p for p, s in self.fetcher.partitions.items() if s.paused}
        found: list[tuple[Place, int, bytes]] = []
        self.fetcher.begin_turn()
        try:
            if self.columns:
                columns, runs = ColumnsBuilder(), []
                self.fetcher.take_columns(columns, limit, runs, 1 << 30)
                rows = record_batch(columns, runs).to_pylist()
                found = [((r["topic"], r["partition"]), r["offset"], r["value"]) for r in rows]
            else:
                records: list[ConsumerRecord] = []
                self.fetcher.take(records, limit)
                found = [((r.topic, r.partition), r.offset, r.value) for r in records]
        except LogTruncationError as error:
            place = (error.topic, error.partition)
            assert self.unclean
            offset = error.divergent_offset or 0
            self.fetcher.seek(place, offset)
            self.expected[place] = offset
        except OffsetOutOfRangeError as error:
            name = str(error.subject)
            place = (name[:-2], int(name[-1]))
            offset = self.brokers.logs[place].start
            self.fetcher.seek(place, offset)
            self.expected[place] = offset
        if found and self.random.random() < 0.05:
            self.fetcher.take_back()
            return 0
        assert len(found) <= limit
        for place, offset, value in found:
            assert place not in paused
            self.check(place, offset, value)
        return len(found)

    def check(self, place: Place, offset: int, value: bytes) -> None:
        log = self.brokers.logs[place]
        assert place in self.fetcher.partitions
        assert offset >= self.expected[place], "doubled or out of order"
        assert (offset, value) in log.ever, "not a record that was ever there"
        if not self.unclean:
            passed = [at for at in range(self.expected[place], offset) if at in log.values]
            assert not passed, f"{place}: lost {passed}"
        self.expected[place] = offset + 1
        self.received[place].append((offset, value))

    # -- what happens between

    def plan(self) -> None:
        buffered = self.fetcher.buffered_bytes
        for fetch in self.fetcher.plan(self.now):
            assert sum(f.node_id == fetch.node_id for f, _ in self.flights) == 0
            self.flights.append((fetch, self.brokers.fetch(fetch)))
        assert buffered <= 3 * 4_000
        if self.fetcher.needs_metadata and self.random.random() < 0.3:
            self.fetcher.needs_metadata = False
            self.update()

    def update(self) -> None:
        self.brokers.publish(self.metadata)
        self.fetcher.metadata_updated()

    def land(self) -> None:
        if not self.flights:
            return
        fetch, response = self.flights.pop(self.random.randrange(len(self.flights)))
        if self.random.random() < 0.1:
            lost = ConnectionLost("host:1", "records", "a test")
            self.fetcher.failed(fetch, lost, self.now)
        else:
            self.fetcher.answered(fetch, response, self.now)

    def positions(self) -> None:
        """Answer what is asked about positions, from the leader as it is now."""
        for state in self.fetcher.in_step(Step.RESET, self.now):
            log = self.brokers.logs[state.partition]
            offset = log.end if self.fetcher.reset_policy.text == "latest" else log.start
            self.fetcher.offset_found(state, state.version, offset)
            self.expected[state.partition] = offset
        for state in self.fetcher.in_step(Step.VALIDATE, self.now):
            self.validate(state)

    def validate(self, state: PartitionState) -> None:
        log = self.brokers.logs[state.partition]
        if state.leader_epoch != log.epoch:
            self.fetcher.not_positioned(state, state.version, self.now)
            self.fetcher.needs_metadata = True
            return
        epoch, end = log.end_of_epoch(state.next_epoch)
        position = state.position
        self.fetcher.validated(state, state.version, epoch, end)
        if state.failure is None and state.step is Step.FETCH and state.position != position:
            assert state.position < position
            self.expected[state.partition] = state.position

    def event(self) -> None:
        random = self.random
        log = self.brokers.logs[random.choice(PLACES)]
        choice = random.random()
        if choice < 0.15:
            log.append(random.randrange(1, 6))
        elif choice < 0.22:
            log.append_transaction(
                random.randrange(1, 4), random.choice((7, 8)), commit=random.random() < 0.5
            )
        elif choice < 0.26:
            self.brokers.move(log.place)
        elif choice < 0.28 and self.unclean:
            self.brokers.truncate(log.place, random.randrange(1, 3))
        elif choice < 0.29 and self.unclean and log.end > log.start:
            log.delete_before(random.randint(log.start, log.end))
        elif choice < 0.31:
            self.brokers.forget_sessions(random.randrange(NODES))
        elif choice < 0.33:
            self.seek()
        elif choice < 0.37:
            self.pause()
        elif choice < 0.42:
            self.resume()
        elif choice < 0.44:
            self.rebalance()
        elif choice < 0.48:
            self.update()
        elif choice < 0.62:
            self.land()
        elif choice < 0.76:
            self.take()
        elif choice < 0.82:
            self.positions()
        else:
            self.now += random.random() * 0.2
        self.plan()

    def settle(self) -> None:
        """Everything works again: the reader must come to the end of every log."""
        self.assign(PLACES)
        for place in PLACES:
            self.fetcher.resume(place)
        quiet = 0
        for _ in range(3_000):
            self.now += 1.0
            self.update()
            self.positions()
            self.plan()
            while self.flights:
                fetch, response = self.flights.pop(0)
                self.fetcher.answered(fetch, response, self.now)
            quiet = 0 if self.take() else quiet + 1
            if quiet > 50:
                break
        for place in PLACES:
            state = self.fetcher.partitions[place]
            log = self.brokers.logs[place]
            assert state.position == log.end, f"{place}: {state.position} of {log.end}"
            after = [at for at in log.values if at >= self.expected[place]]
            assert not after, f"{place}: {after} were not handed out"


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_the_reader_sees_the_log(seed: int, columns: bool) -> None:
    run = Run(seed, columns=columns, reset="earliest", unclean=False)
    for _ in range(EVENTS):
        run.event()
    run.settle()
    assert sum(map(len, run.received.values())) > 20


@pytest.mark.parametrize("reset", ["earliest", "none"])
@pytest.mark.parametrize("seed", range(30))
def test_truncations_are_noticed(seed: int, reset: str) -> None:
    run = Run(1_000 + seed, columns=False, reset=reset, unclean=True)
    for _ in range(EVENTS):
        run.event()
    run.settle()
