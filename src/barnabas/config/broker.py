"""The configuration of one node.

`broker_def()` is the table. `BrokerConfig` is what the server reads: every setting as a typed
attribute (`log.retention.ms` is `log_retention_ms`), with listeners, roles and directories
resolved.
It is frozen; a dynamic change makes a new one (`with_dynamic`).

A node needs no file: without one it is a combined broker and controller with id 1, alone in its
quorum. Settings that Kafka requires have a default here for that reason, and the replication of
internal topics, three by default, becomes one when this node is the only one its configuration
knows of. Values that are given are never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from barnabas.config.broker_rules import check_rules
from barnabas.config.broker_settings import BrokerSettings
from barnabas.config.definition import (
    REQUIRED,
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigType,
    Support,
)
from barnabas.config.listeners import Endpoint, parse_endpoints, parse_protocol_map
from barnabas.config.topic import attribute_name, broker_topic_defaults

_STANDALONE: Final[Mapping[str, Any]] = {
    "node.id": 1,
    "process.roles": ("broker", "controller"),
    "controller.listener.names": (),
}
_ALONE: Final[Mapping[str, int]] = {
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
}
_SAYS_NOTHING: Final[Mapping[str, str]] = {"inter.broker.listener.name": "PLAINTEXT"}
_LISTENER_PREFIX: Final = "listener.name."
LISTENER_SETTINGS: Final = frozenset(("max.connections", "max.connection.creation.rate"))
"""What may be set for one listener alone and is honoured there."""
_PASSED_ON_PREFIXES: Final = ("config.providers.", "rsm.config.", "rlmm.config.")


@cache
def broker_def() -> ConfigDef:
    """The table of broker and controller settings."""
    from barnabas.config.tables import (
        cleaner,
        groups,
        network,
        node,
        own,
        quorum,
        quotas,
        replication,
        sasl,
        security,
        shares,
        storage,
        tiered,
        transactions,
    )

    tables = (node, network, storage, cleaner, replication, quorum, groups, shares, transactions)
    more = (quotas, tiered, security, sasl, own)
    return ConfigDef.of(*(table.KEYS for table in (*tables, *more)))


@cache
def dynamic_broker_def() -> ConfigDef:
    """The broker table with the few settings that exist only as dynamic ones."""
    from barnabas.config.tables import quotas

    return ConfigDef.of(broker_def(), quotas.DYNAMIC_ONLY_KEYS)


def broker_key(name: str) -> ConfigKey | None:
    """The row of a setting, also of one that is prefixed with a listener's name."""
    row = dynamic_broker_def().get(name)
    return row if row is not None else _listener_key(name)[1]


def _listener_key(name: str) -> tuple[str, ConfigKey | None]:
    """The listener and the row of `listener.name.{listener}.[{mechanism}.]{setting}`."""
    if not name.startswith(_LISTENER_PREFIX):
        return "", None
    listener, *rest = name[len(_LISTENER_PREFIX) :].split(".")
    for at in range(min(len(rest), 2)):
        row = dynamic_broker_def().get(".".join(rest[at:]))
        if row is not None:
            return listener.upper(), row
    return "", None


