"""Moving replicas: plans, how to make one, throttles, and how far a move is.

A plan says for some partitions which brokers shall hold them, and perhaps in which directories. Plans
are read and written in the JSON of kafka-reassign-partitions. `propose` makes one that moves little:
a replica that may stay stays, a new one goes to the rack and then the broker with the least, and
leadership is spread over the brokers chosen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.cli.exits import CommandError

if TYPE_CHECKING:
    from barnabas.client.admin import Admin
    from barnabas.client.administration.replicas import Reassignment
    from barnabas.client.core.metadata import Broker, TopicInfo, TopicPartition

ANY = "any"
BROKER_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
DIRECTORY_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
TOPIC_LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


@dataclass(frozen=True, slots=True)
class Target:
    replicas: tuple[int, ...]
    directories: tuple[str, ...] = ()

    @property
    def directory_moves(self) -> list[tuple[int, str]]:
        placed = zip(self.replicas, self.directories, strict=False)
        return [(broker, path) for broker, path in placed if path != ANY]


Plan = dict["TopicPartition", Target]


def read_plan(text: str) -> Plan:
    """`{"version":1,"partitions":[{"topic":…,"partition":…,"replicas":[…],"log_dirs":[…]}]}`."""
    try:
        data = json.loads(text)
        if not isinstance(data, dict) or data.get("version") != 1:
            raise CommandError('A plan is a JSON object with "version": 1.')
        found: Plan = {}
        for entry in data["partitions"]:
            place = (str(entry["topic"]), int(entry["partition"]))
            replicas = tuple(int(broker) for broker in entry["replicas"])
            directories = tuple(str(path) for path in entry.get("log_dirs") or ())
            _check_entry(place, replicas, directories, place in found)
            found[place] = Target(replicas, directories)
    except json.JSONDecodeError as error:
        raise CommandError(f"The plan is not JSON: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise CommandError(f"The plan misses or misspells {error}.") from None
    if not found:
        raise CommandError("Partition reassignment list cannot be empty")
    return found


def _check_entry(
    place: TopicPartition, replicas: tuple[int, ...], directories: tuple[str, ...], double: bool
) -> None:
    name = f"{place[0]}-{place[1]}"
    if double:
        raise CommandError(f"Partition reassignment contains duplicate topic partitions: {name}")
    twice = sorted({broker for broker in replicas if replicas.count(broker) > 1})
    if twice:
        raise CommandError(
            "Partition replica lists may not contain duplicate entries: "
            f"{name} contains multiple entries for {','.join(map(str, twice))}"
        )
    if directories and len(directories) != len(replicas):
        raise CommandError(
            f"Size of replicas list {list(replicas)} is different from size of log dirs list "
            f"{list(directories)} for partition {name}"
        )


def write_plan(plan: Mapping[TopicPartition, Target]) -> str:
    entries = [
        {
            "topic": topic,
            "partition": index,
            "replicas": list(target.replicas),
            "log_dirs": list(target.directories or [ANY] * len(target.replicas)),
        }
        for (topic, index), target in sorted(plan.items())
    ]
    return json.dumps({"version": 1, "partitions": entries}, separators=(",", ":"))


# -- the present


def current_plan(
    topics: Iterable[TopicInfo], wanted: Iterable[TopicPartition] | None = None
) -> Plan:
    chosen = None if wanted is None else set(wanted)
    return {
        (topic.name, index): Target(p.replicas)
        for topic in topics
        for index, p in sorted(topic.partitions.items())
        if chosen is None or (topic.name, index) in chosen
    }


def with_directories(admin: Admin, plan: Plan) -> Plan:
    """The plan with the directory of each replica, where its broker tells."""
    places: dict[tuple[str, int, int], str] = {}
    for broker, directories in admin.describe_log_dirs(partitions=plan).items():
        for directory in directories:
            for r in directory.replicas:
                if not r.is_future:
                    places[(r.topic, r.partition, broker)] = directory.path
    return {
        (topic, index): Target(
            target.replicas,
            tuple(places.get((topic, index, broker), ANY) for broker in target.replicas),
        )
        for (topic, index), target in plan.items()
    }


def require_topics(admin: Admin, names: Iterable[str]) -> list[TopicInfo]:
    """Topics that exist, or an error that names the others."""
    answers = admin.describe_topics(sorted(set(names)))
    found = []
    for answer in answers.values():
        if isinstance(answer, Exception):
            raise answer
        found.append(answer)
    return found


# -- proposals


def propose(
    current: Mapping[TopicPartition, Target],
    brokers: Sequence[Broker],
    *,
    replication_factor: int | None = None,
    rack_aware: bool = True,
) -> Plan:
    """Place every partition on these brokers, moving as little as balance allows."""
    racks = {b.node_id: (b.rack or "") if rack_aware else "" for b in brokers}
    count: dict[int, int] = dict.fromkeys(racks, 0)
    slots = sum(replication_factor or len(t.replicas) for t in current.values())
    room = -(-slots // len(racks)) if racks else 0
    leads: dict[int, int] = dict.fromkeys(racks, 0)
    plan: Plan = {}
    for place, target in sorted(current.items()):
        factor = replication_factor or len(target.replicas)
        if factor > len(racks):
            raise CommandError(
                f"{place[0]}-{place[1]} needs {factor} brokers, one for each replica, and there are "
                f"only {len(racks)} to choose from ({', '.join(map(str, racks)) or 'none'}). Name more "
                "brokers, or ask for fewer replicas."
            )
        chosen: list[int] = []
        for broker in target.replicas:
            fits = broker in racks and len(chosen) < factor and count[broker] < room
            if fits and not _doubles_rack(broker, chosen, racks):
                chosen.append(broker)
                count[broker] += 1
        while len(chosen) < factor:
            used = [racks[b] for b in chosen]
            broker = min(
                (b for b in racks if b not in chosen),
                key=lambda b: (used.count(racks[b]), count[b], b),
            )
            chosen.append(broker)
            count[broker] += 1
        first = min(chosen, key=lambda b: (leads[b], chosen.index(b)))
        leads[first] += 1
        plan[place] = Target((first, *(b for b in chosen if b != first)))
    return plan


def _doubles_rack(broker: int, chosen: Sequence[int], racks: Mapping[int, str]) -> bool:
    """Whether a rack would hold two replicas while another holds none."""
    used = {racks[b] for b in chosen}
    return racks[broker] in used and len(set(racks.values())) > len(used)


def drained(
    current: Mapping[TopicPartition, Target], gone: set[int], brokers: Sequence[Broker]
) -> Plan:
    """Only what the brokers `gone` hold moves, to the others."""
    racks = {b.node_id: b.rack or "" for b in brokers if b.node_id not in gone}
    count = dict.fromkeys(racks, 0)
    for target in current.values():
        for broker in target.replicas:
            if broker in count:
                count[broker] += 1
    plan: Plan = {}
    for place, target in sorted(current.items()):
        if not gone.intersection(target.replicas):
            continue
        chosen = list(target.replicas)
        for index, broker in enumerate(chosen):
            if broker not in gone:
                continue
            free = [b for b in racks if b not in chosen]
            if not free:
                raise CommandError(
                    f"{place[0]}-{place[1]} has {len(chosen)} replicas; without broker {broker} "
                    f"only {len(racks)} brokers are left to hold them."
                )
            used = [racks[b] for b in chosen if b in racks]
            chosen[index] = min(free, key=lambda b: (used.count(racks[b]), count[b], b))
            count[chosen[index]] += 1
        plan[place] = Target(tuple(chosen))
    return plan


# -- throttles


def throttle(
    admin: Admin,
    current: Mapping[TopicPartition, Target],
    plan: Mapping[TopicPartition, Target],
    moving: Mapping[TopicPartition, Reassignment],
    rate: int | None,
    directory_rate: int | None = None,
) -> None:
    """Bound the bytes a second that the copying replicas may use, on brokers and topics."""
    from barnabas.client.administration.configs import BROKER, SET, TOPIC, ConfigChange

    changes: dict[tuple[int, str], list[ConfigChange]] = {}
    if rate is not None:
        leaders, followers = throttled_replicas(current, plan, moving)
        for topic in sorted(leaders):
            changes[(TOPIC, topic)] = [
                ConfigChange(TOPIC_LISTS[0], ",".join(sorted(leaders[topic])), SET),
                ConfigChange(TOPIC_LISTS[1], ",".join(sorted(followers.get(topic, ()))), SET),
            ]
        brokers = {b for target in (*current.values(), *plan.values()) for b in target.replicas}
        brokers |= {b for move in moving.values() for b in move.replicas}
        for broker in sorted(brokers):
            changes[(BROKER, str(broker))] = [
                ConfigChange(name, str(rate), SET) for name in BROKER_RATES
            ]
    if directory_rate is not None:
        for broker in sorted({b for t in plan.values() for b, _path in t.directory_moves}):
            changes.setdefault((BROKER, str(broker)), []).append(
                ConfigChange(DIRECTORY_RATE, str(directory_rate), SET)
            )
    _alter(admin, changes)


def throttled_replicas(
    current: Mapping[TopicPartition, Target],
    plan: Mapping[TopicPartition, Target],
    moving: Mapping[TopicPartition, Reassignment],
) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """For each topic the `partition:broker` that send, and those that receive."""
    leaders: dict[str, set[str]] = {}
    followers: dict[str, set[str]] = {}
    for (topic, index), target in plan.items():
        move = moving.get((topic, index))
        sources = set(current[(topic, index)].replicas)
        arrivals = set(target.replicas) - sources
        if move is not None:
            sources = set(move.replicas) - set(move.adding)
            arrivals = set(target.replicas) - sources
        leaders.setdefault(topic, set()).update(f"{index}:{b}" for b in sources)
        followers.setdefault(topic, set()).update(f"{index}:{b}" for b in arrivals)
    return leaders, followers


def clear_throttles(admin: Admin, topics: Iterable[str]) -> tuple[list[int], list[str]]:
    """Lift throttles from all brokers and from these topics; which those were."""
    from barnabas.client.administration.configs import BROKER, DELETE, TOPIC, ConfigChange

    brokers = sorted(b.node_id for b in admin.describe_cluster().brokers)
    names = sorted(set(topics))
    settings = (*BROKER_RATES, DIRECTORY_RATE)
    changes = {
        (BROKER, str(broker)): [ConfigChange(n, None, DELETE) for n in settings]
        for broker in brokers
    }
    known = {t.name for t in admin.list_topics()}
    for name in names:
        if name in known:
            changes[(TOPIC, name)] = [ConfigChange(n, None, DELETE) for n in TOPIC_LISTS]
    _alter(admin, changes)
    return brokers, names


def _alter(admin: Admin, changes: Mapping[tuple[int, str], list[Any]]) -> None:
    if not changes:
        return
    for error in admin.alter_configs(changes).values():
        if error is not None:
            raise error


# -- how far


def bytes_left(admin: Admin, moving: Mapping[TopicPartition, Reassignment]) -> int | None:
    """How much the replicas that are being added still lack, judged by sizes on disk."""
    from barnabas.client.errors import ClientError

    if not moving:
        return 0
    try:
        found = admin.describe_log_dirs(partitions=moving)
    except ClientError:
        return None
    sizes: dict[tuple[str, int, int], int] = {}
    for broker, directories in found.items():
        for directory in directories:
            for r in directory.replicas:
                sizes[(r.topic, r.partition, broker)] = r.size_in_bytes
    left = 0
    for (topic, index), move in moving.items():
        whole = max((sizes.get((topic, index, b), 0) for b in move.replicas), default=0)
        left += sum(whole - sizes.get((topic, index, b), 0) for b in move.adding)
    return left
