"""A quorum from one seed: loss, delay, duplication, partitions, crashes, power cuts, voters that come
and go. After every event the promises of Raft are checked; when the faults stop, there is a leader
and progress within bounded time.

The seed is in the test's name; the same seed gives the same run.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import random
from collections.abc import Callable

import pytest

from barnabas.raft.connections import Send
from barnabas.raft.settings import RaftSettings
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.message import Message
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from tests.raft.cluster import (
    CLUSTER_ID,
    Node,
    directory_of,
    dynamic_voters,
    endpoint_of,
    is_api_versions,
    static_voters,
    through_the_wire,
    version_of,
    versions_response,
)

SEEDS = 200
FAULTY_MS = 8_000
HEALTHY_MS = 30_000
SETTINGS = RaftSettings(fetch_max_bytes=300, fetch_snapshot_max_bytes=150)


class Simulation:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        size = self.random.choice((3, 3, 5))
        ids = list(range(1, size + 1))
        dynamic = self.random.random() < 0.5
        self.nodes: dict[int, Node] = {}
        for node_id in ids:
            self.nodes[node_id] = Node(
                node_id,
                voters=None if dynamic else static_voters(ids),
                initial=dynamic_voters(ids) if dynamic else None,
                bootstrap=ids if dynamic else (),
                settings=SETTINGS,
                seed=seed,
            )
        observer = size + 1
        self.nodes[observer] = Node(
            observer,
            voters=None if dynamic else static_voters(ids),
            can_vote=False,
            bootstrap=ids if dynamic else (),
            settings=SETTINGS,
            seed=seed,
        )
        self.now_ms = 1_000_000
        self.faulty = True
        self.cut: set[tuple[int, int]] = set()
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.counter = itertools.count()
        self.lives = dict.fromkeys(self.nodes, 0)
        self.leaders: dict[int, int] = {}
        self.committed: dict[int, tuple[int, tuple[bytes, ...]]] = {}
        self.high_watermarks: dict[int, int] = {}
        self.proposals = itertools.count()
        self.flushing: set[int] = set()
        self.ticks: dict[int, int] = {}

    # ---- events

    def later(self, delay_ms: int, event: Callable[[], None]) -> None:
        heapq.heappush(self.events, (self.now_ms + delay_ms, next(self.counter), event))

    def run_until(self, end_ms: int, done: Callable[[], bool] = lambda: False) -> bool:
        while self.events and self.events[0][0] <= end_ms:
            at_ms, _, event = heapq.heappop(self.events)
            self.now_ms = max(self.now_ms, at_ms)
            event()
            self.check()
            if done():
                return True
        return False

    def drive(self, node_id: int) -> None:
        """What a driver does after every call."""
        node = self.nodes[node_id]
        raft = node.raft
        if raft is None:
            return
        for send in raft.take_sends():
            self.deliver(node_id, send)
        if raft.wants_flush and node_id not in self.flushing:
            self.flushing.add(node_id)
            delay_ms = self.random.randrange(1, 200 if self.random.random() < 0.1 else 30)
            self.guarded(node_id, delay_ms, lambda: self.flushed(node_id))
        due_ms = raft.next_tick_ms
        if due_ms < (1 << 60) and self.ticks.get(node_id) != due_ms:
            self.ticks[node_id] = due_ms
            self.guarded(node_id, max(due_ms - self.now_ms, 0), lambda: self.tick(node_id))

    def guarded(self, node_id: int, delay_ms: int, event: Callable[[], None]) -> None:
        """An event of this life of a node: a crash takes it away."""
        life = self.lives[node_id]

        def run() -> None:
            if self.lives[node_id] == life and self.nodes[node_id].raft is not None:
                event()

        self.later(delay_ms, run)

    def flushed(self, node_id: int) -> None:
        """Nothing was durable before this moment, and all of it is then."""
        self.flushing.discard(node_id)
        raft = self.nodes[node_id].raft
        assert raft is not None
        raft.flushed(raft.log.sync(), self.now_ms)
        self.drive(node_id)

    def tick(self, node_id: int) -> None:
        raft = self.nodes[node_id].raft
        assert raft is not None
        self.ticks.pop(node_id, None)
        raft.tick(self.now_ms)
        self.drive(node_id)

    # ---- the network

    def delay_ms(self) -> int:
        if self.faulty and self.random.random() < 0.05:
            return self.random.randrange(1, 3000)
        return self.random.randrange(1, 40)

    def is_lost(self, source: int, target: int) -> bool:
        if not self.faulty:
            return False
        return (source, target) in self.cut or self.random.random() < 0.03

    def deliver(self, source: int, send: Send) -> None:
        target = int(send.host[1:])
        version = version_of(send)
        request = through_the_wire(send.request, version)
        answered = False

        def answer(response: Message | None) -> None:
            nonlocal answered
            raft = self.nodes[source].raft
            if not answered and raft is not None:
                answered = True
                raft.answered(send, response, self.now_ms)
                self.drive(source)

        def reply(response: Message) -> None:
            assert not replies, "one answer to each request"
            replies.append(response)
            if not self.is_lost(target, source):
                given = through_the_wire(response, version)
                self.guarded(source, self.delay_ms(), lambda: answer(given))

        replies: list[Message] = []

        def arrive() -> None:
            raft = self.nodes[target].raft
            if raft is None:
                return
            if is_api_versions(send):
                reply(versions_response())
                return
            replies.clear()
            raft.handle(send.key, version, request, self.now_ms, reply, listener_name="CONTROLLER")
            self.drive(target)
            if self.faulty and send.key is ApiKey.VOTE and self.random.random() < 0.1:
                self.crash(target, within_ms=50)

        if not self.is_lost(source, target):
            self.later(self.delay_ms(), arrive)
            if self.faulty and self.random.random() < 0.03:
                replies_twice: list[Message] = []
                self.later(
                    self.delay_ms(),
                    lambda: self._repeat(target, send, version, replies_twice.append),
                )
        self.guarded(source, send.timeout_ms, lambda: answer(None))

    def _repeat(
        self, target: int, send: Send, version: int, reply: Callable[[Message], None]
    ) -> None:
        """A request that arrives twice; the second answer goes nowhere."""
        raft = self.nodes[target].raft
        if raft is not None and not is_api_versions(send):
            request = through_the_wire(send.request, version)
            raft.handle(send.key, version, request, self.now_ms, reply)
            self.drive(target)

    # ---- what goes wrong, and what is done

    def start(self, node_id: int) -> None:
        node = self.nodes[node_id]
        if node.raft is None:
            self.high_watermarks.pop(node_id, None)
            node.start(self.now_ms)
            self.drive(node_id)

    def crash(self, node_id: int, within_ms: int = 3000) -> None:
        node = self.nodes[node_id]
        if node.raft is not None:
            self.lives[node_id] += 1
            self.flushing.discard(node_id)
            self.ticks.pop(node_id, None)
            node.crash(power=self.random.random() < 0.7)
            self.later(self.random.randrange(1, within_ms), lambda: self.start(node_id))

    def mischief(self) -> None:
        if not self.faulty:
            return
        ids = list(self.nodes)
        match self.random.randrange(9):
            case 8:
                for each in ids:
                    if self.random.random() < 0.8:
                        self.crash(each)
            case 0 | 1:
                self.crash(self.random.choice(ids))
            case 2:
                alone = self.random.choice(ids)
                self.cut = {(alone, each) for each in ids} | {(each, alone) for each in ids}
            case 3:
                self.cut = {(a, b) for a in ids for b in ids if self.random.random() < 0.3}
            case 4:
                self.cut = set()
            case 6 | 7:
                self.change_voters()
            case 5:
                leading = [each for each, node in self.nodes.items() if _leads(node)]
                if leading:
                    raft = self.nodes[leading[0]].raft
                    assert raft is not None
                    raft.resign(self.now_ms)
                    self.drive(leading[0])
        self.later(self.random.randrange(100, 1000), self.mischief)

    def change_voters(self) -> None:
        """Ask whoever leads to remove a voter, or to bring one back."""
        for node_id, node in self.nodes.items():
            raft = node.raft
            if raft is None or not raft.is_leader or raft.kraft_version == 0:
                continue
            candidates = [each for each, other in self.nodes.items() if other.can_vote]
            voter_id = self.random.choice(candidates)
            request: AddRaftVoterRequest | RemoveRaftVoterRequest
            if voter_id in raft.voters.ids:
                if len(raft.voters.ids) <= 2:
                    continue
                request = RemoveRaftVoterRequest(
                    cluster_id=CLUSTER_ID,
                    voter_id=voter_id,
                    voter_directory_id=directory_of(voter_id),
                )
            else:
                endpoint = endpoint_of(voter_id)
                request = AddRaftVoterRequest(
                    cluster_id=CLUSTER_ID,
                    timeout_ms=3000,
                    voter_id=voter_id,
                    voter_directory_id=directory_of(voter_id),
                    listeners=[
                        Listener(name=endpoint.name, host=endpoint.host, port=endpoint.port)
                    ],
                )
            key = type(request).API_KEY
            raft.handle(key, 0, request, self.now_ms, lambda response: None)
            self.drive(node_id)

    def work(self) -> None:
        for node_id, node in self.nodes.items():
            raft = node.raft
            if raft is None:
                continue
            if raft.is_leader and node.recorder.leading is not None:
                for _ in range(self.random.randrange(1, 4)):
                    raft.append([b"v%d" % next(self.proposals)], self.now_ms)
                self.drive(node_id)
            if self.random.random() < 0.02 and raft.high_watermark > 0:
                node.snapshot()
                if self.random.random() < 0.7:
                    node.forget_log()
                self.drive(node_id)
        self.later(self.random.randrange(10, 150), self.work)

    # ---- what must hold

    def check(self) -> None:
        for node_id, node in self.nodes.items():
            raft = node.raft
            if raft is None:
                continue
            if raft.is_leader:
                known = self.leaders.setdefault(raft.epoch, node_id)
                assert known == node_id, f"two leaders in epoch {raft.epoch}"
            before = self.high_watermarks.get(node_id, 0)
            assert raft.high_watermark >= before, "the high watermark went back"
            self.high_watermarks[node_id] = raft.high_watermark
            self._check_committed(node)

    def _check_committed(self, node: Node) -> None:
        """Everyone is told the same, and what anyone was told stays."""
        recorder = node.recorder
        while recorder.checked < len(recorder.told):
            offset, epoch, values = recorder.told[recorder.checked]
            known = self.committed.setdefault(offset, (epoch, values))
            assert known == (epoch, values), f"committed batches differ at {offset}"
            recorder.checked += 1

    def check_everything(self) -> None:
        flat = [value for _, (_, values) in sorted(self.committed.items()) for value in values]
        assert len(set(flat)) == len(flat)
        for node in self.nodes.values():
            values = node.recorder.values
            assert values == flat[: len(values)], "something committed was lost or changed"


def _leads(node: Node) -> bool:
    return node.raft is not None and node.raft.is_leader


@pytest.mark.parametrize("seed", range(SEEDS))
def test_seed(seed: int) -> None:
    simulation = Simulation(seed)
    for node_id in simulation.nodes:
        delay_ms = simulation.random.randrange(500)
        simulation.later(delay_ms, functools.partial(simulation.start, node_id))
    simulation.later(1500, simulation.mischief)
    simulation.later(100, simulation.work)
    end_ms = simulation.now_ms + FAULTY_MS
    simulation.run_until(end_ms)
    simulation.faulty = False
    simulation.cut = set()
    for node_id in simulation.nodes:
        simulation.start(node_id)
    before = max(simulation.committed, default=0)

    def healthy() -> bool:
        return all(
            node.raft is not None and node.raft.high_watermark > before + 20
            for node in simulation.nodes.values()
        )

    assert simulation.run_until(end_ms + HEALTHY_MS, healthy), "no progress after the faults"
    simulation.check_everything()
