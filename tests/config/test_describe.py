"""Where a value comes from, and what else was said of it."""

from __future__ import annotations

from barnabas.config.broker import BrokerConfig
from barnabas.config.describe import (
    BrokerSources,
    ConfigSource,
    Described,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)

DEFAULT, STATIC = ConfigSource.DEFAULT_CONFIG, ConfigSource.STATIC_BROKER_CONFIG
FOR_ALL, OWN = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG


class Layers:
    """A broker with settings from everywhere."""

    def __init__(
        self,
        static: dict[str, str] | None = None,
        for_all: dict[str, str] | None = None,
        own: dict[str, str] | None = None,
    ) -> None:
        config = BrokerConfig(static)
        self.sources = BrokerSources.of(config, for_all or {}, own or {})
        self.config = config.with_dynamic(for_all or {}, own or {})

    def broker(self, name: str) -> Described:
        return {each.name: each for each in describe_broker(self.config, self.sources)}[name]

    def topic(self, name: str, **own: str) -> Described:
        topic = {key.replace("_", "."): value for key, value in own.items()}
        return {each.name: each for each in describe_topic(topic, self.config, self.sources)}[name]


def test_the_strongest_source_first() -> None:
    layers = Layers({"max.connections": "1"}, {"max.connections": "2"}, {"max.connections": "3"})
    described = layers.broker("max.connections")
    assert (described.value, described.source, described.read_only) == ("3", OWN, False)
    assert [(value, source) for _, value, source in described.synonyms] == [
        ("3", OWN),
        ("2", FOR_ALL),
        ("1", STATIC),
        ("2147483647", DEFAULT),
    ]


def test_relatives_in_other_units() -> None:
    layers = Layers({"log.retention.hours": "2"}, own={"log.retention.ms": "10"})
    assert [tuple(each) for each in layers.topic("retention.ms").synonyms] == [
        ("log.retention.ms", "10", OWN),
        ("log.retention.hours", "2", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    ]
    own = layers.topic("retention.ms", retention_ms="5")
    assert (own.value, own.source) == ("5", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert own.synonyms[0].name == "retention.ms"
    hours = layers.broker("log.retention.hours")
    assert (hours.value, hours.source, hours.read_only) == ("2", STATIC, True)
    assert hours.synonyms[0] == ("log.retention.hours", "2", STATIC)


def test_either_name_of_the_nodes_id() -> None:
    layers = Layers({"node.id": "7"})
    assert (layers.broker("broker.id").value, layers.broker("broker.id").source) == ("7", STATIC)
    layers = Layers({"broker.id": "7"})
    assert (layers.broker("node.id").value, layers.broker("node.id").source) == ("7", STATIC)


def test_passwords_are_hidden_wherever_they_come_from() -> None:
    layers = Layers({"ssl.key.password": "s1"}, own={"ssl.keystore.password": "s2"})
    for name in ("ssl.key.password", "ssl.keystore.password"):
        described = layers.broker(name)
        assert (described.sensitive, described.value) == (True, None)
        assert [each.value for each in described.synonyms] == [None]
    told = list(describe_all_brokers(Layers(for_all={"ssl.key.password": "s"}).sources))
    assert [(each.name, each.value, each.source) for each in told] == [
        ("ssl.key.password", None, FOR_ALL)
    ]


def test_settings_that_exist_only_at_run_time_are_shown_once_they_are_set() -> None:
    name = "leader.replication.throttled.rate"
    assert name not in {each.name for each in describe_broker(Layers().config, Layers().sources)}
    assert Layers(own={name: "9"}).broker(name).value == "9"


def test_groups_and_subscriptions() -> None:
    layers = Layers({"group.consumer.session.timeout.ms": "50000"})
    found = {
        each.name: each
        for each in describe_group(
            {"consumer.heartbeat.interval.ms": "6000"}, layers.config, layers.sources
        )
    }
    session = found["consumer.session.timeout.ms"]
    assert (session.value, session.source) == ("50000", STATIC)
    heartbeat = found["consumer.heartbeat.interval.ms"]
    assert (heartbeat.value, heartbeat.source) == ("6000", ConfigSource.GROUP_CONFIG)
    assert found["share.isolation.level"].synonyms == (
        ("share.isolation.level", "read_uncommitted", DEFAULT),
    )
    (interval,) = [
        each
        for each in describe_client_metrics({"interval.ms": "1000"})
        if each.name == "interval.ms"
    ]
    assert interval.source == ConfigSource.CLIENT_METRICS_CONFIG
    assert [each.value for each in interval.synonyms] == ["1000"]
