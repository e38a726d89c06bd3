"""Load on a cluster of node processes while nodes die, freeze or are cut off, and the count after it.

Idempotent producers of librdkafka and of Barnabas, plain and on a loop, write an endless count with
acks=all all the while, and groups read and commit. `Chaos.strike` does one fault: it begins, the rest
of the cluster notices and goes on, it ends, the node comes back. `Chaos.count` is the judgement: every
acknowledged record is at the offset that was promised, once, in order.

A leader that froze finds a produce request waiting when it wakes. Whatever it answers must be true:
an acknowledgement counts like every other.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from barnabas.record.build import build_batch
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.peers import own_load
from tests.peers.node_cluster import NodeCluster, State, active_controller, until
from tests.peers.own_load import OwnGroup, OwnLoad
from tests.peers.test_crash import PARTITIONS, Load, read_all
from tests.peers.wire_connection import Wire

Fault = tuple[str, str]
TOPIC = "chaos"
LATE = "late"
OWN = {kind: f"chaos-{kind}" for kind in own_load.KINDS}
PROGRESS = 300
PRODUCE_VERSION = 9
ROUNDS = int(os.environ.get("BARNABAS_CHAOS_ROUNDS", "1"))
SEED = int(os.environ.get("BARNABAS_CHAOS_SEED", "0")) or random.randrange(1, 1 << 30)


def rounds(faults: Sequence[Fault]) -> list[Fault]:
    """The faults once, in their order, and then as often as asked in an order that a seed gives."""
    found = list(faults)
    if ROUNDS > 1:
        print(f"chaos: {ROUNDS} rounds, BARNABAS_CHAOS_SEED={SEED}")
    order = random.Random(SEED)
    for _ in range(ROUNDS - 1):
        found += order.sample(list(faults), len(faults))
    return found


class Group:
    """A consumer of a group in a thread; it commits whatever it has read."""

    def __init__(self, bootstrap: str) -> None:
        self.consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "chaos", "auto.offset.reset": "earliest",
             "enable.auto.commit": False, "reconnect.backoff.max.ms": 100, "socket.timeout.ms": 2000}
        )  # fmt: skip
        self.commits = 0
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        self.consumer.subscribe([TOPIC])
        while not self.stopping.is_set():
            if not [m for m in self.consumer.consume(500, 0.1) if m.error() is None]:
                continue
            try:
                self.consumer.commit(asynchronous=False)
            except KafkaException:
                continue  # the coordinator is on its way to another node
            self.commits += 1

    def stop(self) -> dict[int, int]:
        """The committed offsets, as the cluster tells them."""
        self.stopping.set()
        self.thread.join()
        asked = [TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
        found = self.consumer.committed(asked, timeout=20)
        self.consumer.close()
        return {each.partition: each.offset for each in found}


class Chaos:
    def __init__(self, cluster: NodeCluster) -> None:
        self.cluster = cluster
        self.state = State(cluster.bootstrap)
        for topic in (TOPIC, LATE, *OWN.values()):
            self.state.create(topic, PARTITIONS, 3, {"min.insync.replicas": "2"})
        self.loads: dict[str, Load | OwnLoad] = {
            TOPIC: Load(
                cluster.bootstrap,
                TOPIC,
                enable_idempotence=True,
                topic_metadata_refresh_interval_ms=300,
                socket_timeout_ms=2000,
                request_timeout_ms=1500,
            )
        }
        self.groups: dict[str, Group | OwnGroup] = {TOPIC: Group(cluster.bootstrap)}
        for kind, topic in OWN.items():
            self.loads[topic] = OwnLoad(cluster.bootstrap, topic, kind)
            self.groups[topic] = OwnGroup(cluster.bootstrap, topic, kind)
        self.late: list[tuple[int, int, int]] = []
        self.goes_on()

    # -- who is who

    def leader(self) -> int:
        return self.state.leader(TOPIC)

    def follower(self) -> int:
        return self.leader() % 3 + 1

    def controller(self) -> int:
        return active_controller(self.cluster)

    def others(self, node_id: int) -> list[int]:
        return [each for each in self.cluster.nodes if each != node_id]

    # -- one fault

    def strike(
        self,
        victim: Callable[[], int],
        begin: Callable[[int], None],
        end: Callable[[int], None],
        noticed: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`noticed` is called when the others have gone on without the victim."""
        until(lambda: self.leader() > 0 and self.controller() > 0, what="no leader, no controller")
        chosen = victim()
        print(f"chaos: {begin.__name__} the {victim.__name__}, node {chosen}")
        begin(chosen)
        others = [self.cluster.node(each).bootstrap for each in self.others(chosen)]
        gone = f"node {chosen} stays in sync"
        until(lambda: all(_without(each, chosen) for each in others), what=gone)
        noticed(chosen)
        self.goes_on()
        end(chosen)
        until(lambda: self.state.in_sync(TOPIC, 3), what=f"node {chosen} does not come back")

    def goes_on(self) -> None:
        """Records are acknowledged and offsets committed that were not before."""
        records = {topic: load.total() for topic, load in self.loads.items()}
        commits = {topic: group.commits for topic, group in self.groups.items()}
        for topic, load in self.loads.items():
            enough = records[topic] + PROGRESS
            what = f"no more acknowledgements of {topic}: {load.failed}"
            until(lambda load=load, enough=enough: load.total() >= enough, what=what)
        for topic, group in self.groups.items():
            before = commits[topic]
            what = f"no more commits of {topic}"
            until(lambda group=group, before=before: group.commits > before, what=what)

    # -- faults of processes

    def kill(self, node_id: int) -> None:
        self.cluster.kill(node_id)

    def restart(self, node_id: int) -> None:
        self.cluster.start(node_id)

    def freeze(self, node_id: int) -> None:
        led = [p for p, (at, _) in self.state.partitions(LATE).items() if at == node_id]
        node = self.cluster.node(node_id)
        self.waiting = [(Wire(node.bootstrap), p) for p in led]
        node.pause()
        for number, (wire, partition) in enumerate(self.waiting):
            wire.send_bytes(wire.frame(_produce(partition, number), PRODUCE_VERSION))

    def thaw(self, node_id: int) -> None:
        self.cluster.node(node_id).resume()
        for number, (wire, partition) in enumerate(self.waiting):
            with wire:
                answer = wire.answer(ApiKey.PRODUCE, PRODUCE_VERSION)
            found = answer.responses[0].partition_responses[0]
            if found.error_code == 0:
                self.late.append((partition, found.base_offset, number))

    # -- the end

    def count(self) -> None:
        self.goes_on()
        bootstrap = self.cluster.bootstrap
        for topic, load in self.loads.items():
            judge(bootstrap, topic, load, self.groups[topic])
        late = read_all(bootstrap, LATE)
        for partition, offset, number in self.late:
            assert late[partition].get(offset) == number, "a stale leader acknowledged"