class BrokerConfig(BrokerSettings):
    """A node's settings; `given` is what was set, `values` every setting by its own name."""

    given: Mapping[str, str]
    values: Mapping[str, Any]
    topic_defaults: Mapping[str, Any]
    listeners: tuple[Endpoint, ...]
    advertised_listeners: tuple[Endpoint, ...]
    listener_security_protocol_map: Mapping[str, str]
    process_roles: frozenset[str]
    log_dirs: tuple[str, ...]
    metadata_log_dir: str
    of_listeners: Mapping[str, Mapping[str, Any]]

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        given = dict(given or {})
        values = _parse(given)
        protocols = _protocols(given, values)
        listeners = parse_endpoints("listeners", values["listeners"], protocols)
        log_dirs = values["log.dirs"] or values["log.dir"]
        attributes: dict[str, Any] = {attribute_name(n): value for n, value in values.items()}
        attributes.update(
            given=MappingProxyType(given),
            values=MappingProxyType(values),
            topic_defaults=MappingProxyType(broker_topic_defaults(values)),
            listeners=listeners,
            advertised_listeners=_advertised(values, listeners, protocols),
            listener_security_protocol_map=MappingProxyType(protocols),
            process_roles=frozenset(values["process.roles"]),
            log_dirs=tuple(log_dirs),
            metadata_log_dir=values["metadata.log.dir"] or (log_dirs[0] if log_dirs else ""),
            of_listeners=_of_listeners(given),
        )
        self.__dict__.update(attributes)
        check_rules(self)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a BrokerConfig is frozen; {name} cannot be set")

    def __repr__(self) -> str:
        return f"BrokerConfig(node_id={self.node_id}, given={len(self.given)} settings)"

    @property
    def is_broker(self) -> bool:
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.process_roles

    @property
    def broker_listeners(self) -> tuple[Endpoint, ...]:
        """The listeners for clients: all but the controller's."""
        names = self.controller_listener_names
        return tuple(listener for listener in self.listeners if listener.name not in names)

    @property
    def controller_listeners(self) -> tuple[Endpoint, ...]:
        """The listeners for other nodes that have to do with the quorum."""
        names = self.controller_listener_names
        return tuple(listener for listener in self.listeners if listener.name in names)

    @property
    def advertised_controller_listeners(self) -> tuple[Endpoint, ...]:
        """What `advertised.listeners` says of them."""
        advertised = self.values["advertised.listeners"]
        if not advertised:
            return ()
        names = self.controller_listener_names
        endpoints = parse_endpoints(
            "advertised.listeners",
            advertised,
            self.listener_security_protocol_map,
            distinct_ports=False,
        )
        return tuple(each for each in endpoints if each.name in names)

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener by which brokers reach one another."""
        named = self.inter_broker_listener_name
        return named.upper() if named else self.security_inter_broker_protocol

    def unknown_settings(self) -> list[str]:
        """Given settings that no table knows; a server names them in a warning."""
        return sorted(
            name
            for name in self.given
            if broker_key(name) is None and not name.startswith(_PASSED_ON_PREFIXES)
        )

    def unsupported_settings(self) -> list[str]:
        """Given settings that are known and do nothing yet, where the value asks for something."""
        return sorted(
            name
            for name in self.given
            if self._asks_in_vain(name, Support.NOT_YET)
            or name.startswith(_PASSED_ON_PREFIXES)
            or (name.startswith(_LISTENER_PREFIX) and not _is_honoured_of_listener(name))
        )

    def settings_without_effect(self) -> list[str]:
        """Given settings that mean nothing to this server, where the value asks for something."""
        return sorted(name for name in self.given if self._asks_in_vain(name, Support.NO_EFFECT))

    def _asks_in_vain(self, name: str, support: Support) -> bool:
        row = broker_def().get(name)
        if row is None or row.support is not support:
            return False
        nothing = {row.default, _SAYS_NOTHING.get(name)}
        if _is_alone(self.values):
            nothing.add(_ALONE.get(name))
        return self.values[name] not in nothing

    def with_dynamic(
        self, defaults: Mapping[str, str], per_broker: Mapping[str, str]
    ) -> BrokerConfig:
        """This configuration with what was set at run time, for all brokers and for this one."""
        if not defaults and not per_broker:
            return self
        return BrokerConfig({**self.given, **defaults, **per_broker})


def _parse(given: dict[str, str]) -> dict[str, Any]:
    table = broker_def()
    values: dict[str, Any] = {}
    for name, row in table.keys.items():
        if name in given:
            values[name] = row.parse(given[name])
        else:
            values[name] = _STANDALONE[name] if row.default is REQUIRED else row.default
    _settle_node_id(given, values)
    if _is_alone(values):
        values.update((name, value) for name, value in _ALONE.items() if name not in given)
    return values


def _of_listeners(given: Mapping[str, str]) -> Mapping[str, Mapping[str, Any]]:
    """Settings of one listener, by its name; every given one is checked."""
    found: dict[str, dict[str, Any]] = {}
    for name, text in given.items():
        listener, row = _listener_key(name)
        if row is not None:
            value = replace(row, name=name).parse(text)
            if _is_honoured_of_listener(name):
                found.setdefault(listener, {})[row.name] = value
    return MappingProxyType(found)


def _is_honoured_of_listener(name: str) -> bool:
    row = _listener_key(name)[1]
    return row is None or row.name in LISTENER_SETTINGS


def _settle_node_id(given: Mapping[str, str], values: dict[str, Any]) -> None:
    if (
        "node.id" in given
        and "broker.id" in given
        and values["broker.id"] not in (-1, values["node.id"])
    ):
        raise ConfigError.invalid(
            "broker.id",
            given["broker.id"],
            "You must set `node.id` to the same value as `broker.id`.",
        )
    if "node.id" not in given and values["broker.id"] >= 0:
        values["node.id"] = values["broker.id"]
    values["broker.id"] = values["node.id"]


def _is_alone(values: Mapping[str, Any]) -> bool:
    """Whether nothing in the configuration speaks of another node."""
    both = set(values["process.roles"]) == {"broker", "controller"}
    known = max(
        len(values["controller.quorum.voters"]), len(values["controller.quorum.bootstrap.servers"])
    )
    return both and known <= 1


def _protocols(given: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, str]:
    name = "listener.security.protocol.map"
    protocols = parse_protocol_map(name, values[name])
    if name not in given:
        for listener in values["controller.listener.names"]:
            protocols.setdefault(listener.upper(), "PLAINTEXT")
    return protocols


def _advertised(
    values: Mapping[str, Any], listeners: tuple[Endpoint, ...], protocols: Mapping[str, str]
) -> tuple[Endpoint, ...]:
    names = values["controller.listener.names"]
    advertised = values["advertised.listeners"]
    if not advertised:
        return tuple(
            Endpoint(each.name, "" if each.is_any_address else each.host, each.port, each.protocol)
            for each in listeners
            if each.name not in names
        )
    endpoints = parse_endpoints("advertised.listeners", advertised, protocols, distinct_ports=False)
    for each in endpoints:
        if each.host and each.is_any_address:
            raise ConfigError.invalid(
                "advertised.listeners",
                ",".join(advertised),
                f"cannot use the nonroutable meta-address {each.host}. Use a routable IP address.",
            )
    return tuple(each for each in endpoints if each.name not in names)


def setting_type(row: ConfigKey) -> str:
    """The annotation under which a setting appears in `BrokerSettings`."""
    kind = {
        ConfigType.BOOLEAN: "bool",
        ConfigType.DOUBLE: "float",
        ConfigType.LIST: "tuple[str, ...]",
        ConfigType.INT: "int",
        ConfigType.LONG: "int",
        ConfigType.SHORT: "int",
    }.get(row.type, "str")
    return f"{kind} | None" if row.default is None else kind
