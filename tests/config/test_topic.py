"""A topic's settings over its broker's."""

from __future__ import annotations

from dataclasses import fields

import pytest

from barnabas.config.broker import BrokerConfig, broker_def
from barnabas.config.definition import ConfigError
from barnabas.config.topic import (
    TOPIC_SYNONYMS,
    LogConfig,
    attribute_name,
    topic_def,
    validate_topic_configs,
)

OF_THE_BROKER = {"max_decompressed_message_bytes"}


def test_the_typed_view_is_that_of_the_table() -> None:
    views = {field.name: field.default for field in fields(LogConfig)}
    rows = {attribute_name(row.name): row.default for row in topic_def()}
    rows["cleanup_policy"] = frozenset(rows["cleanup_policy"])
    assert {name: default for name, default in views.items() if name not in OF_THE_BROKER} == rows


def test_a_broker_without_settings_says_the_tables_defaults() -> None:
    assert LogConfig.of() == LogConfig.of({}, BrokerConfig())


@pytest.mark.parametrize("name", sorted(TOPIC_SYNONYMS))
def test_a_topic_setting_goes_before_the_brokers(name: str) -> None:
    row = topic_def()[name]
    assert all(synonym.name in broker_def() for synonym in TOPIC_SYNONYMS[name])
    samples = {
        "cleanup.policy": ("compact", "delete"),
        "compression.type": ("gzip", "zstd"),
        "message.timestamp.type": ("LogAppendTime", "CreateTime"),
        "min.cleanable.dirty.ratio": ("0.1", "0.2"),
        "compression.gzip.level": ("1", "2"),
        "compression.lz4.level": ("1", "2"),
        "compression.zstd.level": ("1", "2"),
    }.get(name, ("true", "false") if row.type.name == "BOOLEAN" else ("2000000", "3000000"))
    broker = BrokerConfig({TOPIC_SYNONYMS[name][0].name: samples[0]})

    def value(config: LogConfig) -> object:
        found = getattr(config, attribute_name(name))
        return tuple(found) if isinstance(found, frozenset) else found

    assert value(LogConfig.of({}, broker)) == row.parse(samples[0])
    assert value(LogConfig.of({name: samples[1]}, broker)) == row.parse(samples[1])


def test_policies_and_sizes() -> None:
    both = LogConfig.of({"cleanup.policy": "compact,delete", "segment.bytes": "2000000"})
    assert (both.compact, both.delete, both.segment_size) == (True, True, 2_000_000)
    neither = LogConfig.of({"cleanup.policy": ""})
    assert (neither.compact, neither.delete) == (False, False)
    assert LogConfig.of({"internal.segment.bytes": "100"}).segment_size == 100
    broker = BrokerConfig({"max.decompressed.message.bytes": "77"})
    assert LogConfig.of({}, broker).max_decompressed_message_bytes == 77


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"no.such.setting": "1"}, "Unknown topic config name: no.such.setting"),
        ({"retention.ms": "-2"}, "Invalid value -2 for configuration retention.ms"),
        ({"segment.bytes": "1000"}, "at least 1048576"),
        ({"min.cleanable.dirty.ratio": "2"}, "no more than 1"),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        ({"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled"),
        ({"cleanup.policy": "compact,compact"}, "must not be duplicated"),
        ({"leader.replication.throttled.replicas": "1"}, "must be the literal '*' or a list"),
    ],
)
def test_what_a_topic_may_not_have(overrides: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validate_topic_configs(overrides, BrokerConfig().topic_defaults)
    assert said in str(refused.value)


def test_rules_look_at_the_brokers_settings_too() -> None:
    defaults = BrokerConfig({"log.cleaner.max.compaction.lag.ms": "5"}).topic_defaults
    with pytest.raises(ConfigError, match="conflict topic config"):
        validate_topic_configs({"min.compaction.lag.ms": "10"}, defaults)
    validate_topic_configs({"min.compaction.lag.ms": "5"}, defaults)
