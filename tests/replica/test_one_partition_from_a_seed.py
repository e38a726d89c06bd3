"""One partition over three brokers from one seed: lost messages, late metadata, leader changes, crashes.

A broker that crashes loses what it had not synced and returns with a new epoch, out of the ISR; the last
one in the ISR only dies and keeps its bytes, as nobody else could lead after it. After every step:

* what was acknowledged with acks=all is where it was acknowledged, on whoever leads;
* what was once below a leader's high watermark never changes;
* replicas in sync with one another agree below their high watermarks;
* a high watermark does not go back while its leader's epoch lasts.

Replay a failing seed: pytest tests/replica/test_one_partition_from_a_seed.py -k "[SEED]"
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from barnabas.config.topic import LogConfig
from barnabas.replica.fetcher import FollowerFetcher
from barnabas.wire.errors import ErrorCode
from tests.replica.brokers import Answer, Broker, Cluster, over_the_wire, produced

STEPS = 500


class Simulation:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        config = LogConfig(min_insync_replicas=2, internal_segment_bytes=2000)
        self.cluster = Cluster(3, config=config)
        self.written = 0
        self.waiting: list[tuple[Answer, bytes]] = []
        self.acknowledged: dict[int, bytes] = {}
        self.committed: dict[int, bytes | None] = {}
        self.marks: dict[tuple[int, int], int] = {}
        # Fetches whose answers are not there yet: who asked, with what, whom.
        self.asked: dict[int, tuple[FollowerFetcher, Answer]] = {}
        self.dead: set[int] = set()

    # ---- what may happen

    def alive(self) -> list[Broker]:
        return [broker for node, broker in self.cluster.brokers.items() if node not in self.dead]

    def produce(self) -> None:
        broker = self.rng.choice(self.alive())
        leader_id = self.cluster.registration.leader
        if leader_id >= 0 and leader_id not in self.dead and self.rng.random() < 0.8:
            broker = self.cluster.leader
        self.written += 1
        value = b"%d" % self.written
        acks = self.rng.choice([-1, -1, 1])
        answer = broker.produce(value, acks)
        if acks == -1:
            self.waiting.append((answer, value))

    def ask(self) -> None:
        broker = self.rng.choice(self.alive())
        cluster = self.cluster
        for fetcher in broker.replicas.fetchers.values():
            request = fetcher.next_request(cluster.clock.ms)
            if request is None:
                continue
            if fetcher.leader_id in self.dead or self.rng.random() < 0.05:
                fetcher.answered(None, cluster.clock.ms)
                continue
            answer = cluster.brokers[fetcher.leader_id].handle(request)
            if self.rng.random() < 0.05:
                fetcher.answered(None, cluster.clock.ms)
            else:
                self.asked[broker.node_id] = (fetcher, answer)

    def answer(self) -> None:
        for node, (fetcher, answer) in list(self.asked.items()):
            if answer.response is not None:
                del self.asked[node]
                fetcher.answered(over_the_wire(answer.response), self.cluster.clock.ms)
                self.cluster.brokers[node].turn()

    def settle(self) -> None:
        broker = self.rng.choice(self.alive())
        self.cluster.settle_isr(broker.node_id, lost=self.rng.random() < 0.2)

    def publish(self) -> None:
        self.cluster.publish(self.rng.choice(self.alive()).node_id)

    def pass_time(self) -> None:
        self.cluster.pass_time(self.rng.choice([1, 1, 5, 20, 20, 20, 600, 6000]), *self.alive())
        for broker in self.alive():
            broker.replicas.tick(self.cluster.clock.ms)

    def move_leader(self) -> None:
        cluster = self.cluster
        choices = [node for node in cluster.registration.isr if node not in self.dead]
        if choices:
            cluster.change(leader=self.rng.choice(choices))

    def crash(self) -> None:
        if self.dead:
            return
        cluster = self.cluster
        broker = self.rng.choice(self.alive())
        node = broker.node_id
        self.dead.add(node)
        self.asked = {
            each: (fetcher, answer)
            for each, (fetcher, answer) in self.asked.items()
            if each != node and fetcher.leader_id != node
        }
        for other in self.alive():
            for (leader_id, _), fetcher in other.replicas.fetchers.items():
                if leader_id == node:
                    fetcher.answered(None, cluster.clock.ms)
        isr = cluster.registration.isr
        cluster.fenced.add(node)
        broker.logs.close(clean=False)
        if isr == (node,):
            broker.disk.kill()
            cluster.change(leader=-1)
            return
        broker.disk.sync_directory("")
        broker.disk.power_cut(self.rng)
        if node in isr:
            rest = tuple(each for each in isr if each != node)
            was_leader = cluster.registration.leader == node
            cluster.change(leader=self.rng.choice(rest) if was_leader else None, isr=rest)

    def restart(self) -> None:
        cluster = self.cluster
        for node in list(self.dead):
            self.dead.discard(node)
            cluster.epochs[node] += 1
            cluster.fenced.discard(node)
            cluster.start(node, cluster.brokers[node].disk)
            if cluster.registration.isr == (node,):
                cluster.change(leader=node)
            cluster.publish(node)

    # ---- what must hold

    def check(self) -> None:
        still: list[tuple[Answer, bytes]] = []
        for answer, value in self.waiting:
            result = produced(answer)
            if result is None:
                still.append((answer, value))
            elif result[0] == ErrorCode.NONE:
                self.acknowledged[result[1]] = value
        self.waiting = still
        now = self.cluster.registration
        for broker in self.alive():
            partition = broker.partition
            log = broker.log
            assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
            if partition.is_leader:
                key = (broker.node_id, partition.leader_epoch)
                assert log.high_watermark >= self.marks.get(key, 0)
                self.marks[key] = log.high_watermark
            for offset, value in enumerate(broker.values(log.high_watermark)):
                assert self.committed.setdefault(offset, value) == value, broker
            if partition.is_leader and partition.leader_epoch == now.leader_epoch:
                values = broker.values()
                for offset, value in self.acknowledged.items():
                    assert values[offset : offset + 1] == [value], (broker, offset)
                for offset, committed in self.committed.items():
                    assert values[offset : offset + 1] == [committed], (broker, offset)

    def run(self) -> None:
        actions: list[tuple[Any, int]] = [
            (self.produce, 12),
            (self.ask, 40),
            (self.answer, 30),
            (self.settle, 8),
            (self.publish, 10),
            (self.pass_time, 8),
            (self.move_leader, 1),
            (self.crash, 1),
            (self.restart, 3),
        ]
        choices = [action for action, weight in actions for _ in range(weight)]
        for _ in range(STEPS):
            self.rng.choice(choices)()
            self.check()
        self.heal()

    def heal(self) -> None:
        """Faults stop: within a bounded number of rounds all replicas are in sync and equal."""
        self.restart()
        cluster = self.cluster
        for _ in range(60):
            cluster.publish()
            for _ in range(3):
                self.answer()
                for broker in self.alive():
                    for fetcher in broker.replicas.fetchers.values():
                        request = fetcher.next_request(cluster.clock.ms)
                        if request is not None:
                            answer = cluster.brokers[fetcher.leader_id].handle(request)
                            self.asked[broker.node_id] = (fetcher, answer)
                cluster.pass_time(600)
            for broker in self.alive():
                cluster.settle_isr(broker.node_id)
            self.check()
        assert set(cluster.registration.isr) == {1, 2, 3}
        ends = {broker.log.log_end_offset for broker in self.alive()}
        assert len(ends) == 1
        assert cluster.leader.log.high_watermark == ends.pop()
        assert all(broker.values() == cluster.leader.values() for broker in self.alive())


@pytest.mark.parametrize("seed", range(50))
def test_nothing_committed_is_lost(seed: int) -> None:
    Simulation(seed).run()
