"""How a cluster is: which partitions miss a replica, and why.

`look` asks a cluster and gives a `Health`: the verdict, the nodes and the troubled partitions. A
replica out of the ISR has one reason, the first that holds: its broker is not registered, is fenced,
cannot be asked, has lost the directory, or the replica is new or behind. Every broker is asked, because
one that has just died counts as alive until its session ends. Everything comes from requests that any
client may send.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.client.admin import Admin
    from barnabas.client.administration.nodes import ClusterDescription, LogDir
    from barnabas.client.administration.quorum import QuorumDescription
    from barnabas.client.core.metadata import PartitionInfo, TopicInfo, TopicPartition

HEALTHY, DEGRADED, UNAVAILABLE = "healthy", "degraded", "unavailable"
STALE_VOTER_MS = 10_000
# A broker that was just lost is not fenced yet; nobody wants to wait for its answer.
SILENT_MS = 2_000
OFFLINE, UNDER_MIN_ISR, AT_MIN_ISR, UNDER_REPLICATED = (
    "offline",
    "under-min-ISR",
    "at-min-ISR",
    "under-replicated",
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """A partition that is not as it should be; `state` is the gravest that holds."""

    topic: str
    partition: int
    state: str
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    min_isr: int
    reasons: Mapping[int, str]

    @property
    def is_under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)

    @property
    def why(self) -> str:
        return "; ".join(f"{replica}: {reason}" for replica, reason in self.reasons.items())


@dataclass(slots=True)
class Health:
    verdict: str
    problems: list[str]
    cluster: ClusterDescription
    quorum: QuorumDescription | None
    partitions: int
    moving: int
    troubles: list[Trouble]
    silent: Mapping[int, str] = field(default_factory=dict)
    leaders: dict[int, int] = field(default_factory=dict)
    replicas: dict[int, int] = field(default_factory=dict)

    def count(self, state: str) -> int:
        if state == UNDER_REPLICATED:
            return sum(t.is_under_replicated for t in self.troubles)
        return sum(t.state == state for t in self.troubles)


def look(admin: Admin) -> Health:
    from barnabas.client.errors import ClientError

    # Brokers are asked for after the partitions: who was fenced meanwhile explains what is missing.
    topics = admin.list_topics()
    cluster = admin.describe_cluster(include_fenced=True)
    problems: list[str] = []
    quorum: QuorumDescription | None = None
    try:
        quorum = admin.describe_quorum()
    except ClientError as error:
        problems.append(f"the controllers' quorum cannot be asked: {error}")
    minimums = _minimums(admin, topics)
    try:
        moving = dict(admin.list_partition_reassignments())
    except ClientError:
        moving = {}
    alive = {b.node_id for b in cluster.brokers} - cluster.fenced
    missing: dict[int, list[TopicPartition]] = {broker: [] for broker in sorted(alive)}
    for topic in topics:
        for p in topic.partitions.values():
            for replica in p.replicas:
                if replica in missing and replica not in p.isr:
                    missing[replica].append((topic.name, p.partition))
    directories, silent = _directories(admin, missing)
    troubles = []
    for topic in topics:
        for p in topic.partitions.values():
            # A partition with fewer replicas than min.insync.replicas asks for all it has.
            least = min(minimums.get(topic.name, 1), len(p.replicas))
            state = _state(p, least)
            if state is None:
                continue
            added = moving[(topic.name, p.partition)].adding if _is_in(moving, p) else ()
            reasons = {
                r: _reason(r, p, cluster, alive, added, directories, silent)
                for r in p.replicas
                if r not in p.isr
            }
            troubles.append(
                Trouble(topic.name, p.partition, state, p.leader, p.replicas, p.isr, least, reasons)
            )
    health = Health(
        HEALTHY,
        problems,
        cluster,
        quorum,
        sum(len(t.partitions) for t in topics),
        len(moving),
        troubles,
        silent,
    )
    for topic in topics:
        for p in topic.partitions.values():
            health.leaders[p.leader] = health.leaders.get(p.leader, 0) + 1
            for replica in p.replicas:
                health.replicas[replica] = health.replicas.get(replica, 0) + 1
    _judge(health)
    return health


def _is_in(moving: Mapping[TopicPartition, Any], p: PartitionInfo) -> bool:
    return (p.topic, p.partition) in moving


def _state(p: PartitionInfo, least: int) -> str | None:
    if p.leader < 0:
        return OFFLINE
    if len(p.isr) < least:
        return UNDER_MIN_ISR
    if len(p.isr) >= len(p.replicas):
        return None
    return AT_MIN_ISR if len(p.isr) == least else UNDER_REPLICATED


def _minimums(admin: Admin, topics: list[TopicInfo]) -> dict[str, int]:
    """min.insync.replicas of every topic."""
    from barnabas.client.administration.configs import TOPIC

    if not topics:
        return {}
    wanted = "min.insync.replicas"
    answers = admin.describe_configs([(TOPIC, t.name) for t in topics], keys=[wanted])
    found = {}
    for (_kind, name), entries in answers.items():
        if not isinstance(entries, Exception):
            values = [e.value for e in entries if e.name == wanted and e.value is not None]
            found[name] = int(values[0]) if values else 1
    return found


def _directories(
    admin: Admin, wanted: Mapping[int, list[TopicPartition]]
) -> tuple[dict[int, list[LogDir]], dict[int, str]]:
    """The log directories of these brokers with the partitions wanted, and why some could not be
    asked."""
    from barnabas.client.errors import ClientError

    found: dict[int, list[LogDir]] = {}
    silent: dict[int, str] = {}
    for broker, partitions in wanted.items():
        try:
            found.update(admin.describe_log_dirs([broker], partitions, timeout_ms=SILENT_MS))
        except ClientError as error:
            code = getattr(error, "code", None)
            silent[broker] = type(error).__name__ if code is None else code.name
    return found, silent


def _reason(
    replica: int,
    p: PartitionInfo,
    cluster: ClusterDescription,
    alive: set[int],
    added: tuple[int, ...],
    directories: Mapping[int, list[LogDir]],
    silent: Mapping[int, str],
) -> str:
    if replica not in {b.node_id for b in cluster.brokers}:
        return "broker not registered"
    if replica not in alive:
        return "broker fenced"
    if replica in silent:
        return f"broker does not answer ({silent[replica]})"
    found = directories.get(replica, [])
    held = [
        r
        for d in found
        for r in d.replicas
        if (r.topic, r.partition) == (p.topic, p.partition) and not r.is_future
    ]
    if not held:
        bad = [d.path for d in found if d.error is not None]
        if bad:
            return f"directory offline ({', '.join(bad)})"
        if replica in p.offline:
            return "directory offline"
        return "being added" if replica in added else "no replica there yet"
    lag = held[0].offset_lag
    behind = f", {lag} behind" if lag > 0 else ""
    return f"being added{behind}" if replica in added else f"out of sync{behind}"


def _judge(health: Health) -> None:
    """Fills problems, gravest first, and the verdict."""
    offline, under = health.count(OFFLINE), health.count(UNDER_MIN_ISR)
    grave = list(health.problems)
    if offline:
        grave.append(f"{_many(offline, 'partition')} without a leader: no reads, no writes")
    if under:
        grave.append(f"{_many(under, 'partition')} below min.insync.replicas: acks=all fails")
    light = []
    if health.cluster.fenced:
        fenced = ", ".join(map(str, sorted(health.cluster.fenced)))
        light.append(f"fenced brokers: {fenced}")
    if health.silent:
        told = ", ".join(f"{broker} ({why})" for broker, why in sorted(health.silent.items()))
        light.append(f"brokers that do not answer, and are not fenced yet: {told}")
    light += _quorum_problems(health.quorum)
    less = health.count(UNDER_REPLICATED)
    if less:
        light.append(f"{_many(less, 'partition')} with fewer in-sync replicas than assigned")
    health.problems = grave + light
    health.verdict = UNAVAILABLE if grave else DEGRADED if light else HEALTHY


def _quorum_problems(quorum: QuorumDescription | None) -> list[str]:
    if quorum is None:
        return []
    leader = quorum.leader
    if leader is None:
        return ["the quorum names no leader"]
    late = [
        v.node_id
        for v in quorum.voters
        if v.node_id != leader.node_id
        and leader.last_caught_up_ms - v.last_caught_up_ms > STALE_VOTER_MS
    ]
    if not late:
        return []
    return [f"controllers behind or silent: {', '.join(map(str, sorted(late)))}"]


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
