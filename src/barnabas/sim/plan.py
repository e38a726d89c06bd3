"""What a seed decides about a run before it starts: the nodes, their settings, the amount of work."""

from __future__ import annotations

import random
from dataclasses import dataclass

from barnabas.config.broker import BrokerConfig
from barnabas.raft.voters import VoterEndpoint, VoterNode, VoterSet
from barnabas.wire import uuids

BROKER_PORT = 9092
CONTROLLER_PORT = 9093
TOPIC = "orders"
GROUP = "clerks"
OWN_GROUP = "messengers"
CONTROLLER = "CONTROLLER"

# Shorter than usual, so that a few virtual seconds hold many elections.
_CLUSTER = {
    "controller.listener.names": CONTROLLER,
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "300",
    "controller.quorum.request.timeout.ms": "1000",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "400",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "300",
    "min.insync.replicas": "2",
}


@dataclass(frozen=True, slots=True)
class Plan:
    nodes: list[tuple[str, BrokerConfig]]
    voters: VoterSet | None
    cluster_id: str
    bootstrap: list[tuple[str, int]]
    partitions: int
    replication_factor: int
    min_insync_replicas: int
    producers: int
    consumers: int
    members: int
    records: int
    pause_s: float
    member_fetch_bytes: int
    faults_ms: int
    power_cuts: bool
    disk_faults: bool
    own_clients: bool


def make_plan(nodes: int, rng: random.Random) -> Plan:
    # Without waiting for the disk a record is as safe as the one node that holds it.
    flush_before_ack = rng.random() < 0.7
    common = {
        "group.initial.rebalance.delay.ms": str(rng.choice([0, 300])),
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
    if nodes > 1:
        # With little a fetch, who is behind stays behind for a while.
        fetch_bytes = str(rng.choice([150, 1_000, 1_048_576]))
        common |= {**_CLUSTER, "replica.fetch.max.bytes": fetch_bytes}
        common["replica.fetch.response.max.bytes"] = fetch_bytes
    voters = _voters(nodes, rng)
    settings = [_settings(index, common) for index in range(nodes)]
    static = nodes > 1 and rng.random() < 0.3
    for index, given in enumerate(settings):
        if nodes > 1:
            given |= _quorum(voters, static)
            given |= _roles(index, voters)
    return Plan(
        nodes=[(f"node{index}", BrokerConfig(given)) for index, given in enumerate(settings)],
        voters=voters if nodes > 1 and not static else None,
        cluster_id=uuids.to_text(rng.randbytes(16)),
        bootstrap=[(f"node{index}", BROKER_PORT) for index in range(nodes)],
        partitions=rng.randint(1, 3),
        replication_factor=min(nodes, 3),
        min_insync_replicas=1 if nodes == 1 else 2,
        producers=rng.randint(1, 3),
        consumers=1,
        members=rng.randint(1, 3),
        records=rng.randint(10, 60),
        pause_s=rng.choice([0.02, 0.1, 0.3]),
        member_fetch_bytes=rng.choice([200, 4_096]),
        faults_ms=rng.randint(3_000, 12_000),
        power_cuts=flush_before_ack,
        disk_faults=rng.random() < 0.5,
        own_clients=rng.random() < 0.3,
    )


def _voters(nodes: int, rng: random.Random) -> VoterSet:
    """Of five nodes three vote, or all of them."""
    count = 3 if nodes == 5 and rng.random() < 0.6 else nodes
    return VoterSet(
        tuple(
            VoterNode(
                index,
                uuids.random_uuid(rng.randbytes),
                (VoterEndpoint(CONTROLLER, f"node{index}", CONTROLLER_PORT),),
            )
            for index in range(count)
        )
    )


def _settings(index: int, common: dict[str, str]) -> dict[str, str]:
    host = f"node{index}"
    return {
        **common,
        "node.id": str(index),
        "listeners": f"PLAINTEXT://{host}:{BROKER_PORT}",
        "log.dirs": f"/{host}/data",
    }


def _roles(index: int, voters: VoterSet) -> dict[str, str]:
    host = f"node{index}"
    if voters.find(index) is None:
        return {"process.roles": "broker"}
    return {
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://{host}:{BROKER_PORT},{CONTROLLER}://{host}:{CONTROLLER_PORT}",
    }


def _quorum(voters: VoterSet, static: bool) -> dict[str, str]:
    servers = [f"node{voter.voter_id}:{CONTROLLER_PORT}" for voter in voters.voters]
    if static:
        named = [
            f"{voter.voter_id}@{server}"
            for voter, server in zip(voters.voters, servers, strict=True)
        ]
        return {"controller.quorum.voters": ",".join(named)}
    return {"controller.quorum.bootstrap.servers": ",".join(servers)}
