"""Every setting of a broker, a topic, a group and a subscription, held against Apache Kafka's own.

Names, types, defaults, synonyms, what is read-only and what is sensitive must be Kafka's, and every
setting must be documented (in our own words). What differs on purpose stands in the tables below.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.testing import Cluster
from barnabas.wire.messages import create_topics, describe_configs, incremental_alter_configs
from tests.peers import apache
from tests.peers.wire_connection import Wire

pytestmark = pytest.mark.skipif(apache.missing() is not None, reason=str(apache.missing()))

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
RESOURCES = {"broker": (BROKER, "1"), "topic": (TOPIC, "t"), "all brokers": (BROKER, ""),
             "group": (GROUP, "g"), "subscription": (CLIENT_METRICS, "c")}  # fmt: skip

OURS_ALONE = {
    "barnabas.adopt.topic.directories",
    "barnabas.flush.before.ack",
    "barnabas.format.if.empty",
    "barnabas.metrics.host",
    "barnabas.metrics.port",
    "barnabas.request.log.enable",
    "max.decompressed.message.bytes",
}
# Given to the one broker and not to the other, or different for each.
GIVEN = {
    "advertised.listeners",
    "broker.id",
    "controller.listener.names",
    "controller.quorum.voters",
    "group.initial.rebalance.delay.ms",
    "listener.security.protocol.map",
    "listeners",
    "log.dirs",
    "node.id",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
    "process.roles",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
}


class Setting(NamedTuple):
    value: str | None
    source: int
    type: int
    read_only: bool
    sensitive: bool
    documented: bool
    synonyms: tuple[tuple[str, str | None, int], ...]


def describe(wire: Wire, resource: tuple[int, str]) -> dict[str, Setting]:
    asked = describe_configs.DescribeConfigsResource(
        resource_type=resource[0], resource_name=resource[1], configuration_keys=None
    )
    request = describe_configs.DescribeConfigsRequest(
        resources=[asked], include_synonyms=True, include_documentation=True
    )
    (result,) = wire.ask(request, 4).results
    assert (result.error_code, result.error_message) == (0, "")
    return {
        each.name: Setting(
            each.value,
            each.config_source,
            each.config_type,
            each.read_only,
            each.is_sensitive,
            bool(each.documentation),
            tuple((one.name, one.value, one.source) for one in each.synonyms),
        )
        for each in result.configs
    }


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Wire, Wire]]:
    """Connections to Apache's broker and to ours, each with a topic `t`."""
    directory: Path = tmp_path_factory.mktemp("configs")
    theirs = apache.start_broker(directory)
    try:
        with (
            Cluster() as ours,
            Wire(theirs.bootstrap) as one,
            Wire(f"127.0.0.1:{ours.node.port}") as other,
        ):
            for wire in (one, other):
                topic = create_topics.CreatableTopic(
                    name="t", num_partitions=1, replication_factor=1
                )
                request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
                assert wire.ask(request, 7).topics[0].error_code == 0
            yield one, other
    finally:
        theirs.stop()


@pytest.mark.parametrize("resource", RESOURCES)
def test_the_same_settings(both: tuple[Wire, Wire], resource: str) -> None:
    theirs, ours = (describe(wire, RESOURCES[resource]) for wire in both)
    assert set(ours) - set(theirs) == (OURS_ALONE if resource == "broker" else set())
    assert set(theirs) - set(ours) == set()
    different = {
        name: (theirs[name], ours[name])
        for name in theirs
        if theirs[name] != ours[name] and name not in GIVEN
    }
    assert different == {}


def test_given_settings_have_the_same_kind(both: tuple[Wire, Wire]) -> None:
    theirs, ours = (describe(wire, RESOURCES["broker"]) for wire in both)
    for name in GIVEN:
        assert theirs[name][2:6] == ours[name][2:6], name
        default = [each for each in theirs[name].synonyms if each[2] == 5]
        assert [each for each in ours[name].synonyms if each[2] == 5] == default, name


def alter(wire: Wire, resource: tuple[int, str], operation: int, name: str, value: str) -> Any:
    change = incremental_alter_configs.AlterableConfig(
        name=name, config_operation=operation, value=value
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=resource[0], resource_name=resource[1], configs=[change]
            )
        ],
        validate_only=True,
    )
    return wire.ask(request, 1).responses[0]


REFUSED = [
    ("1", "num.partitions", "5"),
    ("1", "node.id", "5"),
    ("", "log.dirs", "/x"),
    ("1", "log.retention.hours", "5"),
    ("1", "log.retention.ms", "many"),
    ("1", "log.retention.ms", "0"),
    ("1", "max.connections", "-1"),
    ("", "compression.type", "brotli"),
    ("", "log.cleaner.dedupe.buffer.size", "10"),
    ("9", "log.retention.ms", "5"),
    ("x", "log.retention.ms", "5"),
]
TAKEN = [
    ("1", "log.retention.ms", "5000"),
    ("", "log.retention.ms", "5000"),
    ("1", "message.max.bytes", "2000000"),
    ("", "log.cleaner.threads", "2"),
    ("1", "no.such.setting", "1"),
    ("1", "num.io.threads", "9"),
]


@pytest.mark.parametrize(("broker", "name", "value"), REFUSED)
def test_changes_that_are_refused(
    both: tuple[Wire, Wire], broker: str, name: str, value: str
) -> None:
    theirs, ours = (alter(wire, (BROKER, broker), 0, name, value) for wire in both)
    assert theirs.error_code != 0
    assert ours.error_code == theirs.error_code, (theirs.error_message, ours.error_message)


@pytest.mark.parametrize(("broker", "name", "value"), TAKEN)
def test_changes_that_are_taken(
    both: tuple[Wire, Wire], broker: str, name: str, value: str
) -> None:
    theirs, ours = (alter(wire, (BROKER, broker), 0, name, value) for wire in both)
    assert (theirs.error_code, ours.error_code) == (0, 0), (theirs, ours)
