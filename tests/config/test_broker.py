"""A node's configuration: what is given, what holds without it, and what cannot be together."""

from __future__ import annotations

import pytest

from barnabas.config.broker import BrokerConfig, broker_def, broker_key, setting_type
from barnabas.config.broker_settings import BrokerSettings
from barnabas.config.definition import REQUIRED, ConfigError, DynamicMode
from barnabas.config.topic import attribute_name

HOUR_MS = 3_600_000


def test_a_node_needs_no_file() -> None:
    config = BrokerConfig()
    assert config.node_id == config.broker_id == 1
    assert config.process_roles == {"broker", "controller"}
    assert [str(each) for each in config.listeners] == ["PLAINTEXT://:9092"]
    assert config.log_dirs == ("/tmp/kafka-logs",)
    assert config.metadata_log_dir == "/tmp/kafka-logs"
    assert config.offsets_topic_replication_factor == 1


def test_a_configuration_is_frozen() -> None:
    with pytest.raises(AttributeError, match="frozen"):
        BrokerConfig().node_id = 2


@pytest.mark.parametrize(
    ("given", "attribute", "value"),
    [
        ({"node.id": "7"}, "broker_id", 7),
        ({"broker.id": "7"}, "node_id", 7),
        ({"broker.id": "-1"}, "node_id", 1),
        ({"log.dir": "/a"}, "log_dirs", ("/a",)),
        ({"log.dir": "/a", "log.dirs": "/b, /c"}, "log_dirs", ("/b", "/c")),
        ({"log.dirs": ""}, "log_dirs", ("/tmp/kafka-logs",)),
        ({"log.dirs": "/b,/c"}, "metadata_log_dir", "/b"),
        ({"log.dirs": "/b,/c", "metadata.log.dir": "/m"}, "metadata_log_dir", "/m"),
        ({"security.inter.broker.protocol": "PLAINTEXT"}, "inter_broker_listener", "PLAINTEXT"),
        ({"controller.quorum.voters": "1@h:1"}, "offsets_topic_replication_factor", 1),
        (
            {"controller.quorum.bootstrap.servers": "a:1,b:1"},
            "offsets_topic_replication_factor",
            3,
        ),
        ({"offsets.topic.replication.factor": "2"}, "offsets_topic_replication_factor", 2),
    ],
)
def test_one_setting_stands_for_another(
    given: dict[str, str], attribute: str, value: object
) -> None:
    assert getattr(BrokerConfig(given), attribute) == value


@pytest.mark.parametrize(
    ("given", "topic_setting", "value"),
    [
        ({}, "retention.ms", 168 * HOUR_MS),
        ({"log.retention.hours": "2"}, "retention.ms", 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, "retention.ms", 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, "retention.ms", 4),
        ({"log.retention.hours": "-1"}, "retention.ms", -1),
        ({"log.retention.ms": "-1"}, "retention.ms", -1),
        ({"log.roll.hours": "5"}, "segment.ms", 5 * HOUR_MS),
        ({"log.roll.hours": "5", "log.roll.ms": "6"}, "segment.ms", 6),
        ({"log.roll.jitter.hours": "1"}, "segment.jitter.ms", HOUR_MS),
        ({"log.roll.jitter.ms": "9"}, "segment.jitter.ms", 9),
        ({"log.flush.scheduler.interval.ms": "11"}, "flush.ms", 11),
        ({"log.flush.interval.ms": "12"}, "flush.ms", 12),
        ({"message.max.bytes": "13"}, "max.message.bytes", 13),
        ({"log.cleaner.min.cleanable.ratio": "0.25"}, "min.cleanable.dirty.ratio", 0.25),
        ({"log.cleanup.policy": "compact,delete"}, "cleanup.policy", ("compact", "delete")),
        ({"compression.type": "zstd"}, "compression.type", "zstd"),
        ({"min.insync.replicas": "2"}, "min.insync.replicas", 2),
    ],
)
def test_what_a_broker_says_for_its_topics(
    given: dict[str, str], topic_setting: str, value: object
) -> None:
    assert BrokerConfig(given).topic_defaults[topic_setting] == value


