"""What a seed decides about a run before it starts: the nodes, their settings, the amount of work."""

from __future__ import annotations

import random
from dataclasses import dataclass

from barnabas.config.broker import BrokerConfig

BROKER_PORT = 9092
CONTROLLER_PORT = 9093
TOPIC = "orders"
GROUP = "clerks"


@dataclass(frozen=True, slots=True)
class Plan:
    nodes: list[tuple[str, BrokerConfig]]
    bootstrap: list[tuple[str, int]]
    partitions: int
    replication_factor: int
    min_insync_replicas: int
    producers: int
    consumers: int
    members: int
    records: int
    pause_s: float
    faults_ms: int
    power_cuts: bool
    disk_faults: bool


def make_plan(nodes: int, rng: random.Random) -> Plan:
    flush_before_ack = nodes > 1 or rng.random() < 0.7
    common = {
        "group.initial.rebalance.delay.ms": str(rng.choice([0, 300])),
        "barnabas.format.if.empty": "true",
        "barnabas.flush.before.ack": str(flush_before_ack).lower(),
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "2",
        "offsets.topic.replication.factor": str(min(nodes, 3)),
        "default.replication.factor": str(min(nodes, 3)),
        "log.flush.scheduler.interval.ms": "1000",
        "log.roll.ms": str(rng.choice([400, 3_000, 100_000_000])),
        "log.initial.task.delay.ms": str(rng.choice([500, 30_000])),
        "replica.high.watermark.checkpoint.interval.ms": str(rng.choice([300, 5_000])),
    }
    return Plan(
        nodes=[(f"node{index}", _config(index, nodes, common)) for index in range(nodes)],
        bootstrap=[(f"node{index}", BROKER_PORT) for index in range(nodes)],
        partitions=rng.randint(1, 3),
        replication_factor=min(nodes, 3),
        min_insync_replicas=1 if nodes == 1 else 2,
        producers=rng.randint(1, 3),
        consumers=1,
        members=rng.randint(1, 3),
        records=rng.randint(10, 60),
        pause_s=rng.choice([0.02, 0.1, 0.3]),
        faults_ms=rng.randint(3_000, 12_000),
        power_cuts=flush_before_ack,
        disk_faults=rng.random() < 0.5,
    )


def _config(index: int, nodes: int, common: dict[str, str]) -> BrokerConfig:
    host = f"node{index}"
    return BrokerConfig(
        {
            **common,
            "node.id": str(index),
            "listeners": f"PLAINTEXT://{host}:{BROKER_PORT}",
            "log.dirs": f"/{host}/data",
        }
    )
