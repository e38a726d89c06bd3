"""Files written for Apache Kafka are accepted, and no setting does nothing in silence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import barnabas
from barnabas.config.broker import BrokerConfig, broker_def
from barnabas.config.definition import ConfigError, Support
from barnabas.config.properties import read_properties
from barnabas.config.support import check_supported, dynamic_warnings, warnings
from barnabas.config.topic import TOPIC_SYNONYMS, LogConfig, attribute_name, topic_def

COMBINED = """\
# A combined node, as a distribution ships it.

############################# Server Basics #############################
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093

listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\\
    SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600

log.dirs=/var/lib/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
#log.flush.interval.messages=10000
#log.flush.interval.ms=1000
log.retention.hours=168
#log.retention.bytes=1073741824
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""

SEVERAL_LISTENERS = """\
! What somebody made of it for containers.
node.id = 3
process.roles : broker,controller
controller.quorum.voters=3@kafka:29093
listeners=INTERNAL://0.0.0.0:29092,EXTERNAL://0.0.0.0:9092,CONTROLLER://0.0.0.0:29093
advertised.listeners=INTERNAL://kafka:29092,EXTERNAL://localhost:9092
listener.security.protocol.map=INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=INTERNAL
listener.name.external.max.connections=100
log.dirs=/data/a, /data/b
auto.create.topics.enable=false
num.network.threads=5
log.cleaner.threads=2
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin
transaction.max.timeout.ms=60000
remote.log.storage.system.enable=true
rsm.config.bucket=things
confluent.support.metrics.enable=false
"""

OLD = """\
broker.id=0
port=9092
host.name=localhost
listeners=PLAINTEXT://:9092
log.dirs=/tmp/kafka-logs
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
inter.broker.protocol.version=2.8-IV1
log.message.format.version=2.8-IV1
offsets.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
delete.topic.enable=true
"""


def accepted(text: str) -> BrokerConfig:
    config = BrokerConfig(read_properties(text))
    check_supported(config)
    return config


def test_the_file_of_a_distribution() -> None:
    config = accepted(COMBINED)
    assert config.log_dirs == ("/var/lib/kraft-combined-logs",)
    assert config.listener_security_protocol_map["SASL_SSL"] == "SASL_SSL"
    assert warnings(config) == []


def test_a_file_with_much_that_is_not_there_yet() -> None:
    config = accepted(SEVERAL_LISTENERS)
    assert [str(each) for each in config.advertised_listeners] == [
        "INTERNAL://kafka:29092",
        "EXTERNAL://localhost:9092",
    ]
    assert config.of_listeners == {"EXTERNAL": {"max.connections": 100}}
    assert config.unknown_settings() == ["confluent.support.metrics.enable", "super.users"]
    assert config.unsupported_settings() == [
        "authorizer.class.name",
        "remote.log.storage.system.enable",
        "rsm.config.bucket",
        "transaction.max.timeout.ms",
    ]
    assert config.settings_without_effect() == ["log.cleaner.threads", "num.network.threads"]
    assert len(warnings(config)) == 2 + 4 + 2


def test_a_file_of_zookeepers_time() -> None:
    config = accepted(OLD)
    assert (config.node_id, config.is_controller) == (0, True)
    assert config.unknown_settings() == [
        "host.name",
        "inter.broker.protocol.version",
        "log.message.format.version",
        "port",
        "zookeeper.connect",
        "zookeeper.connection.timeout.ms",
    ]
    assert warnings(config)[0] == "unknown setting host.name is ignored"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"listeners": "SSL://:9092"}, "listeners"),
        (
            {
                "listeners": "IN://:1,OUT://:2",
                "listener.security.protocol.map": "IN:PLAINTEXT,OUT:SASL_PLAINTEXT",
            },
            "listeners",
        ),
    ],
)
def test_what_would_be_another_node_is_refused(given: dict[str, str], name: str) -> None:
    with pytest.raises(ConfigError, match="not supported yet") as refused:
        check_supported(BrokerConfig(given))
    assert refused.value.name == name


