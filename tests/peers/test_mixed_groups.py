"""Groups of our consumers and those of other libraries, on every assignor they share.

One member leads and runs the assignor; the others must understand what it decides, and it what they
say of themselves. The first member leads until it leaves, so each side leads for a while. All of it
against Barnabas and against Apache Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.peers import apache, systems
from tests.peers.clients import CLIENTS, Record
from tests.peers.members import MEMBERS, AsyncBarnabasMember, BarnabasMember, Member
from tests.peers.topics import create_topic

PARTITIONS = 6
JAVA = "org.apache.kafka.clients.consumer."
OURS: dict[str, type[Any]] = {"barnabas": BarnabasMember, "barnabas-async": AsyncBarnabasMember}

Eventually = Callable[..., None]
Start = Callable[..., Any]


def of_kafka_python(name: str) -> Any:
    import importlib

    module, _, kind = name.rpartition(".")
    return (getattr(importlib.import_module(f"kafka.coordinator.assignors.{module}"), kind),)


def of_aiokafka(name: str) -> Any:
    import importlib

    module, _, kind = name.rpartition(".")
    return (getattr(importlib.import_module(f"aiokafka.coordinator.assignors.{module}"), kind),)


STRATEGIES: list[tuple[str, str, Callable[[], Any]]] = [
    ("range", "confluent", lambda: "range"),
    ("range", "aiokafka", lambda: of_aiokafka("range.RangePartitionAssignor")),
    ("range", "kafka_python", lambda: of_kafka_python("range.RangePartitionAssignor")),
    ("range", "java", lambda: JAVA + "RangeAssignor"),
    ("roundrobin", "confluent", lambda: "roundrobin"),
    ("roundrobin", "aiokafka", lambda: of_aiokafka("roundrobin.RoundRobinPartitionAssignor")),
    (
        "roundrobin",
        "kafka_python",
        lambda: of_kafka_python("roundrobin.RoundRobinPartitionAssignor"),
    ),
    ("roundrobin", "java", lambda: JAVA + "RoundRobinAssignor"),
    (
        "sticky",
        "aiokafka",
        lambda: of_aiokafka("sticky.sticky_assignor.StickyPartitionAssignor"),
    ),
    (
        "sticky",
        "kafka_python",
        lambda: of_kafka_python("sticky.sticky_assignor.StickyPartitionAssignor"),
    ),
    ("sticky", "java", lambda: JAVA + "StickyAssignor"),
    ("cooperative-sticky", "confluent", lambda: "cooperative-sticky"),
    (
        "cooperative-sticky",
        "kafka_python",
        lambda: of_kafka_python("cooperative_sticky.CooperativeStickyAssignor"),
    ),
    ("cooperative-sticky", "java", lambda: JAVA + "CooperativeStickyAssignor"),
]


@pytest.fixture(scope="module")
def apache_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apache.ApacheBroker]:
    if (reason := apache.missing()) is not None:
        pytest.skip(reason)
    running = apache.start_broker(tmp_path_factory.mktemp("apache"), systems.TEST_SIZED)
    yield running
    running.stop()


@pytest.fixture(params=["barnabas", "apache"])
def server(request: pytest.FixtureRequest) -> str:
    fixture = "broker" if request.param == "barnabas" else "apache_broker"
    return str(request.getfixturevalue(fixture).bootstrap)


@pytest.fixture
def start() -> Iterator[Start]:
    """`start(library, bootstrap, group, topic, strategy)`; all are stopped afterwards."""
    running: list[Member] = []

    def begin(library: str, bootstrap: str, group: str, topic: str, strategy: Any) -> Member:
        kind = OURS.get(library) or MEMBERS[library]
        member: Member = kind(bootstrap, group, [topic], partition_assignment_strategy=strategy)
        running.append(member)
        return member

    yield begin
    for member in running:
        if not member.stopping.is_set():
            member.stop()


def share(members: list[Member]) -> bool:
    """Everything is held, nothing twice, and evenly."""
    for member in members:
        assert member.failure() is None
    held = [member.assigned() for member in members]
    sizes = [len(one) for one in held]
    return sum(sizes) == PARTITIONS == len(set().union(*held)) and max(sizes) - min(sizes) <= 1


class Ledger:
    """What was written, and that every record of it is seen once."""

    def __init__(self, bootstrap: str, topic: str, eventually: Eventually) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.eventually = eventually
        self.members: list[Member] = []
        self.written: set[bytes] = set()

    def write(self, mark: str) -> None:
        values = [f"{mark}-{i}-{n}".encode() for n in range(5) for i in range(PARTITIONS)]
        records = [Record(int(v.split(b"-")[1]), None, v) for v in values]
        CLIENTS["confluent"].produce(self.bootstrap, self.topic, records)
        self.written |= set(values)

    def seen(self) -> Counter[bytes]:
        return Counter(r.value or b"" for member in self.members for r in member.records())

    def check(self) -> None:
        self.eventually(lambda: self.seen().keys() >= self.written)
        twice = {value: count for value, count in self.seen().items() if count > 1}
        assert not twice, f"consumed more than once: {twice}"


@pytest.mark.parametrize(
    ("strategy", "library", "theirs"),
    STRATEGIES,
    ids=[f"{strategy}-{library}" for strategy, library, _ in STRATEGIES],
)
def test_members_of_both_kinds_join_and_leave(
    *,
    strategy: str,
    library: str,
    theirs: Callable[[], Any],
    server: str,
    name: str,
    start: Start,
    eventually: Eventually,
) -> None:
    if (reason := CLIENTS[library].missing()) is not None:
        pytest.skip(reason)
    create_topic(server, name, PARTITIONS)
    order = ["barnabas", library, "barnabas-async"]
    ledger = Ledger(server, name, eventually)
    ledger.write("first")
    present: list[Member] = []
    for number, each in enumerate(order):
        member = start(each, server, name, name, strategy if each in OURS else theirs())
        present.append(member)
        ledger.members.append(member)
        eventually(lambda: share(present))
        ledger.write(f"join{number}")
        ledger.check()
    for number in range(len(order) - 1):
        present.pop(0).stop()
        eventually(lambda: share(present))
        ledger.write(f"leave{number}")
        ledger.check()
