"""Settings of the two smaller resources: one group, and one client-metrics subscription."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from barnabas.config.definition import ConfigDef, ConfigError

GROUP_SYNONYMS: Final[Mapping[str, str]] = {
    name: f"group.{name}"
    for name in (
        "consumer.session.timeout.ms",
        "consumer.heartbeat.interval.ms",
        "consumer.assignment.interval.ms",
        "share.session.timeout.ms",
        "share.heartbeat.interval.ms",
        "share.record.lock.duration.ms",
        "share.delivery.count.limit",
        "share.partition.max.record.locks",
        "share.assignment.interval.ms",
        "streams.session.timeout.ms",
        "streams.heartbeat.interval.ms",
        "streams.num.standby.replicas",
        "streams.initial.rebalance.delay.ms",
        "streams.assignment.interval.ms",
    )
}

_MATCH_NAMES: Final = frozenset(
    (
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    )
)
_INTERVAL_MS_LOWEST, _INTERVAL_MS_HIGHEST = 100, 3_600_000


@cache
def group_def() -> ConfigDef:
    """The table of settings that one group may have."""
    from barnabas.config.tables import group_resources

    return ConfigDef.of(group_resources.KEYS)


@cache
def client_metrics_def() -> ConfigDef:
    """The table of settings of a client-metrics subscription."""
    from barnabas.config.tables import client_metrics

    return ConfigDef.of(client_metrics.KEYS)


def validate_group_configs(
    overrides: Mapping[str, str | None], broker: Mapping[str, object]
) -> None:
    """Refuses unknown names and values outside of the broker's `min` and `max`."""
    table = group_def()
    for name in overrides:
        if name not in table:
            raise ConfigError(f"Unknown group config name: {name}", name)
    parsed = table.parse_given(overrides)
    for name, value in parsed.items():
        kind, _, setting = name.partition(".")
        setting = setting.removeprefix("num.")
        lowest = broker.get(f"group.{kind}.min.{setting}")
        if isinstance(lowest, int) and value < lowest:
            raise ConfigError(
                f"{name} must be greater than or equal to group.{kind}.min.{setting}", name, value
            )
        highest = broker.get(f"group.{kind}.max.{setting}")
        if isinstance(highest, int) and value > highest:
            raise ConfigError(
                f"{name} must be less than or equal to group.{kind}.max.{setting}", name, value
            )
    for kind in ("consumer", "share", "streams"):
        names = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        session, heartbeat = (parsed.get(n, broker.get(f"group.{n}")) for n in names)
        if not any(n in parsed for n in names):
            continue
        if isinstance(session, int) and isinstance(heartbeat, int) and session <= heartbeat:
            raise ConfigError(f"{names[0]} must be greater than {names[1]}", names[0], session)


def validate_client_metrics_configs(overrides: Mapping[str, str | None]) -> None:
    """Refuses what cannot be a client-metrics subscription."""
    table = client_metrics_def()
    for name in overrides:
        if name not in table:
            raise ConfigError(f"Unknown client metrics configuration: {name}", name)
    parsed = table.parse_given(overrides)
    interval = parsed.get("interval.ms")
    if interval is not None and not _INTERVAL_MS_LOWEST <= interval <= _INTERVAL_MS_HIGHEST:
        raise ConfigError(
            f"Invalid value {interval} for interval.ms, interval must be between "
            f"{_INTERVAL_MS_LOWEST} and {_INTERVAL_MS_HIGHEST} (1 hour)",
            "interval.ms",
            interval,
        )
    for pattern in parsed.get("match", ()):
        name, separator, expression = pattern.partition("=")
        try:
            re.compile(expression.strip())
            legal = bool(separator) and name.strip() in _MATCH_NAMES
        except re.error:
            legal = False
        if not legal:
            raise ConfigError(f"Illegal client matching pattern: {pattern}", "match", pattern)