def test_a_secure_controller_listener_is_refused() -> None:
    config = BrokerConfig(
        {
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
        }
    )
    with pytest.raises(ConfigError, match="CONTROLLER has the security protocol SSL"):
        check_supported(config)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"process.roles": "broker"}, "controller.quorum.bootstrap.servers"),
        ({"controller.quorum.voters": "1@a:1,2@b:1"}, "controller.listener.names"),
        (
            {
                "controller.quorum.voters": "2@a:1,3@b:1",
                "controller.listener.names": "C",
                "listeners": "PLAINTEXT://:1,C://:2",
            },
            "controller.quorum.voters",
        ),
    ],
)
def test_a_quorum_that_cannot_be_reached_is_refused(given: dict[str, str], name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig(given)
    assert refused.value.name == name


def test_the_roles_of_a_cluster_are_accepted() -> None:
    quorum = {"controller.quorum.voters": "1@a:1,2@b:1,3@c:1", "controller.listener.names": "C"}
    for given in (
        {"process.roles": "controller", "node.id": "2", "listeners": "C://:1"},
        {"process.roles": "broker", "node.id": "9", "listeners": "PLAINTEXT://:1"},
        {"node.id": "3", "listeners": "PLAINTEXT://:1,C://:2"},
    ):
        config = BrokerConfig({**quorum, **given})
        check_supported(config)
        assert warnings(config) == []


def test_changes_at_run_time_that_do_nothing_are_told() -> None:
    before = {"background.threads": "4", "quota.window.num": "7"}
    after = {**before, "background.threads": "5", "no.such": "1", "max.connections": "3"}
    assert dynamic_warnings(None, before, after) == [
        "setting background.threads has no effect: this server has nothing that it could change",
        "unknown setting no.such is ignored",
    ]
    topic = {"retention.ms": "5", "remote.storage.enable": "true"}
    assert dynamic_warnings(topic_def().keys, {}, topic) == [
        "setting remote.storage.enable is not supported yet and is ignored"
    ]


# Settings that are read under another name, and where.
READ_ELSEWHERE = {
    "process.roles": "config/broker.py: is_broker, is_controller",
    "inter.broker.listener.name": "config/broker.py: inter_broker_listener",
    "log.dir": "config/broker.py: log.dirs",
    "max.decompressed.message.bytes": "config/topic.py: every topic's LogConfig",
    "offsets.topic.compression.codec": "server/node.py, through values",
}
SOURCES = {
    path: path.read_text()
    for path in Path(barnabas.__file__).parent.rglob("*.py")
    if "config" not in path.relative_to(Path(barnabas.__file__).parent).parts
}


def is_read(owners: str, attribute: str) -> bool:
    use = re.compile(rf"\b(?:{owners})\.{attribute}\b")
    return any(use.search(text) for text in SOURCES.values())


@pytest.mark.parametrize("name", [row.name for row in broker_def() if row.support is Support.YES])
def test_what_counts_as_supported_is_read_by_somebody(name: str) -> None:
    synonyms = {each.name for several in TOPIC_SYNONYMS.values() for each in several}
    read = is_read(r"config|broker|_config|static_config", attribute_name(name))
    assert read or name in synonyms or name in READ_ELSEWHERE


@pytest.mark.parametrize("name", [row.name for row in topic_def() if row.support is Support.YES])
def test_what_counts_as_supported_for_topics_is_read_by_somebody(name: str) -> None:
    through = {"internal.segment.bytes": "segment_size", "segment.bytes": "segment_size"}
    through["cleanup.policy"] = "compact"
    attribute = through.get(name, attribute_name(name))
    assert hasattr(LogConfig, attribute)
    assert is_read(r"config|_config|settings|self", attribute)