def judge(bootstrap: str, topic: str, load: Load | OwnLoad, group: Group | OwnGroup) -> None:
    """Ends both; everything acknowledged is there, once and in order, and the group read it."""
    load.stop()
    assert not load.failed, (topic, load.failed[:5])
    found = read_all(bootstrap, topic)
    for partition, acknowledged in load.acknowledged.items():
        for offset, number in acknowledged:
            assert found[partition][offset] == number
        numbers = [found[partition][offset] for offset in sorted(found[partition])]
        assert numbers == list(range(len(numbers)))
    committed = group.stop()
    assert all(0 < committed[p] <= len(found[p]) for p in found)


def _without(bootstrap: str, node_id: int) -> bool:
    """That broker has noticed: nobody waits for the node any longer, and nothing is led by it."""
    with Wire(bootstrap) as wire:
        answer = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 8)
    found = [p for topic in answer.topics for p in topic.partitions]
    return len(found) == PARTITIONS and all(
        p.leader_id not in (-1, node_id) and node_id not in p.isr_nodes for p in found
    )


def _produce(partition: int, number: int) -> ProduceRequest:
    records = build_batch([(0, None, b"%d." % number, ())])
    data = PartitionProduceData(index=partition, records=memoryview(records))
    return ProduceRequest(
        acks=-1, timeout_ms=2000, topic_data=[TopicProduceData(name=LATE, partition_data=[data])]
    )
