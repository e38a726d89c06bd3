"""Rules between settings of a node: each alone may be fine, together they cannot work.

One function a concern; each raises a `ConfigError` in Kafka's words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from barnabas.config.definition import ConfigError

if TYPE_CHECKING:
    from barnabas.config.broker import BrokerConfig

_VOTER = re.compile(r"(-?[0-9]+)@\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)")
_MEBIBYTE = 1_048_576


def check_rules(config: BrokerConfig) -> None:
    _check_log(config)
    _check_listeners(config)
    _check_quorum(config)
    _check_heartbeat(config)
    _check_limits(config)


def _require(condition: bool, name: str, value: object, reason: str) -> None:
    if not condition:
        raise ConfigError.invalid(name, value, reason)


def _check_log(config: BrokerConfig) -> None:
    shown = ",".join(config.log_dirs)
    _require(
        bool(config.log_dirs),
        "log.dirs",
        shown,
        "At least one log directory must be defined via log.dirs or log.dir.",
    )
    _require(all(config.log_dirs), "log.dirs", shown, "a directory in the list is empty.")
    roll, jitter = config.log_roll_ms, config.log_roll_jitter_ms
    _require(roll is None or roll >= 1, "log.roll.ms", roll, "must be greater than or equal to 1")
    _require(
        jitter is None or jitter >= 0,
        "log.roll.jitter.ms",
        jitter,
        "must be greater than or equal to 0",
    )
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        value = config.values[name]
        _require(
            value is None or value == -1 or value >= 1,
            name,
            value,
            "must be unlimited (-1) or, greater than or equal to 1",
        )
    _require(
        config.log_cleaner_dedupe_buffer_size > _MEBIBYTE,
        "log.cleaner.dedupe.buffer.size",
        config.log_cleaner_dedupe_buffer_size,
        "must be at least 1MB per cleaner thread.",
    )


def _check_listeners(config: BrokerConfig) -> None:
    shown = ",".join(str(listener) for listener in config.listeners)
    names = {listener.name for listener in config.listeners}
    controllers = config.controller_listener_names
    if config.is_controller and not config.is_broker:
        _require(
            names <= set(controllers),
            "listeners",
            shown,
            "must only contain KRaft controller listeners from controller.listener.names when "
            "process.roles=controller",
        )
    if config.is_broker and not config.is_controller:
        _require(
            not names & set(controllers),
            "controller.listener.names",
            ",".join(controllers),
            "must not contain a value appearing in the 'listeners' configuration when running "
            "KRaft with just the broker role",
        )
    if not config.is_broker:
        return
    hint = " Perhaps all listeners appear in controller.listener.names?" if names else ""
    _require(
        bool(config.advertised_listeners),
        "listeners",
        shown,
        f"There must be at least one broker advertised listener.{hint}",
    )
    advertised = {listener.name for listener in config.advertised_listeners}
    _require(
        advertised <= names,
        "advertised.listeners",
        ",".join(str(listener) for listener in config.advertised_listeners),
        "listener names must be equal to or a subset of the ones defined in listeners. "
        f"The valid options based on the current configuration are {','.join(sorted(names))}",
    )
    if config.inter_broker_listener_name is not None:
        _require(
            config.inter_broker_listener_name.upper() in advertised,
            "inter.broker.listener.name",
            config.inter_broker_listener_name,
            "must be a listener name defined in advertised.listeners. The valid options based on "
            f"currently configured listeners are {','.join(sorted(advertised))}",
        )


def _check_quorum(config: BrokerConfig) -> None:
    voters = config.controller_quorum_voters
    shown = ",".join(voters)
    ids = set()
    for voter in voters:
        match = _VOTER.fullmatch(voter)
        if match is None:
            raise ConfigError.invalid(
                "controller.quorum.voters",
                shown,
                "Each entry should be in the form `{id}@{host}:{port}`.",
            )
        ids.add(int(match[1]))
    if not config.is_controller:
        _require(
            bool(voters or config.controller_quorum_bootstrap_servers),
            "controller.quorum.bootstrap.servers",
            "",
            "a node with just the broker role must be told where the controllers are, here or in "
            "controller.quorum.voters",
        )
    elif len(voters) > 1:
        _require(
            bool(config.controller_listeners),
            "controller.listener.names",
            ",".join(config.controller_listener_names),
            "must contain at least one value appearing in the 'listeners' configuration when "
            "running the KRaft controller role with other voters",
        )
    if voters and config.is_controller:
        _require(
            config.node_id in ids,
            "controller.quorum.voters",
            shown,
            f"If process.roles contains the 'controller' role, the node id {config.node_id} must "
            "be included in the set of voters",
        )
    if voters and not config.is_controller:
        _require(
            config.node_id not in ids,
            "controller.quorum.voters",
            shown,
            f"If process.roles contains just the 'broker' role, the node id {config.node_id} must "
            "not be included in the set of voters",
        )


def _check_heartbeat(config: BrokerConfig) -> None:
    interval, session = config.broker_heartbeat_interval_ms, config.broker_session_timeout_ms
    _require(
        interval <= session // 2,
        "broker.heartbeat.interval.ms",
        interval,
        f"must be less than or equal to half of the broker.session.timeout.ms ({session} ms).",
    )


def _check_limits(config: BrokerConfig) -> None:
    queued = config.queued_max_request_bytes
    _require(
        queued <= 0 or queued >= config.socket_request_max_bytes,
        "queued.max.request.bytes",
        queued,
        "must be larger or equal to socket.request.max.bytes",
    )
    _require(
        config.max_connections_per_ip > 0 or bool(config.max_connections_per_ip_overrides),
        "max.connections.per.ip",
        config.max_connections_per_ip,
        "can be set to zero only if max.connections.per.ip.overrides property is set.",
    )
    overrides = config.max_connections_per_ip_overrides
    for pair in filter(None, (part.strip() for part in overrides.split(","))):
        host, _, count = pair.rpartition(":")
        _require(
            bool(host) and count.isdecimal(),
            "max.connections.per.ip.overrides",
            overrides,
            f"{pair} is not of the form host:count",
        )
    _require(
        config.group_min_session_timeout_ms <= config.group_max_session_timeout_ms,
        "group.min.session.timeout.ms",
        config.group_min_session_timeout_ms,
        "must not be larger than group.max.session.timeout.ms",
    )