@pytest.mark.parametrize(
    ("given", "name", "said"),
    [
        ({"num.partitions": "0"}, "num.partitions", "at least 1"),
        ({"log.cleanup.policy": "shred"}, "log.cleanup.policy", "one of: compact, delete"),
        ({"compression.type": "brotli"}, "compression.type", "one of: uncompressed, zstd"),
        ({"process.roles": "broker,observer"}, "process.roles", "one of: broker, controller"),
        ({"node.id": "1", "broker.id": "2"}, "broker.id", "same value"),
        ({"node.id": "-3"}, "node.id", "at least 0"),
        ({"log.dirs": "/a,,/b"}, "log.dirs", "empty"),
        ({"log.retention.ms": "0"}, "log.retention.ms", "unlimited (-1) or"),
        ({"log.retention.hours": "0"}, "log.retention.hours", "unlimited (-1) or"),
        ({"log.retention.minutes": "-2"}, "log.retention.minutes", "unlimited (-1) or"),
        ({"log.roll.ms": "0"}, "log.roll.ms", "greater than or equal to 1"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms", "greater than or equal to 0"),
        (
            {"log.cleaner.dedupe.buffer.size": "1000"},
            "log.cleaner.dedupe.buffer.size",
            "1MB per cleaner thread",
        ),
        (
            {"broker.heartbeat.interval.ms": "6000"},
            "broker.heartbeat.interval.ms",
            "half of the broker.session.timeout.ms",
        ),
        (
            {"queued.max.request.bytes": "5"},
            "queued.max.request.bytes",
            "larger or equal to socket.request.max.bytes",
        ),
        ({"max.connections.per.ip": "0"}, "max.connections.per.ip", "overrides property is set"),
        (
            {"max.connections.per.ip.overrides": "10.0.0.1"},
            "max.connections.per.ip.overrides",
            "host:count",
        ),
        (
            {"group.min.session.timeout.ms": "9", "group.max.session.timeout.ms": "8"},
            "group.min.session.timeout.ms",
            "larger than",
        ),
        ({"controller.quorum.voters": "1@host"}, "controller.quorum.voters", "{id}@{host}:{port}"),
        ({"controller.quorum.voters": "2@h:1"}, "controller.quorum.voters", "node id 1"),
        (
            {
                "process.roles": "broker",
                "controller.quorum.voters": "1@h:1",
                "controller.listener.names": "C",
            },
            "controller.quorum.voters",
            "must not be included",
        ),
        (
            {"process.roles": "controller", "controller.listener.names": "C"},
            "listeners",
            "must only contain KRaft controller listeners",
        ),
        (
            {
                "process.roles": "broker",
                "listeners": "PLAINTEXT://:1,C://:2",
                "controller.listener.names": "C",
            },
            "controller.listener.names",
            "must not contain a value appearing in the 'listeners'",
        ),
        (
            {"listener.name.plaintext.max.connections": "many"},
            "listener.name.plaintext.max.connections",
            "Not a number of type INT",
        ),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, str], name: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig(given)
    assert refused.value.name == name
    assert said in str(refused.value)
    assert f"for configuration {name}: " in str(refused.value)


def test_settings_at_run_time() -> None:
    config = BrokerConfig({"log.retention.hours": "2", "num.partitions": "4"})
    assert config.with_dynamic({}, {}) is config
    changed = config.with_dynamic(
        {"log.retention.ms": "10", "max.connections": "5"}, {"max.connections": "6"}
    )
    assert changed.topic_defaults["retention.ms"] == 10
    assert (changed.max_connections, changed.num_partitions) == (6, 4)
    with pytest.raises(ConfigError):
        config.with_dynamic({"max.connections": "-1"}, {})


def test_settings_of_one_listener() -> None:
    config = BrokerConfig(
        {
            "listeners": "IN://:1,OUT://:2",
            "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT",
            "listener.name.out.max.connections": "10",
            "listener.name.out.max.connection.creation.rate": "20",
        }
    )
    assert config.of_listeners == {
        "OUT": {"max.connections": 10, "max.connection.creation.rate": 20}
    }


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("num.partitions", "num.partitions"),
        ("listener.name.internal.ssl.keystore.location", "ssl.keystore.location"),
        ("listener.name.internal.scram-sha-256.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.internal.no.such.thing", None),
        ("zookeeper.connect", None),
        ("leader.replication.throttled.rate", "leader.replication.throttled.rate"),
    ],
)
def test_rows(name: str, row: str | None) -> None:
    found = broker_key(name)
    assert (None if found is None else found.name) == row


def test_passwords_are_sensitive_and_nothing_else_is() -> None:
    sensitive = {row.name for row in broker_def() if row.sensitive}
    assert {"ssl.keystore.password", "sasl.jaas.config", "ssl.key.password"} <= sensitive
    assert "ssl.keystore.location" not in sensitive


def test_every_row_is_documented_and_its_default_is_legal() -> None:
    for row in broker_def():
        assert row.documentation.endswith("."), row.name
        if row.default is not None and row.default is not REQUIRED:
            row.check(row.default)
        assert isinstance(row.dynamic, DynamicMode)


def test_the_typed_attributes_are_those_of_the_table() -> None:
    """`BrokerSettings` is for readers and the type checker; this keeps it true."""
    rows = {attribute_name(row.name): row for row in broker_def()}
    for attribute, annotation in BrokerSettings.__annotations__.items():
        assert attribute in rows, attribute
        assert annotation == setting_type(rows[attribute]), attribute
