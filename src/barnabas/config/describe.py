"""What DescribeConfigs shows: a setting's value, where it comes from, and what else was said of it.

A value has a chain of sources. A topic's own setting goes before the broker's dynamic settings, these
before the dynamic defaults of all brokers, these before the file, and the built-in default is last. The
chain is listed as synonyms under the broker's names, since `retention.ms` of a topic is
`log.retention.ms` or one of its relatives on the broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from barnabas.config.broker import BrokerConfig, broker_def, broker_key, dynamic_broker_def
from barnabas.config.definition import (
    ConfigKey,
    ConfigType,
    DynamicMode,
    format_value,
)
from barnabas.config.group import GROUP_SYNONYMS, client_metrics_def, group_def
from barnabas.config.topic import TOPIC_SYNONYMS, LogConfig, attribute_name, topic_def


class ConfigSource(IntEnum):
    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class Described(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource
    synonyms: tuple[Synonym, ...]
    read_only: bool
    sensitive: bool
    type: ConfigType | None
    documentation: str | None


# Broker settings that say the same in other units, the finest first.
_RELATED: Final = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
)
_FAMILY: Final[Mapping[str, tuple[str, ...]]] = {
    name: family for family in _RELATED for name in family
}


class BrokerSources(NamedTuple):
    """The broker's settings by where they were set: at run time for it, for all, in its file."""

    per_broker: Mapping[str, str]
    for_all: Mapping[str, str]
    static: Mapping[str, str]

    @classmethod
    def of(
        cls, broker: BrokerConfig, for_all: Mapping[str, str], per_broker: Mapping[str, str]
    ) -> BrokerSources:
        """`broker` has what was given at the start. Either name of the node's id gives both."""
        static = dict(broker.given)
        for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
            if other in static:
                static.setdefault(name, static[other])
        return cls(per_broker, for_all, static)

    def chain(self, name: str) -> list[Synonym]:
        """Everything that was said of a broker setting, the strongest first."""
        family = _FAMILY.get(name, (name,))
        found: list[Synonym] = []
        for settings, source in (
            (self.per_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (self.for_all, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self.static, ConfigSource.STATIC_BROKER_CONFIG),
        ):
            found += [Synonym(each, settings[each], source) for each in family if each in settings]
        for each in family:
            row = broker_def().get(each)
            default = None if row is None else format_value(row.default)
            if default is not None:
                found.append(Synonym(each, default, ConfigSource.DEFAULT_CONFIG))
        # Relatives that are stronger than the setting itself belong to them, not to it.
        while found and found[0].name != name:
            del found[0]
        return [_hidden(each) for each in found]


def _hidden(synonym: Synonym) -> Synonym:
    row = broker_key(synonym.name)
    sensitive = row is None or row.sensitive
    return synonym._replace(value=None) if sensitive else synonym


def describe_topic(
    own: Mapping[str, str], broker: BrokerConfig, sources: BrokerSources
) -> Iterator[Described]:
    effective = LogConfig.of(own, broker)
    for row in topic_def():
        if row.internal and row.name not in own:
            continue
        related = TOPIC_SYNONYMS.get(row.name)
        synonyms = sources.chain(related[0].name) if related else []
        if row.name in own:
            synonyms.insert(0, Synonym(row.name, own[row.name], ConfigSource.DYNAMIC_TOPIC_CONFIG))
        value = getattr(effective, attribute_name(row.name))
        yield _described(row, own.get(row.name, format_value(value)), synonyms)


def describe_broker(broker: BrokerConfig, sources: BrokerSources) -> Iterator[Described]:
    for row in dynamic_broker_def():
        only_dynamic = row.name not in broker_def()
        if row.internal or (only_dynamic and not sources.chain(row.name)):
            continue
        read_only = row.dynamic is DynamicMode.READ_ONLY
        value = sources.per_broker.get(row.name, sources.for_all.get(row.name))
        if value is None:
            value = sources.static.get(row.name, format_value(broker.values.get(row.name)))
        yield _described(row, value, sources.chain(row.name), read_only=read_only)


def describe_all_brokers(sources: BrokerSources) -> Iterator[Described]:
    """The dynamic defaults of all brokers, which have no broker of their own."""
    for name in sorted(sources.for_all):
        row = broker_key(name)
        if row is not None:
            synonym = Synonym(
                name, sources.for_all[name], ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
            )
            yield _described(row, sources.for_all[name], [_hidden(synonym)])


def describe_group(
    own: Mapping[str, str], broker: BrokerConfig, sources: BrokerSources
) -> Iterator[Described]:
    for row in group_def():
        related = GROUP_SYNONYMS.get(row.name)
        default = format_value(row.default)
        synonyms = [Synonym(row.name, default, ConfigSource.DEFAULT_CONFIG)]
        if related is not None:
            synonyms = sources.chain(related)
        if row.name in own:
            synonyms.insert(0, Synonym(row.name, own[row.name], ConfigSource.GROUP_CONFIG))
        if related is not None:
            default = format_value(broker.values.get(related, row.default))
        yield _described(row, own.get(row.name, default), synonyms)


def describe_client_metrics(own: Mapping[str, str]) -> Iterator[Described]:
    for row in client_metrics_def():
        synonyms = []
        if row.name in own:
            source = ConfigSource.CLIENT_METRICS_CONFIG
            synonyms.append(Synonym(row.name, own[row.name], source))
        yield _described(row, own.get(row.name, format_value(row.default)), synonyms)


def _described(
    row: ConfigKey, value: str | None, synonyms: list[Synonym], *, read_only: bool = False
) -> Described:
    return Described(
        name=row.name,
        value=None if row.sensitive else value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        synonyms=tuple(synonyms),
        read_only=read_only,
        sensitive=row.sensitive,
        type=row.type,
        documentation=row.documentation,
    )
